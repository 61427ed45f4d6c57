package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

const testNowMs = 1_795_964_520_584

// roleVariable makes the test binary play another process on the same file:
// see childMain.
const roleVariable = "ROTA_STORE_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(childMain(role, os.Getenv(roleVariable+"_PATH")))
	}
	os.Exit(m.Run())
}

// childMain opens the file as a daemon would: it says "serving MILLISECONDS",
// or prints the error and exits with its code. It holds the file until its
// stdin ends, or until it is killed.
func childMain(role, path string) int {
	if role == "loose-umask" {
		looseUmask()
	}
	o := Options{Path: path, MachineID: "m1", Version: "test", Holder: "socket=/run/child.sock", NowMs: testNowMs}
	if n, ok := strings.CutPrefix(role, "die-"); ok {
		o.Fault = dieAtCheckpoint(n)
	}
	began := time.Now()
	s, err := Open(o)
	took := time.Since(began).Milliseconds()
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			fmt.Println(err)
			return 1
		}
		fmt.Println(took, err)
		return e.ExitCode()
	}
	if role != "serve" && role != "loose-umask" {
		tx, err := s.Begin()
		if err == nil && role == "write-meta" {
			_, err = tx.Exec("UPDATE rota_meta SET value = value || '/' WHERE key = 'path'")
		}
		if err == nil {
			_, err = tx.Exec("INSERT INTO rota_plan (job_id, slot_ms, run_at_ms) VALUES ('of the child', 1, 1)")
		}
		if err == nil {
			err = tx.Commit()
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	fmt.Println("serving", took)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := s.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// dieAtCheckpoint kills the process before its nth checkpoint: 1 is in Open,
// after the unclean mark, 2 and 3 are in Close, before and after the clean one.
func dieAtCheckpoint(n string) func(string) error {
	seen := 0
	return func(point string) error {
		if point == "checkpoint" {
			seen++
		}
		if strconv.Itoa(seen) != n {
			return nil
		}
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			return err
		}
		select {} // the kill arrives
	}
}

type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

func startChild(t *testing.T, role, path string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), roleVariable+"="+role, roleVariable+"_PATH="+path)
	var err error
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // has ended by itself unless the test failed
		_ = c.cmd.Wait()
	})
	return c
}

func (c *child) line() string {
	text, _ := c.lines.ReadString('\n')
	return strings.TrimSpace(text)
}

// kill ends the child as nothing can be caught, and waits for that.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // "signal: killed" is what is wanted
}

func options(path string) Options {
	return Options{Path: path, MachineID: "m1", Version: "test", Holder: "socket=/run/test.sock", NowMs: testNowMs}
}

func mustOpen(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.lock != nil {
			_ = s.abandon() // the test ended before its Close
		}
	})
	return s
}

func mustClose(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// write commits one row of the plan, the smallest row there is.
func write(t *testing.T, s *Store, jobID string) {
	t.Helper()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("INSERT INTO rota_plan (job_id, slot_ms, run_at_ms) VALUES (?, 1, 1)", jobID); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

// plan reads the rows that write made, joined.
func plan(t *testing.T, s *Store) string {
	t.Helper()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	err = tx.Query("SELECT job_id FROM rota_plan ORDER BY job_id", nil, func(scan func(...any) error) error {
		ids = append(ids, "")
		return scan(&ids[len(ids)-1])
	})
	if err := errors.Join(err, tx.Rollback()); err != nil {
		t.Fatal(err)
	}
	return strings.Join(ids, " ")
}

// listing is every file of a directory with its content, but for lock files and
// for the index of a log, which every reader makes.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), lockSuffix) || strings.HasSuffix(e.Name(), "-shm") || e.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			all[e.Name()] = err.Error()
			continue
		}
		sum := sha256.Sum256(text)
		all[e.Name()] = strconv.Itoa(len(text)) + " " + hex.EncodeToString(sum[:4])
	}
	return all
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func writeFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

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
