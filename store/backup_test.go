package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copyAll steps a backup to its end; between is called after each step but the last.
func copyAll(t *testing.T, b *Backup, between func()) *Copy {
	t.Helper()
	for {
		made, err := b.Step()
		if err != nil {
			t.Fatal(err)
		}
		if made != nil {
			return made
		}
		between()
	}
}

func backUp(t *testing.T, s *Store, path string) *Copy {
	t.Helper()
	b, err := s.Idle().Backup(path)
	if err != nil {
		t.Fatal(err)
	}
	made := copyAll(t, b, func() {})
	if err := made.Publish(t.Context(), testNowMs); err != nil {
		t.Fatal(err)
	}
	return made
}

// alone checks that a directory holds these files and no other.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	found := listing(t, dir)
	for _, name := range names {
		if _, ok := found[name]; !ok {
			t.Errorf("%s is not there", name)
		}
		delete(found, name)
	}
	for name := range found {
		t.Errorf("%s is left over", name)
	}
}

func integrity(t *testing.T, path string) {
	t.Helper()
	s, err := openSession(path, modePeek, Full)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if said, err := s.text("PRAGMA integrity_check"); err != nil || said != "ok" {
		t.Errorf("%s: %s (%v)", filepath.Base(path), said, err)
	}
}

// Between any two steps something is committed, to pages that are copied
// already as well as to those that are not. The copy is of the moment of its last
// step, and it is never begun anew.
func TestCase110BackupsUnderLoad(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	fill(t, s, 2)
	out := t.TempDir()
	n := 0
	commit := func() {
		n++
		write(t, s, fmt.Sprintf("job-%05d", n))
		setMark(t, s, n)
		if n%7 == 0 {
			if _, err := s.Idle().Checkpoint(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for round := range 20 {
		commit()
		path := filepath.Join(out, fmt.Sprintf("copy-%d.sqlite", round))
		b, err := s.Idle().Backup(path)
		if err != nil {
			t.Fatal(err)
		}
		steps := 1
		made := copyAll(t, b, func() { steps++; commit() })
		want := plan(t, s)
		if most := made.Pages/backupPages + 2; steps > most || steps < 5 || b.restarts > 0 {
			t.Errorf("%d pages took %d steps, at most %d are needed (begun anew %d times)", made.Pages, steps, most, b.restarts)
		}
		commit() // after the end: not in the copy
		if err := made.Publish(t.Context(), testNowMs); err != nil {
			t.Fatal(err)
		}
		integrity(t, path)
		c := mustOpen(t, options(path))
		if got := plan(t, c); got != want {
			t.Errorf("copy %d ends with %q, the file ended with %q", round, got[max(0, len(got)-20):], want[len(want)-20:])
		}
		mustClose(t, c)
		if made.Bytes != int64(len(readFile(t, path))) {
			t.Errorf("%d bytes are told", made.Bytes)
		}
	}
	mustClose(t, s)
}

func TestABackupIsShownUntilItIsAdopted(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, options(filepath.Join(dir, "rota.sqlite")))
	write(t, s, "kept")
	beside, elsewhere := filepath.Join(dir, "copy.sqlite"), filepath.Join(t.TempDir(), "rota.sqlite")
	backUp(t, s, beside)
	backUp(t, s, elsewhere)
	alone(t, filepath.Dir(elsewhere), "rota.sqlite")
	write(t, s, "later")
	epoch := s.Epoch()
	mustClose(t, s)

	for _, path := range []string{beside, elsewhere} {
		for range 2 { // looking changes nothing
			c := mustOpen(t, options(path))
			if why := c.Fenced(); !strings.Contains(why, "a backup of "+s.Path()) || !strings.Contains(why, "2026-11-29T") {
				t.Errorf("fenced: %q", why)
			}
			if got := plan(t, c); got != "kept" || c.CleanStart() != true {
				t.Errorf("rows %q, clean %v", got, c.CleanStart())
			}
			mustClose(t, c)
		}
		o := options(path)
		o.Adopt = true
		c := mustOpen(t, o)
		write(t, c, "new")
		if c.Fenced() != "" || plan(t, c) != "kept new" || c.Epoch() != epoch+1 {
			t.Errorf("adopted: fenced %q, rows %q, epoch %d", c.Fenced(), plan(t, c), c.Epoch())
		}
		mustClose(t, c)
		c = mustOpen(t, options(path))
		if c.Fenced() != "" {
			t.Errorf("at the next start it is fenced: %s", c.Fenced())
		}
		mustClose(t, c)
	}
}

// Put in the place of the original, a backup is not served by itself: what was
// decided since is not in it.
func TestARestoredBackupWaitsForAdoption(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	s := mustOpen(t, options(path))
	write(t, s, "kept")
	backup := filepath.Join(t.TempDir(), "copy.sqlite")
	backUp(t, s, backup)
	mustClose(t, s)
	if err := os.Rename(backup, path); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, options(path))
	if s.Fenced() == "" {
		t.Error("it is served")
	}
	mustClose(t, s)
}

func TestWhereNoBackupIsMade(t *testing.T) {
	dir := t.TempDir()
	s := mustOpen(t, options(filepath.Join(dir, "rota.sqlite")))
	dotPart := filepath.Join(dir, "x.part")
	for name, text := range map[string]string{"there": "", "other.sqlite-wal": "", "cut.part": "somebody's"} {
		writeFile(t, filepath.Join(dir, name), []byte(text))
	}
	before := listing(t, dir)
	for path, want := range map[string]Code{
		"":                                 CodeBackupPath,
		dir + string(filepath.Separator):   CodeBackupPath,
		filepath.Join(dir, "no", "where"):  CodeBackupPath,
		filepath.Join(dir, "there", "in"):  CodeBackupPath,
		dir:                                CodeBackupExists,
		filepath.Join(dir, "there"):        CodeBackupExists,
		filepath.Join(dir, "cut"):          CodeBackupExists,
		filepath.Join(dir, "other.sqlite"): CodeBackupPath,
		s.Path():                           CodeBackupPath,
		strings.ToUpper(s.Path()):          CodeBackupPath,
		s.Path() + "-journal":              CodeBackupPath,
		s.Path() + lockSuffix:              CodeBackupPath,
		s.Path() + newSuffix:               CodeBackupPath,
		dotPart:                            CodeBackupPath,
		filepath.Join(dir, strings.Repeat("x", 300)): CodeBackupPath,
	} {
		_, err := s.Idle().Backup(path)
		var e *Error
		if !errors.As(err, &e) || e.Code != want || e.Hint == "" {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
	after := listing(t, dir)
	for name, was := range before {
		if after[name] != was {
			t.Errorf("%s was touched", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("left over: %v", after)
	}
	mustClose(t, s)

	// A database whose own name is what the copy would be written to.
	s = mustOpen(t, options(dotPart))
	if _, err := s.Idle().Backup(filepath.Join(dir, "x")); CodeOf(err) != CodeBackupPath {
		t.Errorf("over the database itself: %v", err)
	}
	mustClose(t, s)
}

// However a backup ends before its last step, nothing of it is left and the
// database is served on.
func TestABackupThatEndsEarly(t *testing.T) {
	failing := ""
	o := options(filepath.Join(t.TempDir(), "rota.sqlite"))
	o.Fault = func(point string) error {
		if point == failing {
			return DiskFull
		}
		return nil
	}
	s := mustOpen(t, o)
	fill(t, s, 1)
	gaveUp := errors.New("its caller is gone")
	for how, end := range map[string]struct {
		do   func(b *Backup)
		want func(error) bool
	}{
		"the target is full": {func(*Backup) { failing = "backup" }, func(err error) bool { return CodeOf(err) == CodeBackupFailed && Class(err) == DiskFull }},
		"given up":           {func(b *Backup) { b.Abandon(gaveUp) }, func(err error) bool { return errors.Is(err, gaveUp) }},
		"the file is reopened": {func(*Backup) {
			if err := s.Reopen(); err != nil {
				t.Fatal(err)
			}
		}, func(err error) bool { return CodeOf(err) == CodeBackupFailed }},
	} {
		out := t.TempDir()
		b, err := s.Idle().Backup(filepath.Join(out, "copy.sqlite"))
		if err != nil {
			t.Fatal(how, err)
		}
		if _, err := s.Idle().Backup(filepath.Join(out, "second.sqlite")); CodeOf(err) != CodeMisuse {
			t.Errorf("%s: a second backup: %v", how, err)
		}
		if made, err := b.Step(); made != nil || err != nil {
			t.Fatal(how, made, err)
		}
		alone(t, out, "copy.sqlite.part")
		end.do(b)
		for range 2 {
			if _, err := b.Step(); !end.want(err) {
				t.Errorf("%s: %v", how, err)
			}
		}
		failing = ""
		alone(t, out)
		write(t, s, how)
		backUp(t, s, filepath.Join(out, "copy.sqlite"))
	}
	out := t.TempDir()
	if _, err := s.Idle().Backup(filepath.Join(out, "copy.sqlite")); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	alone(t, out)
}

// SQLite begins a copy anew when a transaction that had changed pages is rolled
// back. One that does so again and again is given up.
func TestABackupThatIsBegunAnew(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	fill(t, s, 1)
	rollback := func() {
		tx, err := s.Begin()
		if err == nil {
			err = SetMeta(tx, "mark", "never")
		}
		if err := errors.Join(err, tx.Rollback()); err != nil {
			t.Fatal(err)
		}
	}
	out := t.TempDir()
	path := filepath.Join(out, "copy.sqlite")
	b, err := s.Idle().Backup(path)
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	made := copyAll(t, b, func() {
		if times++; times == 2 {
			rollback()
		}
	})
	if b.restarts != 1 {
		t.Errorf("begun anew %d times", b.restarts)
	}
	if err := made.Publish(t.Context(), testNowMs); err != nil {
		t.Fatal(err)
	}
	integrity(t, path)
	remove(t, path)

	if b, err = s.Idle().Backup(path); err != nil {
		t.Fatal(err)
	}
	for steps := 0; err == nil; steps++ {
		if steps%2 == 1 {
			rollback()
		}
		if steps > 4*backupRestarts {
			t.Fatal("it goes on for ever")
		}
		_, err = b.Step()
	}
	if CodeOf(err) != CodeBackupFailed || !strings.Contains(err.Error(), "anew") {
		t.Error(err)
	}
	alone(t, out)
	mustClose(t, s)
}

func TestWhatIsNotPublished(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	fill(t, s, 1)
	out := t.TempDir()
	path := filepath.Join(out, "copy.sqlite")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for how, c := range map[string]struct {
		ctx    context.Context
		before func()
		want   Code
	}{
		"its caller is gone": {over, func() {}, CodeInterrupt},
		"a page is damaged": {t.Context(), func() {
			edit(t, path+partSuffix, func(b []byte) []byte { copy(b[len(b)/2:], make([]byte, 40960)); return b })
		}, CodeBackupDamaged},
		"it is gone":            {t.Context(), func() { remove(t, path+partSuffix) }, CodeBackupFailed},
		"the name is taken now": {t.Context(), func() { writeFile(t, path, nil) }, CodeBackupFailed},
	} {
		b, err := s.Idle().Backup(path)
		if err != nil {
			t.Fatal(how, err)
		}
		made := copyAll(t, b, func() {})
		c.before()
		if err := made.Publish(c.ctx, testNowMs); CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", how, err, c.want)
		}
		_ = os.Remove(path) // what took the name
		alone(t, out)
	}
	mustClose(t, s)
}

// What a killed holder left is copied with its log, and stays as it was.
func TestABackupOfWhatAKillLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	killed(t, path)
	o := options(path)
	o.ReadOnly = true
	s := mustOpen(t, o)
	if _, err := s.Begin(); err != nil || s.Fenced() == "" {
		t.Errorf("fenced %q (%v)", s.Fenced(), err)
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	backup := filepath.Join(t.TempDir(), "copy.sqlite")
	backUp(t, s, backup)
	mustClose(t, s)
	c := mustOpen(t, options(backup))
	if got := plan(t, c); got != "of the child" || c.Fenced() == "" {
		t.Errorf("rows %q, fenced %q", got, c.Fenced())
	}
	mustClose(t, c)
	s = mustOpen(t, options(path))
	if got := plan(t, s); got != "of the child" || s.CleanStart() || s.StartNumber() != 2 || s.Fenced() != "" {
		t.Errorf("the original: rows %q, clean %v, start %d, fenced %q", got, s.CleanStart(), s.StartNumber(), s.Fenced())
	}
	mustClose(t, s)
}

func TestLookingMakesNoFile(t *testing.T) {
	dir := t.TempDir()
	o := options(filepath.Join(dir, "no", "rota.sqlite"))
	o.ReadOnly = true
	if _, err := Open(o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("made %v (%v)", entries, err)
	}
}

// A file of another program that is only shown can be copied; there is nothing
// of rota's in it, and so in the copy.
func TestABackupOfAFileThatIsShown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.sqlite")
	sqlFile(t, path, cronTablesSQL,
		`INSERT INTO cron_jobs (store_key, job_id, name, enabled, payload_kind, job_json, updated_at) VALUES ('k', 'theirs', 'n', 1, 'command', '{}', 1)`)
	s := mustOpen(t, options(path))
	if s.Fenced() == "" {
		t.Fatal("it is not fenced")
	}
	backup := filepath.Join(t.TempDir(), "copy.sqlite")
	backUp(t, s, backup)
	mustClose(t, s)
	f, err := inspect(backup, modePeek, true)
	if err != nil || f.tables["rota_meta"] || len(f.partitions) != 1 {
		t.Errorf("%+v, %v", f, err)
	}
	c := mustOpen(t, options(backup))
	if c.Fenced() == "" {
		t.Error("the copy is served")
	}
	mustClose(t, c)
}
