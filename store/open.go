package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Options says which file to open and as whom. The zero value of each field
// but Path and NowMs is a useful default.
type Options struct {
	Path       string     // the database file; links are followed; created if nothing is there
	Durability Durability // Full
	Holder     string     // one line for the lock file: the socket, say. Pid and version are added
	Version    string     // of this program
	MachineID  string     // the operating system's machine id; "" = unknown, which is never another machine
	StoreKey   string     // the partition to serve in a file that rota opened; "" = as last time, else the fullest
	Adopt      bool       // take over a file that would be fenced, or whose log is missing
	ReadOnly   bool       // only show the file, as if it were fenced, and make none
	NowMs      int64      // wall time of the start

	// Fault is for tests: nil in production. It is called at each point, and an
	// error makes that point fail:
	//
	//	begin, exec, savepoint, reopen, checkpoint, backup   the step fails with that error
	//	commit          certainly failed: rolled back
	//	commit-lost     not committed, and reported as unknown
	//	commit-unknown  committed, and reported as unknown
	//
	// An ErrorClass is an error and gives the failure its class.
	Fault func(point string) error
}

// Store is the file while this process holds it.
type Store struct {
	opts    Options
	path    string // real
	lock    *lockFile
	session *session // nil between a failed Reopen and the next
	tx      *Tx      // the open one
	backup  *Backup  // the one under way
	broken  bool     // no statement before Reopen
	fenced  string
	wal     bool // the -wal file stays when the connection closes
	found   found
	words   map[string]any // see Store.word
	ids     map[string]any // see Store.id
}

// found is what Open learned; it does not change afterwards.
type found struct {
	made     bool
	storeKey string
	clean    bool
	start    int64
	epoch    int64
	fileID   string
	shape    Shape
	notes    []string
}

// Open takes the lock, examines the file, and serves it, or refuses with one
// Error and leaves the file as it was. A missing file is created. When it
// returns, the unclean mark is in the main file, not in its log alone.
func Open(o Options) (*Store, error) {
	if o.ReadOnly {
		if _, err := os.Stat(o.Path); err != nil {
			return nil, wrapFile("open", o.Path, err)
		}
	}
	path, err := realPath(o.Path)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: o, path: path}
	switch name, trust := fileSystem(filepath.Dir(path)); trust {
	case fsRefused:
		return nil, newError(CodeNetworkFS, "open", path, errors.New(name))
	case fsDoubtful:
		s.note("the file system is %s: if it is not local, locks are not to be trusted", name)
	}
	if s.lock, err = acquireLock(path); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, also(err, s.abandon())
	}
	return s, nil
}

// open does what needs the lock.
func (s *Store) open() error {
	last := s.lock.rec
	now := last
	now.pid, now.version, now.holder, now.startedAtMs = os.Getpid(), s.opts.Version, s.opts.Holder, s.opts.NowMs
	if err := s.lock.write(now, false); err != nil {
		return wrapFile("open", s.path, err)
	}
	seen, err := examine(s.path)
	if err != nil {
		return err
	}
	if !seen.main {
		if err := createFile(s.path, fillNew(s.opts, s.path, newFileID())); err != nil {
			return err
		}
	}
	s.found.notes = append(s.found.notes, tighten(s.path)...)
	e := evidence{files: seen, lock: last, machine: s.opts.MachineID, adopt: s.opts.Adopt}
	if err := s.gather(&e); err != nil {
		return err
	}
	v := judge(e)
	if v.refuse != "" {
		return newError(v.refuse, "open", s.path, v.why)
	}
	s.fenced, s.wal = v.fence, seen.wal
	if s.opts.ReadOnly && s.fenced == "" {
		s.fenced = "it is opened for reading alone"
	}
	s.learn(e)
	if err := s.connect(e.view); err != nil {
		return err
	}
	if s.fenced != "" {
		return nil
	}
	return s.start(e)
}

