package launcher

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/rota-scheduler/rota/worker"
)

// The launch log is a file of JSON lines, four kinds:
//
//	{"log":ID}                                 which log this is, once
//	{"launch":RECEIPT,"boot":BOOT}             before anything of the run exists
//	{"process":RECEIPT,"pid":N,"start":N}      after its process exists
//	{"send":RECEIPT,"attempt":N,"boot":BOOT}   before an attempt to deliver its result
//
// Attempts are numbered over all daemons, so that the last line alone tells how
// many were announced.
//
// What a log does not mention never started, but only in the log that was kept
// when the run was activated: a new one, or another database's, mentions nothing
// too. So the ledger remembers the ID.
//
// A line counts if and only if it is whole, with its line feed. Each is one
// write(2) on an O_APPEND descriptor; it is never synced. A line that could not
// be written whole means that nothing was started, so it is passed over when
// read, wherever it stands.
//
// A settled run keeps its lines until more than half of a file over 256 KiB is
// settled; then the open ones are written to a new file that takes its place.
// What an earlier daemon left is open until it is settled, or until this one
// launches its first run: recovery, which alone reads it, is over by then,
// because a worker launches nothing before. What is still to be delivered stays
// open longer: its order takes its lines over. So the file stays small, however
// short the lives of the daemons are.

const (
	trimAboveBytes  = 256 << 10
	maxLogLineBytes = 64 << 10
)

// logLine is one line of the launch log.
type logLine struct {
	Log     string `json:"log,omitempty"`
	Launch  string `json:"launch,omitempty"`
	Boot    string `json:"boot,omitempty"`
	Process string `json:"process,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Start   int64  `json:"start,omitempty"`
	Send    string `json:"send,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
}

// text is the line as it is written. Nearly all lines are launches by ids that
// need no escapes, and each run waits for its own.
func (l *logLine) text() ([]byte, error) {
	if *l == (logLine{Launch: l.Launch, Boot: l.Boot}) && isPlain(l.Launch) && isPlain(l.Boot) {
		b := make([]byte, 0, len(l.Launch)+len(l.Boot)+32)
		b = append(append(b, `{"launch":"`...), l.Launch...)
		b = append(append(b, `","boot":"`...), l.Boot...)
		return append(b, "\"}\n"...), nil
	}
	raw, err := json.Marshal(l)
	return append(raw, '\n'), err
}

// isPlain reports whether JSON has a text as it is. An empty one is left out of a
// line.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return text != ""
}

// receipt is the run that the line is about; one of the three is set.
func (l *logLine) receipt() string { return l.Launch + l.Process + l.Send }

// launchLog is the writing side. A nil one keeps nothing.
type launchLog struct {
	path   string
	bootID string

	mu        sync.Mutex // guards all below; held over a write, never over a wait
	file      *os.File
	header    []byte            // the line with the log's identity
	torn      bool              // the file does not end with a line feed
	size      int64             // bytes in the file
	open      map[string][]byte // lines of the runs that are not settled
	openSize  int64             // bytes of those lines
	inherited map[string]bool   // open runs of an earlier daemon
}

// openLaunchLog opens or makes the log at path; none for "".
func openLaunchLog(path, bootID string) (*launchLog, error) {
	if path == "" {
		return nil, nil
	}
	g := &launchLog{path: path, bootID: bootID, open: make(map[string][]byte), inherited: make(map[string]bool)}
	lines, err := readLines(path, func(line logLine, raw []byte) {
		if line.Log != "" {
			g.header = append([]byte(nil), raw...)
			return
		}
		g.keep(line.receipt(), bytes.Clone(raw))
		g.inherited[line.receipt()] = true
	})
	if err == nil {
		err = g.reopen()
	}
	if err != nil {
		return nil, logError("open", err)
	}
	g.torn = lines.torn
	return g, nil
}

func logError(op string, err error) error {
	return &Error{Code: "launch-log", Op: op + " launch log", Message: "the launch log cannot be used, so nothing is started",
		Hint: "free disk space, or correct the owner and mode of the state directory", Err: err}
}

func (g *launchLog) reopen() error {
	file, err := os.OpenFile(g.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return err
	}
	g.file, g.size = file, info.Size()
	return nil
}

// announce notes that a run is about to start. If it fails, the run must not.
func (g *launchLog) announce(receiptID string) error {
	if g == nil {
		return nil
	}
	g.disinherit()
	if err := g.append(receiptID, logLine{Launch: receiptID, Boot: g.bootID}); err != nil {
		return logError("append to", err)
	}
	return nil
}

// disinherit forgets what an earlier daemon left: recovery is over.
func (g *launchLog) disinherit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id := range g.inherited {
		g.drop(id)
	}
}

// inherit takes the lines of a run over from an earlier daemon: its delivery
// goes on here.
func (g *launchLog) inherit(receiptID string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.inherited, receiptID)
}

// announceSend notes that an attempt to deliver is about to be made. If it
// fails, the attempt must not.
func (g *launchLog) announceSend(receiptID string, number int) error {
	if g == nil {
		return nil
	}
	if err := g.append(receiptID, logLine{Send: receiptID, Attempt: number, Boot: g.bootID}); err != nil {
		return logError("append to", err)
	}
	return nil
}

// started notes the process of an announced run.
func (g *launchLog) started(receiptID string, p *worker.Process) error {
	if g == nil {
		return nil
	}
	return g.append(receiptID, logLine{Process: receiptID, PID: p.PID, Start: p.StartTime})
}

