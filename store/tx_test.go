package store

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func begin(t *testing.T, s *Store) *Tx {
	t.Helper()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func insert(tx *Tx, jobID string) error {
	_, err := tx.Exec("INSERT INTO rota_plan (job_id, slot_ms, run_at_ms) VALUES (?, 1, 1)", jobID)
	return err
}

// A script is one transaction: what is called, and what it says ("" is no
// error). The rows are those another transaction finds afterwards.
func TestTransactions(t *testing.T) {
	type step struct {
		call string
		want Code
	}
	for _, c := range []struct {
		name  string
		steps []step
		rows  string
	}{
		{"commit", []step{{"insert a", ""}, {"commit", ""}}, "a"},
		{"rollback", []step{{"insert a", ""}, {"rollback", ""}}, ""},
		{"nothing follows the end", []step{{"commit", ""}, {"insert a", CodeMisuse}, {"query", CodeMisuse}, {"savepoint", CodeMisuse}, {"commit", CodeMisuse}, {"rollback", CodeMisuse}}, ""},
		{"a released savepoint is kept", []step{{"insert a", ""}, {"savepoint", ""}, {"insert b", ""}, {"release", ""}, {"commit", ""}}, "a b"},
		{"an undone savepoint is not", []step{{"insert a", ""}, {"savepoint", ""}, {"insert b", ""}, {"rollback to", ""}, {"insert c", ""}, {"commit", ""}}, "a c"},
		{"savepoints follow each other", []step{{"savepoint", ""}, {"insert a", ""}, {"release", ""}, {"savepoint", ""}, {"insert b", ""}, {"rollback to", ""}, {"savepoint", ""}, {"insert c", ""}, {"release", ""}, {"commit", ""}}, "a c"},
		{"a constraint undoes its savepoint alone", []step{{"insert a", ""}, {"savepoint", ""}, {"insert b", ""}, {"insert a", CodeConstraint}, {"rollback to", ""}, {"insert c", ""}, {"commit", ""}}, "a c"},
		{"a value of the wrong type is a constraint", []step{{"insert a", ""}, {"bad type", CodeConstraint}, {"commit", ""}}, "a"},
		{"savepoints are not nested", []step{{"savepoint", ""}, {"savepoint", CodeMisuse}, {"insert a", CodeEnded}, {"commit", CodeEnded}}, ""},
		{"release without a savepoint", []step{{"insert a", ""}, {"release", CodeMisuse}, {"commit", CodeEnded}}, ""},
		{"rollback to without a savepoint", []step{{"insert a", ""}, {"rollback to", CodeMisuse}, {"rollback", ""}}, ""},
		{"commit with an open savepoint", []step{{"savepoint", ""}, {"insert a", ""}, {"commit", CodeMisuse}}, ""},
		{"a full disk ends the turn", []step{{"insert a", ""}, {"savepoint", ""}, {"fill", CodeDiskFull}, {"insert b", CodeEnded}, {"query", CodeEnded}, {"release", CodeEnded}, {"rollback to", CodeEnded}, {"commit", CodeEnded}}, ""},
		{"after a full disk rolling back is no failure", []step{{"fill", CodeDiskFull}, {"rollback", ""}}, ""},
		{"a statement SQLite refuses ends the turn", []step{{"insert a", ""}, {"nonsense", CodeStatement}, {"insert b", CodeEnded}, {"rollback", ""}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
			tx := begin(t, s)
			for i, st := range c.steps {
				if err := play(tx, st.call); CodeOf(err) != st.want {
					t.Fatalf("step %d, %s: %v, want %q", i+1, st.call, err, st.want)
				}
			}
			if !tx.done {
				t.Fatal("the script does not end its transaction")
			}
			if got := plan(t, s); got != c.rows {
				t.Errorf("rows %q, want %q", got, c.rows)
			}
			mustClose(t, s)
		})
	}
}

func play(tx *Tx, call string) error {
	verb, arg, _ := strings.Cut(call, " ")
	switch {
	case verb == "insert":
		return insert(tx, arg)
	case call == "bad type":
		_, err := tx.Exec("INSERT INTO rota_plan (job_id, slot_ms, run_at_ms) VALUES ('x', 'soon', 1)")
		return err
	case call == "query":
		return tx.Query("SELECT 1", nil, func(func(...any) error) error { return nil })
	case call == "nonsense":
		_, err := tx.Exec("INSERT INTO no_such_table VALUES (1)")
		return err
	case call == "fill": // SQLite's own limit answers as a full disk does
		var limit int
		if err := tx.Query("PRAGMA max_page_count=1", nil, func(scan func(...any) error) error { return scan(&limit) }); err != nil {
			return err
		}
		_, err := tx.Exec("INSERT INTO rota_plan (job_id, slot_ms, run_at_ms) VALUES (hex(zeroblob(1000000)), 1, 1)")
		return err
	case call == "savepoint":
		return tx.Savepoint()
	case call == "release":
		return tx.Release()
	case call == "rollback to":
		return tx.RollbackTo()
	case call == "commit":
		return tx.Commit()
	}
	return tx.Rollback()
}

// Each point fails once, with what an I/O error means there.
func TestFaultPoints(t *testing.T) {
	for _, c := range []struct {
		point   string
		class   ErrorClass
		code    Code // of the call that meets it
		unknown bool
		rows    string // afterwards, reopened where that is asked for
	}{
		{"begin", IO, CodeIO, false, ""},
		{"exec", DiskFull, CodeDiskFull, false, ""},
		{"exec", IO, CodeIO, false, ""},
		{"exec", NoMem, CodeNoMemory, false, ""},
		{"exec", Corrupt, CodeCorrupt, false, ""},
		{"exec", Interrupt, CodeInterrupt, false, ""},
		{"exec", Constraint, CodeConstraint, false, ""},
		{"savepoint", IO, CodeSavepoint, false, ""},
		{"commit", DiskFull, CodeCommitFailed, false, ""},
		{"commit-lost", IO, CodeCommitUnknown, true, ""},
		{"commit-unknown", IO, CodeCommitUnknown, true, "a"},
	} {
		t.Run(c.point+" "+c.class.String(), func(t *testing.T) {
			armed := true
			o := options(filepath.Join(t.TempDir(), "rota.sqlite"))
			o.Fault = func(point string) error {
				if armed && point == c.point {
					armed = false
					return c.class
				}
				return nil
			}
			s := mustOpen(t, o)
			err := oneTurn(s)
			if CodeOf(err) != c.code || Class(err) != c.class || CommitUnknown(err) != c.unknown {
				t.Errorf("got %v: code %q, class %v, unknown %v", err, CodeOf(err), Class(err), CommitUnknown(err))
			}
			if EndsTurn(err) != (c.class != Constraint) {
				t.Errorf("%v ends the turn: %v", err, EndsTurn(err))
			}
			if c.unknown {
				if err := s.Reopen(); err != nil {
					t.Fatal(err)
				}
			}
			if got := plan(t, s); got != c.rows {
				t.Errorf("rows %q, want %q", got, c.rows)
			}
			if err := oneTurn(s); c.rows == "" && err != nil {
				t.Errorf("the next turn: %v", err)
			}
			mustClose(t, s)
		})
	}
}

// oneTurn applies one message in its savepoint and commits; on an error it
// rolls back what is still open.
func oneTurn(s *Store) error {
	tx, err := s.Begin()
	if err != nil {
		return err
	}
	steps := []func() error{tx.Savepoint, func() error { return insert(tx, "a") }, tx.Release, tx.Commit}
	for _, step := range steps {
		if err = step(); err != nil {
			break
		}
	}
	if !tx.done {
		err = also(err, tx.Rollback())
	}
	return err
}

func TestOneTransactionAtATime(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	tx := begin(t, s)
	if _, err := s.Begin(); CodeOf(err) != CodeMisuse {
		t.Errorf("a second Begin says %v", err)
	}
	if _, err := s.Idle().Checkpoint(); CodeOf(err) != CodeMisuse {
		t.Errorf("a checkpoint inside says %v", err)
	}
	if err := insert(tx, "a"); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s) // rolls it back
	s = mustOpen(t, options(s.Path()))
	if got := plan(t, s); got != "" {
		t.Errorf("rows %q", got)
	}
	mustClose(t, s)
}