// gather looks and checks without leaving a trace: what is refused after it is
// refused as it was found.
func (s *Store) gather(e *evidence) error {
	tooLarge := tooLargeToCheck(e.files)
	if tooLarge != "" {
		s.note("%s", tooLarge)
	}
	check := tooLarge == ""
	alone, err := inspect(s.path, modePeek, check && e.files.logBytes() == 0)
	if e.files.logBytes() == 0 {
		e.main, e.view = &alone, alone
		return wrap("open", s.path, err)
	}
	// Alone, the main file may be in the middle of a checkpoint: an error of
	// the first look says nothing.
	if err == nil {
		e.main = &alone
		if why := strayByLock(alone.meta, e.files, e.lock); why != nil {
			return newError(CodeStaleWAL, "open", s.path, why)
		}
	}
	mode := modeRead
	if e.files.journalBytes > 0 {
		mode = modeServe // a reader could not undo what the journal holds
	}
	e.view, err = inspect(s.path, mode, check)
	return wrap("open", s.path, err)
}

func (s *Store) learn(e evidence) {
	f := e.view
	s.found.made, s.found.shape = f.made(), f.shape
	s.found.fileID = f.meta[metaFileID]
	s.found.start = metaNumber(f.meta, metaStart)
	s.found.epoch = metaNumber(f.meta, metaEpoch)
	s.found.clean = f.meta[metaClean] == "1" || f.meta[metaClean] == "" && e.files.logBytes() == 0
	switch {
	case f.made():
		s.found.storeKey = madeStoreKey
	case s.opts.StoreKey != "":
		s.found.storeKey = s.opts.StoreKey
	case f.meta[metaStoreKey] != "":
		s.found.storeKey = f.meta[metaStoreKey]
	case len(f.partitions) > 0:
		s.found.storeKey = f.partitions[0]
	default:
		s.found.storeKey = madeStoreKey
	}
}

// connect brings the connection to the state in which it serves.
func (s *Store) connect(f facts) (err error) {
	if s.session == nil {
		if s.session, err = openSession(s.path, modeServe, s.opts.Durability); err != nil {
			return wrap("open", s.path, err)
		}
	}
	if err := s.session.keepWAL(s.wal); err != nil {
		return wrap("open", s.path, err)
	}
	if s.fenced != "" {
		err = also(createMissing(s.session, f, true), s.session.exec("PRAGMA query_only=1"))
		return wrap("open", s.path, err)
	}
	journal, err := s.session.text("PRAGMA journal_mode=WAL")
	if err != nil {
		return wrap("open", s.path, err)
	}
	if err := s.session.assertSettings(s.opts.Durability, journal); err != nil || journal != "wal" {
		return newError(CodePragma, "open", s.path, errors.Join(err, fmt.Errorf("journal_mode is %s", journal)))
	}
	return nil
}

// start marks the file as in use, in the main file, and then tells the lock
// which start this is. In this order a kill in between leaves a lock that is
// behind the file, which is harmless; the other way round looks like a roll-back.
func (s *Store) start(e evidence) error {
	fileID := s.found.fileID
	if fileID == "" {
		fileID = newFileID()
	}
	asIs := e
	asIs.adopt = false
	v := judge(asIs)
	takenOver := v.fence != "" || v.refuse != ""
	meta := startMeta(s.opts, s.path, s.found.storeKey, fileID, e.view.meta, e.lock, takenOver)
	s.wal = true
	err := s.session.keepWAL(true)
	if err == nil {
		err = s.session.exec("BEGIN IMMEDIATE")
	}
	if err == nil {
		// The lock is exclusive from here on: an index of the log that lies here
		// is nobody's.
		_ = os.Remove(s.path + "-shm")
		err = createMissing(s.session, e.view, false)
	}
	if err == nil {
		err = writeMeta(s.session, meta)
	}
	if err == nil {
		err = s.session.exec("COMMIT")
	}
	if err == nil {
		err = s.truncateLog()
	}
	if err != nil {
		return wrap("open", s.path, err)
	}
	s.found.fileID, s.found.start, s.found.epoch = fileID, metaNumber(meta, metaStart), metaNumber(meta, metaEpoch)
	rec := s.lock.rec
	rec.fileID, rec.startNumber = s.found.fileID, s.found.start
	return wrapFile("open", s.path, s.lock.write(rec, true))
}

// truncateLog moves the whole log to the main file, or fails.
func (s *Store) truncateLog() error {
	if err := s.fault("checkpoint"); err != nil {
		return err
	}
	c, err := s.session.checkpoint("TRUNCATE")
	if err == nil && c.Busy {
		err = newError(CodeInUse, "checkpoint", s.path, nil)
	}
	return err
}

