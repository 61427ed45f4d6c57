//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rota-scheduler/rota/host"
)

// stallPatience bounds every wait of these tests; none is expected to last.
const stallPatience = 60 * time.Second

// stallSite is one state directory and the daemon that serves it now.
type stallSite struct {
	t      *testing.T
	dir    string
	sock   string
	starts int
	proc   *stallProcess
	client *host.Client
}

// stallProcess is one daemon.
type stallProcess struct {
	cmd   *exec.Cmd
	talk  *bytes.Buffer // complete when ended is closed
	ready string        // the file that is there once it serves
	ended chan struct{}
}

// newStallSite makes a state directory with a configuration and no daemon.
func newStallSite(t *testing.T, config string) *stallSite {
	t.Helper()
	dir, err := os.MkdirTemp("", "rota-stall-") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &stallSite{t: t, dir: dir, sock: filepath.Join(dir, "rota.sock")}
	t.Cleanup(func() {
		if s.proc != nil {
			s.client.Close()
			s.proc.kill()
			if t.Failed() {
				t.Logf("the daemon said:\n%s", s.proc.talk)
			}
		}
		os.RemoveAll(dir)
	})
	return s
}

func (s *stallSite) spawn(out *os.File, args ...string) *stallProcess {
	s.t.Helper()
	s.starts++
	p := &stallProcess{talk: &bytes.Buffer{}, ready: filepath.Join(s.dir, fmt.Sprintf("ready-%d", s.starts)), ended: make(chan struct{})}
	p.cmd = exec.Command(crashPlain(s.t), append([]string{"serve", "--listen", "", "--durability", "normal", "--state-dir", s.dir, "--ready-file", p.ready}, args...)...)
	p.cmd.Stderr = p.talk
	if out != nil {
		p.cmd.Stdout = out
	}
	if err := p.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	return p
}

// start starts the program until one serves: while another holds the files, it
// exits with 75 and is started again. It tells how often that was.
func (s *stallSite) start(out *os.File, args ...string) (busy int) {
	s.t.Helper()
	p := s.spawn(out, args...)
	stallAwait(s.t, "a daemon that serves", func() bool {
		select {
		case <-p.ended:
			if code := p.cmd.ProcessState.ExitCode(); code != exitBusy {
				s.t.Fatalf("the daemon ended with %d:\n%s", code, p.talk)
			}
			busy++
			p = s.spawn(out, args...)
		default:
		}
		_, err := os.Stat(p.ready)
		return err == nil
	})
	s.proc = p
	s.client = s.dial()
	return busy
}

func (s *stallSite) dial() *host.Client {
	s.t.Helper()
	c, err := host.Dial(s.sock)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// kill ends the daemon without a word and waits.
func (p *stallProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// signal asks the daemon to stop, and gives the time of the question.
func (p *stallProcess) signal(t *testing.T) time.Time {
	t.Helper()
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return time.Now()
}

// exit waits for the end and demands that it came in time and with this code.
func (p *stallProcess) exit(t *testing.T, since time.Time, code int, within time.Duration) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(stallPatience):
		p.kill()
		t.Fatalf("the daemon does not stop:\n%s", p.talk)
	}
	took := time.Since(since)
	t.Logf("stopped after %v", took.Round(time.Millisecond))
	if got := p.cmd.ProcessState.ExitCode(); got != code || took > within {
		t.Errorf("exit %d after %v, want %d within %v:\n%s", got, took, code, within, p.talk)
	}
}

// ask calls a method and demands its answer.
func (s *stallSite) ask(c *host.Client, method, params string, into any) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), stallPatience)
	defer cancel()
	if err := c.Call(ctx, method, json.RawMessage(params), into); err != nil {
		s.t.Fatalf("%s %s: %v", method, params, err)
	}
}

// add adds a command job and gives its id.
func (s *stallSite) add(name, schedule string, argv ...string) string {
	s.t.Helper()
	var added struct{ ID string }
	s.ask(s.client, "cron.add", stallJob(name, schedule, argv...), &added)
	return added.ID
}

func stallJob(name, schedule string, argv ...string) string {
	list, err := json.Marshal(argv)
	if err != nil {
		panic(err) // strings always encode
	}
	return fmt.Sprintf(`{"name":%q,"schedule":%s,"payload":{"kind":"command","argv":%s}}`, name, schedule, list)
}

// hourly never comes due in a test.
const hourly = `{"kind":"every","everyMs":3600000}`

func stallAt(at time.Time) string {
	return `{"kind":"at","at":"` + at.UTC().Format("2006-01-02T15:04:05.000Z") + `"}`
}

// stallRun is a line of the history.
type stallRun struct {
	JobID, RunID, Status         string
	SlotMs, StartedAtMs, RunAtMs int64
	TsMs                         int64 `json:"ts"`
}

