package store

import (
	"context"
	"errors"
	"fmt"
)

// Tx is one transaction on the one connection. It ends with Commit or Rollback
// and is of no use afterwards.
type Tx struct {
	s         *Store
	failed    error // the error that ended the turn
	savepoint bool
	refused   bool // a write met the fence and is not undone yet
	done      bool
	writes    int64
}

// Writes counts the statements that may have changed rows.
func (t *Tx) Writes() int64 { return t.writes }

// Begin starts a transaction with the write lock already taken, so that no
// later statement can be refused it. On a fenced file it can only read.
func (s *Store) Begin() (*Tx, error) {
	switch {
	case s.session == nil || s.broken:
		return nil, newError(CodeNeedsReopen, "begin", s.path, nil)
	case s.tx != nil:
		return nil, misuse("begin", s.path, "the transaction before has not ended")
	}
	if err := s.fault("begin"); err != nil {
		return nil, wrap("begin", s.path, err)
	}
	query := "BEGIN IMMEDIATE"
	if s.fenced != "" {
		query = "BEGIN"
	}
	if _, err := s.session.conn.exec(query); err != nil {
		return nil, wrap("begin", s.path, err)
	}
	s.tx = &Tx{s: s}
	return s.tx, nil
}

// StoreKey is the partition that this store serves.
func (t *Tx) StoreKey() string { return t.s.found.storeKey }

// Shape says which optional columns the file has.
func (t *Tx) Shape() Shape { return t.s.found.shape }

// usable refuses a statement after the end, or after the error that ended the turn.
func (t *Tx) usable(op string) error {
	switch {
	case t.done:
		return misuse(op, t.s.path, "the transaction has ended")
	case t.failed != nil:
		return newError(CodeEnded, op, t.s.path, t.failed)
	}
	return nil
}

// fail gives an error its code and remembers it if nothing may follow it.
func (t *Tx) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	err = wrap(op, t.s.path, err)
	if t.s.fenced != "" && CodeOf(err) == CodeReadOnly {
		err = t.fence(op)
	}
	if EndsTurn(err) {
		t.failed = err
	}
	return err
}

func (t *Tx) fence(op string) error {
	t.refused = true
	return newError(CodeFenced, op, t.s.path, errors.New(t.s.fenced))
}

// Exec runs a statement that writes and says how many rows it changed. It is
// prepared once per text. On a fenced file it is refused and not run.
func (t *Tx) Exec(query string, args ...any) (changed int64, err error) {
	if err := t.usable("exec"); err != nil {
		return 0, err
	}
	if t.s.fenced != "" {
		return 0, t.fence("exec")
	}
	if err := t.s.fault("exec"); err != nil {
		return 0, t.fail("exec", err)
	}
	t.writes++
	changed, err = t.s.session.conn.exec(query, args...)
	return changed, t.fail("exec", err)
}

// Query runs a statement and hands each row to scan before it returns: no row
// is left open, so none can block what follows. An error of scan stops it and
// comes back as it is.
func (t *Tx) Query(query string, args []any, scan func(scan func(dest ...any) error) error) (err error) {
	if err := t.usable("query"); err != nil {
		return err
	}
	stopped, err := t.s.session.conn.query(context.Background(), query, args, scan)
	if stopped != nil {
		return also(stopped, t.fail("query", err))
	}
	return t.fail("query", err)
}

// savepointName is the same for all: savepoints are not nested.
const savepointName = "message"

// Savepoint opens the savepoint in which one message is applied.
func (t *Tx) Savepoint() error {
	if err := t.usable("savepoint"); err != nil {
		return err
	}
	if t.savepoint {
		return t.fail("savepoint", misuse("savepoint", t.s.path, "savepoints are not nested"))
	}
	if err := t.onSavepoint("SAVEPOINT " + savepointName); err != nil {
		return err
	}
	t.savepoint = true
	return nil
}

// RollbackTo undoes what was done since Savepoint, and closes it.
func (t *Tx) RollbackTo() error {
	if err := t.closesSavepoint(); err != nil {
		return err
	}
	if err := t.onSavepoint("ROLLBACK TO " + savepointName); err != nil {
		return err
	}
	t.refused = false
	t.savepoint = false
	return t.onSavepoint("RELEASE " + savepointName)
}

// Release keeps what was done since Savepoint, and closes it.
func (t *Tx) Release() error {
	if err := t.closesSavepoint(); err != nil {
		return err
	}
	t.savepoint = false
	return t.onSavepoint("RELEASE " + savepointName)
}

func (t *Tx) closesSavepoint() error {
	if err := t.usable("savepoint"); err != nil || t.savepoint {
		return err
	}
	return t.fail("savepoint", misuse("savepoint", t.s.path, "no savepoint is open"))
}

// onSavepoint: whatever goes wrong here ends the turn.
func (t *Tx) onSavepoint(query string) error {
	err := t.s.fault("savepoint")
	if err == nil {
		_, err = t.s.session.conn.exec(query)
	}
	if err == nil {
		return nil
	}
	return t.fail("savepoint", newError(CodeSavepoint, "savepoint", t.s.path, fmt.Errorf("%s: %w", query, err)))
}

// Commit makes the transaction durable, at the promise of Options.Durability.
// An error is one of two kinds: certainly rolled back, or CommitUnknown, after
// which only Reopen can say. A transaction that an error ended, or that still
// holds a write the fence refused, is rolled back.
func (t *Tx) Commit() error {
	switch {
	case t.done:
		return misuse("commit", t.s.path, "the transaction has ended")
	case t.failed != nil:
		return also(newError(CodeEnded, "commit", t.s.path, t.failed), t.Rollback())
	case t.savepoint:
		return also(misuse("commit", t.s.path, "a savepoint is open"), t.Rollback())
	case t.refused:
		return also(t.fence("commit"), t.Rollback())
	}
	if err := t.s.fault("commit"); err != nil {
		return also(newError(CodeCommitFailed, "commit", t.s.path, err), t.Rollback())
	}
	if err := t.s.fault("commit-lost"); err != nil {
		return also(t.unknown(err), t.Rollback())
	}
	if _, err := t.s.session.conn.exec("COMMIT"); err != nil {
		if Class(err) == IO {
			t.end()
			return t.unknown(err)
		}
		t.failed = err
		return also(newError(CodeCommitFailed, "commit", t.s.path, err), t.Rollback())
	}
	t.end()
	if err := t.s.fault("commit-unknown"); err != nil {
		return t.unknown(err)
	}
	return nil
}

// unknown takes the connection out of use: SQLite's view of the log and the
// disk's may differ until the file is opened anew.
func (t *Tx) unknown(err error) error {
	t.s.broken = true
	return newError(CodeCommitUnknown, "commit", t.s.path, err)
}

func (t *Tx) end() {
	t.done = true
	t.s.tx = nil
}

// Rollback undoes the transaction. After an error that ended the turn SQLite
// may have done so already, which is no failure.
func (t *Tx) Rollback() error {
	if t.done {
		return misuse("rollback", t.s.path, "the transaction has ended")
	}
	t.end()
	_, err := t.s.session.conn.exec("ROLLBACK")
	if err == nil || t.failed != nil && Class(err) == Other {
		return nil
	}
	t.s.broken = true
	return wrap("rollback", t.s.path, err)
}