// Reopen replaces the connection, after a commit whose fate is unknown. What
// the log shows afterwards is on the disk. The lock is kept throughout; if it
// fails it may be called again.
func (s *Store) Reopen() error {
	if s.tx != nil {
		s.tx.end() // closing the connection rolls it back
	}
	s.broken = true
	s.dropBackup("reopen")
	if s.session != nil {
		_ = s.session.close() // it is given up: that it fails is why we are here
		s.session = nil
	}
	if err := s.fault("reopen"); err != nil {
		return wrap("reopen", s.path, err)
	}
	if !s.lock.stillThere() {
		return newError(CodeLockLost, "reopen", s.path, nil)
	}
	if err := s.reconnect(); err != nil {
		if s.session != nil {
			_ = s.session.close() // the first error is the one that matters
			s.session = nil
		}
		return wrap("reopen", s.path, err)
	}
	s.broken = false
	return nil
}

func (s *Store) reconnect() (err error) {
	if s.session, err = openSession(s.path, modeServe, s.opts.Durability); err != nil {
		return err
	}
	f, err := look(s.session)
	if err != nil {
		return err
	}
	if s.fenced == "" && (f.meta[metaFileID] != s.found.fileID || metaNumber(f.meta, metaStart) != s.found.start) {
		return newError(CodeRollback, "reopen", s.path, fmt.Errorf("start %d was left, start %s is there", s.found.start, f.meta[metaStart]))
	}
	if err := s.connect(f); err != nil || s.fenced != "" {
		return err
	}
	return s.truncateLog()
}

// Close marks the file as cleanly closed, with nothing left in a log, and lets
// it go. An open transaction is rolled back. A file whose last commit is
// unknown, or that is fenced, is closed without the mark.
func (s *Store) Close() error {
	var errs error
	s.dropBackup("close")
	if s.tx != nil {
		errs = s.tx.Rollback()
	}
	if s.session != nil && !s.broken && s.fenced == "" {
		errs = errors.Join(errs, s.markClean())
	}
	return wrap("close", s.path, errors.Join(errs, s.abandon()))
}

// markClean: the rows first, then the mark, then the log file may go.
func (s *Store) markClean() error {
	if err := s.truncateLog(); err != nil {
		return err
	}
	if err := writeMeta(s.session, map[string]string{metaClean: "1"}); err != nil {
		return err
	}
	if err := s.truncateLog(); err != nil {
		return err
	}
	return s.session.keepWAL(false)
}

// abandon lets everything go as a kill would, but for the holder's name.
func (s *Store) abandon() error {
	var errs error
	s.dropBackup("close")
	if s.session != nil {
		errs = s.session.close()
		s.session = nil
	}
	if s.lock != nil {
		errs = errors.Join(errs, s.lock.release())
		s.lock = nil
	}
	return errs
}

// Trim gives back the memory of pages that were read and are not needed soon, as
// after the one reading of everything. The next reads fetch theirs again.
func (s *Store) Trim() error {
	if s.session == nil || s.tx != nil {
		return misuse("trim", s.path, "a transaction is open, or no connection")
	}
	return wrap("trim", s.path, s.session.exec("PRAGMA shrink_memory"))
}

func (s *Store) fault(point string) error {
	if s.opts.Fault == nil {
		return nil
	}
	return s.opts.Fault(point)
}

func (s *Store) note(format string, args ...any) {
	s.found.notes = append(s.found.notes, fmt.Sprintf(format, args...))
}

// Path is the real path of the database.
func (s *Store) Path() string { return s.path }

// Made says that rota made this file, rather than opened another program's.
func (s *Store) Made() bool { return s.found.made }

// StoreKey is the partition served: "rota" in a file that rota made.
func (s *Store) StoreKey() string { return s.found.storeKey }

// CleanStart says that the holder before closed the file.
func (s *Store) CleanStart() bool { return s.found.clean }

// StartNumber counts the starts of this file, this one included unless it is fenced.
func (s *Store) StartNumber() int64 { return s.found.start }

// Epoch rises with each adoption.
func (s *Store) Epoch() int64 { return s.found.epoch }

// Fenced is why the file is shown and not written, "" if it is written.
func (s *Store) Fenced() string { return s.fenced }

// Notes are remarks of Open that a person should see once: modes that were
// tightened, a check that was left out.
func (s *Store) Notes() []string { return s.found.notes }