func (g *launchLog) append(receiptID string, line logLine) error {
	raw, err := line.text()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil { // an earlier replacement failed half-way
		if err := g.reopen(); err != nil {
			return err
		}
	}
	whole := raw
	if g.torn { // so that the rest of a broken line does not swallow this one
		whole = append([]byte{'\n'}, raw...)
	}
	n, err := g.file.Write(whole)
	g.size += int64(n)
	if err != nil {
		g.torn = g.torn || n > 0
		return err
	}
	g.torn = false
	g.keep(receiptID, raw)
	return nil
}

// keep remembers a line of an open run. The line is the log's from then on.
func (g *launchLog) keep(receiptID string, raw []byte) {
	g.openSize += int64(len(raw))
	if lines, ok := g.open[receiptID]; ok {
		raw = append(lines, raw...)
	}
	g.open[receiptID] = raw
}

// drop forgets the lines of a run.
func (g *launchLog) drop(receiptID string) {
	g.openSize -= int64(len(g.open[receiptID]))
	delete(g.open, receiptID)
	delete(g.inherited, receiptID)
}

// settle notes that the end of a run is committed, and trims the file when
// that is worth it.
func (g *launchLog) settle(receiptID string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.drop(receiptID)
	if g.size <= trimAboveBytes || g.openSize*2 >= g.size {
		return nil
	}
	if err := g.trim(); err != nil {
		return logError("trim", err)
	}
	return nil
}

// trim puts a file with the open lines in the log's place. At every moment one
// of the two is there under the log's name. The old file is closed before the
// rename, because Windows does not replace an open one.
func (g *launchLog) trim() error {
	next := g.path + ".new"
	var lines bytes.Buffer
	lines.Grow(len(g.header) + int(g.openSize))
	lines.Write(g.header)
	for _, raw := range g.open {
		lines.Write(raw)
	}
	_ = os.Remove(next) // what a kill left behind; the write tells if it is still there
	if err := os.WriteFile(next, lines.Bytes(), 0o600); err != nil {
		return err
	}
	if g.file != nil {
		g.file.Close() // nothing is buffered
		g.file = nil
	}
	if err := os.Rename(next, g.path); err != nil {
		return errors.Join(err, g.reopen()) // the old file goes on
	}
	g.torn = false
	return g.reopen()
}

func (g *launchLog) close() error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.file == nil {
		return nil
	}
	err := g.file.Close()
	g.file = nil
	return err
}

// ReadLog tells what the launch log at path says of each run, in the order of
// their first lines, and whether its process is running now. A process of
// another boot is not. The boot of a run is that of its last announcement. No
// file is an empty log.
func ReadLog(path, bootID string) ([]worker.Logged, error) {
	var logged []worker.Logged
	at := make(map[string]int)
	_, err := readLines(path, func(line logLine, _ []byte) {
		if line.Log != "" {
			return
		}
		i, known := at[line.receipt()]
		switch {
		case line.Send != "":
			if !known {
				i = len(logged)
				at[line.Send] = i
				logged = append(logged, worker.Logged{ReceiptID: line.Send})
			}
			logged[i].BootID, logged[i].Sends = line.Boot, max(logged[i].Sends, line.Attempt)
		case line.Launch != "" && !known:
			at[line.Launch] = len(logged)
			logged = append(logged, worker.Logged{ReceiptID: line.Launch, BootID: line.Boot})
		case line.Launch != "": // resumed after it had not started: the last launch counts
			logged[i] = worker.Logged{ReceiptID: line.Launch, BootID: line.Boot}
		case known:
			logged[i].Process = &worker.Process{BootID: logged[i].BootID, PID: line.PID, StartTime: line.Start}
		}
	})
	if err != nil {
		return nil, readError(path, err)
	}
	for i := range logged {
		if p := logged[i].Process; p != nil && p.BootID == bootID {
			logged[i].Alive = processAlive(p.PID, p.StartTime)
		}
	}
	return logged, nil
}

func readError(path string, err error) error {
	return &Error{Code: "launch-log", Op: "read launch log", Message: "the launch log cannot be read",
		Hint: "correct the owner and mode of " + path, Err: err}
}

// kinds is how many of the kinds of lines this one is.
func (l *logLine) kinds() (n int) {
	for _, word := range []string{l.Log, l.Launch, l.Process, l.Send} {
		if word != "" {
			n++
		}
	}
	return n
}

// LogID gives the identity of the launch log at path, and makes the log, or
// gives it a new identity, where there is none.
func LogID(path string) (id string, err error) {
	end, err := readLines(path, func(line logLine, _ []byte) {
		if line.Log != "" {
			id = line.Log
		}
	})
	if err != nil || id != "" {
		return id, readErrorOrNil(path, err)
	}
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the program instead
	g := &launchLog{path: path, torn: end.torn, open: make(map[string][]byte)}
	id = hex.EncodeToString(random[:])
	if err := errors.Join(g.append("", logLine{Log: id}), g.close()); err != nil {
		return "", logError("open", err)
	}
	return id, nil
}

func readErrorOrNil(path string, err error) error {
	if err == nil {
		return nil
	}
	return readError(path, err)
}

// logEnd is how a log ends.
type logEnd struct{ torn bool }

// readLines calls each for every whole line of the log at path.
func readLines(path string, each func(line logLine, raw []byte)) (logEnd, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return logEnd{}, nil
	} else if err != nil {
		return logEnd{}, err
	}
	defer file.Close()
	in := bufio.NewReaderSize(file, maxLogLineBytes)
	for {
		raw, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return logEnd{}, fmt.Errorf("a line is longer than %d bytes: not a launch log", maxLogLineBytes)
		case errors.Is(err, io.EOF):
			return logEnd{torn: len(raw) > 0}, nil
		case err != nil:
			return logEnd{}, err
		}
		var line logLine
		if json.Unmarshal(raw, &line) == nil && line.kinds() == 1 {
			each(line, raw)
		}
	}
}
