package store

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