func TestAnErrorOfScanStopsTheQueryAndNothingElse(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	tx := begin(t, s)
	enough := errors.New("enough")
	seen := 0
	err := tx.Query("SELECT key FROM rota_meta", nil, func(func(...any) error) error {
		seen++
		return enough
	})
	if !errors.Is(err, enough) || seen != 1 || EndsTurn(err) {
		t.Errorf("got %v after %d rows, ends the turn: %v", err, seen, EndsTurn(err))
	}
	if err := errors.Join(insert(tx, "a"), tx.Commit()); err != nil {
		t.Errorf("what follows: %v", err)
	}
	mustClose(t, s)
}

func TestStatementsArePreparedOnce(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	one := func(query string) {
		t.Helper()
		tx := begin(t, s)
		err := tx.Query(query, []any{7}, func(scan func(...any) error) error {
			var n int
			err := scan(&n)
			if n != 7 {
				err = fmt.Errorf("read %d", n)
			}
			return err
		})
		if err := errors.Join(err, tx.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	one("SELECT ?")
	prepared := len(s.session.conn.byQuery)
	kept, err := s.session.conn.prepared("SELECT ?")
	if err != nil {
		t.Fatal(err)
	}
	one("SELECT ?")
	again, err := s.session.conn.prepared("SELECT ?")
	if err != nil || again != kept || len(s.session.conn.byQuery) != prepared {
		t.Errorf("the same text was prepared again (%d statements, then %d; %v)", prepared, len(s.session.conn.byQuery), err)
	}
	mustClose(t, s)
}
