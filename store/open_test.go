package store

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

func TestANewFile(t *testing.T) {
	// The name has what a connection string would trip over.
	path := filepath.Join(t.TempDir(), "new", "dir", "a b?c#d%20&e.sqlite")
	s := mustOpen(t, options(path))
	if !s.Made() || s.StoreKey() != "rota" || !s.CleanStart() || s.StartNumber() != 1 || s.Fenced() != "" || s.Epoch() != 1 {
		t.Errorf("made %v, key %q, clean %v, start %d, fenced %q, epoch %d",
			s.Made(), s.StoreKey(), s.CleanStart(), s.StartNumber(), s.Fenced(), s.Epoch())
	}
	if version, err := s.session.number("PRAGMA user_version"); err != nil || version != 0 {
		t.Errorf("user_version is %d (%v), want 0", version, err)
	}
	write(t, s, "one")
	mustClose(t, s)
	want := map[string]bool{filepath.Base(path): true}
	for name := range listing(t, filepath.Dir(path)) {
		if !want[name] {
			t.Errorf("%s is left over after Close", name)
		}
	}
	s = mustOpen(t, options(path))
	if got := plan(t, s); got != "one" || s.StartNumber() != 2 || !s.CleanStart() {
		t.Errorf("after reopening: rows %q, start %d, clean %v", got, s.StartNumber(), s.CleanStart())
	}
	mustClose(t, s)
}

// The unclean mark must be in the main file itself: a copy of that file alone
// has to be recognised.
func TestTheUncleanMarkIsCheckpointed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	c := startChild(t, "write", path)
	if got := c.line(); !strings.HasPrefix(got, "serving") {
		t.Fatal(got)
	}
	copied := filepath.Join(t.TempDir(), "copy.sqlite")
	writeFile(t, copied, readFile(t, path))
	f, err := inspect(copied, modePeek, false)
	if err != nil || f.meta[metaClean] != "0" || f.meta[metaStart] != "1" {
		t.Errorf("the main file says clean=%q start=%q (%v)", f.meta[metaClean], f.meta[metaStart], err)
	}
}

func TestAKilledHolderLeavesEverythingCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	c := startChild(t, "write", path)
	if got := c.line(); !strings.HasPrefix(got, "serving") {
		t.Fatal(got)
	}
	c.kill(t)
	s := mustOpen(t, options(path))
	if got := plan(t, s); got != "of the child" || s.CleanStart() || s.StartNumber() != 2 || s.Fenced() != "" {
		t.Errorf("rows %q, clean %v, start %d, fenced %q", got, s.CleanStart(), s.StartNumber(), s.Fenced())
	}
	mustClose(t, s)
}

func TestAKillWhileOpeningOrClosing(t *testing.T) {
	for _, c := range []struct {
		role, rows string
		clean      bool
	}{
		{"die-1", "kept", false},
		{"die-2", "kept of the child", false},
		{"die-3", "kept of the child", true}, // nothing was left to do but to remove the log
	} {
		path := filepath.Join(t.TempDir(), "rota.sqlite")
		ours(t, path)
		child := startChild(t, c.role, path)
		child.line()
		if err := child.stdin.Close(); err != nil {
			t.Fatal(err)
		}
		if err := child.cmd.Wait(); err == nil {
			t.Fatalf("%s: the child did not die", c.role)
		}
		s := mustOpen(t, options(path))
		if got := plan(t, s); got != c.rows || s.CleanStart() != c.clean || s.Fenced() != "" || s.StartNumber() != 3 {
			t.Errorf("%s: rows %q, clean %v, fenced %q, start %d", c.role, got, s.CleanStart(), s.Fenced(), s.StartNumber())
		}
		mustClose(t, s)
	}
}

