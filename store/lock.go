package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// lockSuffix names the lock file after the real path of the database. The lock
// is never put on the database itself: some systems keep it in the same place
// as SQLite's own.
const lockSuffix = ".rota-lock"

// lockRecordBytes is one disk sector, so that a power cut leaves the old record
// or the new one. The record is always written at this length.
const lockRecordBytes = 512

const (
	lockMagic       = "rota-lock 1"
	lockHolderBytes = 240
	lockWordBytes   = 64
)

// lockRecord is the text in the lock file: who holds it, and which state of
// which database it last saw. The second part outlives the holder; it is how a
// roll-back of the database is noticed.
type lockRecord struct {
	pid         int
	version     string
	startedAtMs int64
	holder      string
	fileID      string
	startNumber int64
}

func (r lockRecord) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n", lockMagic)
	fmt.Fprintf(&b, "file %s\nstart %d\n", oneLine(r.fileID, lockWordBytes), r.startNumber)
	if r.pid != 0 {
		fmt.Fprintf(&b, "pid %d\nversion %s\nsince %d\nholder %s\n",
			r.pid, oneLine(r.version, lockWordBytes), r.startedAtMs, oneLine(r.holder, lockHolderBytes))
	}
	if n := lockRecordBytes - b.Len(); n > 0 {
		b.WriteString(strings.Repeat("\n", n))
	}
	return b.Bytes()
}

// parseLockRecord reads what it can: a record that is not ours is the zero
// value, which claims nothing.
func parseLockRecord(text []byte) lockRecord {
	var r lockRecord
	first, rest, _ := strings.Cut(string(text), "\n")
	if first != lockMagic {
		return r
	}
	for line := range strings.Lines(rest) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "file":
			r.fileID = value
		case "start":
			r.startNumber = n
		case "pid":
			r.pid = int(n)
		case "version":
			r.version = value
		case "since":
			r.startedAtMs = n
		case "holder":
			r.holder = value
		}
	}
	return r
}

// String names the holder for a person.
func (r lockRecord) String() string {
	if r.pid == 0 {
		return "held by a process that has not said its name yet"
	}
	text := fmt.Sprintf("held by pid %d (rota %s) since %s",
		r.pid, r.version, time.UnixMilli(r.startedAtMs).UTC().Format(time.RFC3339))
	if r.holder != "" {
		text += ", " + r.holder
	}
	return text
}

// oneLine keeps a value from adding lines of its own and within its bound.
func oneLine(s string, limit int) string {
	s = strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s), "?")
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

// lockFile is the lock while it is held. The file stays after the lock is
// released: unlinking it would let two processes lock two files of one name.
type lockFile struct {
	f    *os.File
	path string
	rec  lockRecord
}

// lockTries bounds the case that the lock file is replaced between its opening
// and its locking.
const lockTries = 10

// A lock can outlive its holder for a moment: a command that a killed daemon was
// starting has a copy of the descriptor between its fork and its exec.
const (
	lingerTries = 40
	lingerPause = 5 * time.Millisecond
)

// acquireLock takes the lock or refuses at once with the holder's name. The
// record found there is in rec, with the holder of old still in it. Only a
// holder that is dead is waited for, 200 ms at most.
func acquireLock(dbPath string) (*lockFile, error) {
	for range lingerTries {
		l, err := tryLock(dbPath)
		var held *Error
		if !errors.As(err, &held) || held.Code != CodeHeld || !l.rec.dead() {
			return l.orNil(err), err
		}
		time.Sleep(lingerPause)
	}
	l, err := tryLock(dbPath)
	return l.orNil(err), err
}

// orNil drops what a refusal only told.
func (l *lockFile) orNil(err error) *lockFile {
	if err != nil {
		return nil
	}
	return l
}

// dead reports that the recorded holder is certainly gone.
func (r lockRecord) dead() bool { return r.pid > 0 && !pidExists(r.pid) }

// tryLock is one attempt. A refusal comes with the record of the holder.
func tryLock(dbPath string) (*lockFile, error) {
	path := dbPath + lockSuffix
	for range lockTries {
		f, err := openPrivate(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, wrapFile("open", dbPath, err)
		}
		err = lockExclusive(f)
		if errors.Is(err, errLockTaken) {
			held := readLockRecord(f)
			_ = f.Close()
			return &lockFile{rec: held}, newError(CodeHeld, "open", dbPath, errors.New(held.String()))
		}
		if err != nil {
			_ = f.Close()
			return nil, wrapFile("open", dbPath, fmt.Errorf("lock %s: %w", path, err))
		}
		l := &lockFile{f: f, path: path, rec: readLockRecord(f)}
		if l.stillThere() {
			return l, nil
		}
		_ = f.Close()
	}
	return nil, newError(CodeLockLost, "open", dbPath, fmt.Errorf("%s changed %d times", path, lockTries))
}

// stillThere compares the locked file with the one of that name by inode.
func (l *lockFile) stillThere() bool {
	mine, err := l.f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(l.path)
	return err == nil && os.SameFile(mine, named)
}

func readLockRecord(f *os.File) lockRecord {
	text := make([]byte, lockRecordBytes)
	n, _ := f.ReadAt(text, 0)
	return parseLockRecord(text[:n])
}

// write replaces the record in place. durable waits for the disk: the start
// number needs that, the holder's name does not.
func (l *lockFile) write(r lockRecord, durable bool) error {
	if _, err := l.f.WriteAt(r.encode(), 0); err != nil {
		return err
	}
	l.rec = r
	if !durable {
		return nil
	}
	return l.f.Sync()
}

// release forgets the holder, keeps what the record knows of the database, and
// lets the lock go.
func (l *lockFile) release() error {
	err := l.write(lockRecord{fileID: l.rec.fileID, startNumber: l.rec.startNumber}, false)
	return errors.Join(err, l.f.Close())
}