// history is every finished run of a job, newest first; of all jobs for "".
func (s *stallSite) history(jobID string) (all []stallRun) {
	s.t.Helper()
	for offset := 0; ; {
		params := fmt.Sprintf(`{"limit":200,"offset":%d}`, offset)
		if jobID != "" {
			params = fmt.Sprintf(`{"id":%q,"limit":200,"offset":%d}`, jobID, offset)
		}
		var page struct {
			Entries    []stallRun
			NextOffset *int
		}
		s.ask(s.client, "cron.runs", params, &page)
		all = append(all, page.Entries...)
		if page.NextOffset == nil {
			return all
		}
		offset = *page.NextOffset
	}
}

// stallLine is a client that does less than it should: a bare connection.
type stallLine struct {
	t *testing.T
	*net.UnixConn
	r *bufio.Reader
}

func (s *stallSite) line() *stallLine {
	s.t.Helper()
	nc, err := net.Dial("unix", s.sock)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { nc.Close() })
	return &stallLine{s.t, nc.(*net.UnixConn), bufio.NewReaderSize(nc, 512)}
}

// stalledSubscriber subscribes, takes the answer, and never reads again.
func (s *stallSite) stalledSubscriber() *stallLine {
	s.t.Helper()
	l := s.line()
	if _, err := l.Write([]byte(`{"type":"req","id":"1","method":"rota.subscribe","params":{"since":0}}` + "\n")); err != nil {
		s.t.Fatal(err)
	}
	if answer, err := l.r.ReadString('\n'); err != nil || !strings.Contains(answer, `"subscribed":true`) {
		s.t.Fatalf("%s %v", answer, err)
	}
	return l
}

// hungCaller asks and asks until the daemon takes no more, and never reads. It
// gives the end of its connection.
func (s *stallSite) hungCaller() (l *stallLine, dropped <-chan error) {
	s.t.Helper()
	l = s.line()
	ended := make(chan error, 1)
	go func() {
		for n := 1; ; n++ {
			if _, err := fmt.Fprintf(l, `{"type":"req","id":"%d","method":"cron.list","params":{"limit":200}}`+"\n", n); err != nil {
				ended <- err
				return
			}
		}
	}()
	return l, ended
}

// unread is how many bytes lie in the connection for this client.
func (l *stallLine) unread() int {
	l.t.Helper()
	raw, err := l.SyscallConn()
	n := 0
	if err == nil {
		var asked error
		if err = raw.Control(func(fd uintptr) { n, asked = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err == nil {
			err = asked
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

// awaitFull waits until the connection holds all it can: what lies in it is
// much and grows no more.
func (l *stallLine) awaitFull() {
	l.t.Helper()
	last, same := 0, 0
	stallAwait(l.t, "a full socket", func() bool {
		n := l.unread()
		// Small frames fill a buffer with their overhead: it counts more than bytes.
		if n > 24<<10 && n == last {
			same++
		} else {
			last, same = n, 0
		}
		return same >= 15
	})
	l.t.Logf("%d bytes lie unread in a stalled connection", last)
}

// gone reports whether the daemon has closed the connection. An empty line is
// no request.
func (l *stallLine) gone() bool {
	_, err := l.Write([]byte("\n"))
	return err != nil
}

// stallAwait looks every 20 ms until something holds.
func stallAwait(t *testing.T, what string, holds func() bool) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	timeout := time.After(stallPatience)
	for !holds() {
		select {
		case <-look.C:
		case <-timeout:
			t.Fatalf("waited %v for %s", stallPatience, what)
		}
	}
}

// stallPause lets time pass: what is measured is what happens in it.
func stallPause(d time.Duration) { <-time.After(d) }

// cpu is the processor time the daemon has used itself, its runs not counted.
func (p *stallProcess) cpu(t *testing.T) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:])) // from field 3 on
	ticks := int64(0)
	for _, f := range fields[11:13] { // 14 utime, 15 stime
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * (time.Second / 100) // USER_HZ is 100 on every Linux that Go runs on
}

// sum adds up one number of a /proc status file over all threads, or of the
// process alone.
func (p *stallProcess) sum(t *testing.T, key, pattern string) (total int64) {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		_, rest, _ := strings.Cut(string(raw), "\n"+key+":")
		if f := strings.Fields(rest); len(f) > 0 {
			n, err := strconv.ParseInt(f[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
	}
	return total
}

// rssKiB is the memory the daemon holds now.
func (p *stallProcess) rssKiB(t *testing.T) int64 { return p.sum(t, "VmRSS", "status") }

// wakeUps is how often a thread of the daemon has gone to sleep so far.
func (p *stallProcess) wakeUps(t *testing.T) int64 {
	return p.sum(t, "voluntary_ctxt_switches", "task/*/status")
}

// quantile of durations; all must be there.
func quantile(of []time.Duration, q int) time.Duration {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[min(len(sorted)-1, len(sorted)*q/100)]
}