func TestCase022OneOfFiftyServes(t *testing.T) {
	const processes = 50
	dir := t.TempDir()
	path := filepath.Join(dir, "rota.sqlite")
	mustClose(t, mustOpen(t, options(path)))
	link := filepath.Join(dir, "link.sqlite")
	if err := os.Symlink(path, link); err != nil {
		link = path // Windows lets few users make links
	}
	names := []string{path, link}
	var children [processes]*child
	for i := range children {
		children[i] = startChild(t, "serve", names[i%2])
	}
	var serving *child
	var slowest, servers int
	for _, c := range children {
		first, rest, _ := strings.Cut(c.line(), " ")
		if first == "serving" {
			servers++
			serving = c
			continue
		}
		took, err := strconv.Atoi(first)
		if err != nil {
			t.Fatalf("%s %s", first, rest)
		}
		slowest = max(slowest, took)
		if !strings.Contains(rest, "held by pid ") {
			t.Errorf("the refusal does not name the holder: %s", rest)
		}
		err = c.cmd.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 75 {
			t.Errorf("a refused process ended with %v, want exit 75", err)
		}
	}
	if servers != 1 {
		t.Fatalf("%d of %d processes serve, want 1", servers, processes)
	}
	t.Logf("the slowest of %d refusals took %d ms while all %d started at once", processes-1, slowest, processes)

	serving.kill(t)
	s := mustOpen(t, options(link))
	if s.CleanStart() {
		t.Error("the start after a kill counts as clean")
	}
	mustClose(t, s)
}

func TestCase022TheRefusalNamesTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	s := mustOpen(t, options(path))
	_, err := Open(options(path))
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeHeld || e.ExitCode() != 75 {
		t.Fatalf("got %v, want %s", err, CodeHeld)
	}
	for _, want := range []string{fmt.Sprintf("held by pid %d", os.Getpid()), "(rota test)", "socket=/run/test.sock", "2026-11-29T"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal lacks %q: %v", want, err)
		}
	}
	mustClose(t, s)
}

func TestCase022AForeignLivePidInTheLockFileIsNoHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	rec := lockRecord{pid: os.Getppid(), version: "old", fileID: "f", startNumber: 9}
	writeFile(t, path+lockSuffix, rec.encode())
	mustClose(t, mustOpen(t, options(path)))
}

func TestCase115ThePathIsTheRealOne(t *testing.T) {
	dir := t.TempDir()
	where := filepath.Join(dir, "where")
	if err := os.Symlink(filepath.Join(dir, "really"), where+"-dir"); err != nil {
		t.Skipf("this user may not make links on this system: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "really"), 0o700); err != nil {
		t.Fatal(err)
	}
	// The link to the file does not lead anywhere yet.
	if err := os.Symlink(filepath.Join("where-dir", "data.sqlite"), where); err != nil {
		t.Fatal(err)
	}
	base, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(base, "really", "data.sqlite")
	for _, name := range []string{where, filepath.Join(dir, "where-dir", "data.sqlite"), want} {
		s := mustOpen(t, options(name))
		if s.Path() != want {
			t.Errorf("opened by %s the path is %s, want %s", name, s.Path(), want)
		}
		mustClose(t, s)
	}
}

func TestCase032OlderCopiesBesideAreNeverRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	s := mustOpen(t, options(path))
	write(t, s, "removed")
	mustClose(t, s)
	older := readFile(t, path)
	s = mustOpen(t, options(path))
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("DELETE FROM rota_plan"); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	for _, suffix := range []string{newSuffix, ".bak", ".tmp", ".old", "~", ".1"} {
		writeFile(t, path+suffix, older)
	}
	s = mustOpen(t, options(path))
	if got := plan(t, s); got != "" {
		t.Errorf("%q came back", got)
	}
	mustClose(t, s)
	if !bytes.Equal(readFile(t, path+".bak"), older) {
		t.Error("a copy beside the database was changed")
	}
	// A creation starts from nothing, whatever an earlier one left behind.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, options(path))
	if got := plan(t, s); got != "" || s.StartNumber() != 1 {
		t.Errorf("a new file has rows %q and start %d", got, s.StartNumber())
	}
	mustClose(t, s)
	if _, err := os.Lstat(path + newSuffix); err == nil {
		t.Error("the left-over of a creation is still there")
	}
}

