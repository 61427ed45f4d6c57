package store

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLockRecord(t *testing.T) {
	full := lockRecord{pid: 4711, version: "1.2.3", startedAtMs: testNowMs, holder: "socket=/run/rota.sock", fileID: newFileID(), startNumber: 9_000_000}
	long := full
	long.version, long.holder = strings.Repeat("v", 500), strings.Repeat("ü", 500)
	for name, r := range map[string]lockRecord{"full": full, "free": {fileID: "f", startNumber: 3}, "long": long, "zero": {}} {
		text := r.encode()
		if len(text) != lockRecordBytes {
			t.Errorf("%s: %d bytes, want %d", name, len(text), lockRecordBytes)
		}
		got := parseLockRecord(text)
		if name != "long" && got != r {
			t.Errorf("%s: read %+v, wrote %+v", name, got, r)
		}
		if got.fileID != r.fileID || got.startNumber != r.startNumber || got.pid != r.pid {
			t.Errorf("%s: identity lost: %+v", name, got)
		}
	}
	sly := lockRecord{pid: 1, version: "1", holder: "x\nfile other\nstart 99", fileID: "f", startNumber: 1}
	if got := parseLockRecord(sly.encode()); got.fileID != "f" || got.startNumber != 1 {
		t.Errorf("a holder's line became another: %+v", got)
	}
	for _, text := range []string{"", "4711", "rota-lock 2\nfile f\nstart 3\n", strings.Repeat("\x00", 512)} {
		if got := parseLockRecord([]byte(text)); got != (lockRecord{}) {
			t.Errorf("%.12q claims %+v", text, got)
		}
	}
}

func TestTheLockFileStaysAndRemembers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	s := mustOpen(t, options(path))
	before, err := os.Stat(path + lockSuffix)
	if err != nil {
		t.Fatal(err)
	}
	id := s.found.fileID
	mustClose(t, s)
	rec := parseLockRecord(readFile(t, path+lockSuffix))
	if want := (lockRecord{fileID: id, startNumber: 1}); rec != want {
		t.Errorf("released, the record is %+v, want %+v", rec, want)
	}
	mustClose(t, mustOpen(t, options(path)))
	after, err := os.Stat(path + lockSuffix)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the lock file was replaced (%v)", err)
	}
}

// Somebody removes the lock file of a running rota: its name is free, its file
// is still locked, and SQLite's own lock is the last line.
func TestARemovedLockFileDoesNotLetASecondIn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed on this system")
	}
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	c := startChild(t, "serve", path)
	if got := c.line(); !strings.HasPrefix(got, "serving") {
		t.Fatal(got)
	}
	remove(t, path+lockSuffix)
	if _, err := Open(options(path)); CodeOf(err) != CodeInUse {
		t.Errorf("got %v, want %s", err, CodeInUse)
	}
}