func TestReopenFindsWhatWasCommitted(t *testing.T) {
	for point, want := range map[string]string{"commit-unknown": "first second", "commit-lost": "first"} {
		t.Run(point, func(t *testing.T) {
			armed := false
			o := options(filepath.Join(t.TempDir(), "rota.sqlite"))
			o.Fault = func(p string) error {
				if armed && p == point {
					return IO
				}
				return nil
			}
			s := mustOpen(t, o)
			write(t, s, "first")
			armed = true
			tx, err := s.Begin()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec("INSERT INTO rota_plan (job_id, slot_ms, run_at_ms) VALUES ('second', 1, 1)"); err != nil {
				t.Fatal(err)
			}
			err = tx.Commit()
			if !CommitUnknown(err) || !EndsTurn(err) || Class(err) != IO {
				t.Fatalf("the commit says %v (unknown %v, class %v)", err, CommitUnknown(err), Class(err))
			}
			if _, err := s.Begin(); CodeOf(err) != CodeNeedsReopen {
				t.Errorf("Begin before Reopen says %v", err)
			}
			if _, err := Open(options(s.Path())); CodeOf(err) != CodeHeld {
				t.Errorf("another Open meanwhile says %v", err)
			}
			armed = false
			start := s.StartNumber()
			if err := s.Reopen(); err != nil {
				t.Fatal(err)
			}
			if got := plan(t, s); got != want {
				t.Errorf("rows %q, want %q", got, want)
			}
			if s.Idle().WALBytes() != 0 || s.StartNumber() != start {
				t.Errorf("the log has %d bytes, the start went from %d to %d", s.Idle().WALBytes(), start, s.StartNumber())
			}
			mustClose(t, s)
		})
	}
}

func TestReopenRefusesAnOlderFileAndALostLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	mustClose(t, mustOpen(t, options(path)))
	older := readFile(t, path)
	var during func() error
	o := options(path)
	o.Fault = func(point string) error {
		if point == "reopen" && during != nil {
			return during()
		}
		return nil
	}
	s := mustOpen(t, o)
	newer := readFile(t, path)
	for _, step := range []struct {
		what string
		do   func() error
		want Code
	}{
		{"a disk that fails", func() error { return IO }, CodeIO},
		{"an older file", func() error { return os.WriteFile(path, older, 0o600) }, CodeRollback},
		{"no file", func() error { return os.Remove(path) }, CodeIO},
		{"the right file again", func() error { return os.WriteFile(path, newer, 0o600) }, ""},
		{"no lock file", func() error { return os.Remove(path + lockSuffix) }, CodeLockLost},
	} {
		if runtime.GOOS == "windows" && step.want == CodeLockLost {
			continue // there an open file cannot be removed
		}
		during = step.do
		if err := s.Reopen(); CodeOf(err) != step.want {
			t.Errorf("%s: Reopen says %v, want %q", step.what, err, step.want)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("closing without a connection: %v", err)
	}
}

// A program that knows nothing of the lock file is noticed by SQLite's lock.
func TestAnotherProgramsConnectionIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	mustClose(t, mustOpen(t, options(path)))
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRow("SELECT count(*) FROM rota_meta").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(options(path)); CodeOf(err) != CodeInUse {
		t.Errorf("got %v, want %s", err, CodeInUse)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, options(path)))
}

func TestCloseAfterAnUnknownCommitLeavesTheUncleanMark(t *testing.T) {
	o := options(filepath.Join(t.TempDir(), "rota.sqlite"))
	o.Fault = func(p string) error {
		if p == "commit-unknown" {
			return IO
		}
		return nil
	}
	s := mustOpen(t, o)
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); !CommitUnknown(err) {
		t.Fatal(err)
	}
	mustClose(t, s)
	s = mustOpen(t, options(o.Path))
	if s.CleanStart() {
		t.Error("the start counts as clean")
	}
	mustClose(t, s)
}
