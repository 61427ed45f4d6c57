package store

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// As another user, by the file system's idea of the user: it belongs to the
// thread, which ends with the goroutine.
func asNobody(t *testing.T, do func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		do()
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := syscall.Setfsuid(65534)
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestADirectoryThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "rota.sqlite")
	mustClose(t, mustOpen(t, options(path)))
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := os.Chmod(name, 0o755); err != nil { // the way there is open to all
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	var err error
	asNobody(t, func() { _, err = Open(options(path)) })
	if CodeOf(err) != CodeReadOnly {
		t.Errorf("got %v, want %s", err, CodeReadOnly)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestNetworkFileSystemsAreRefused(t *testing.T) {
	for magic, want := range map[uint32]fsTrust{
		0x6969: fsRefused, 0xFF534D42: fsRefused, 0xFE534D42: fsRefused, // nfs, cifs, smb2
		0x65735546: fsDoubtful, // fuse
		0xEF53:     fsLocal,    // ext4
		0x58465342: fsLocal,    // xfs
		0x01021994: fsLocal,    // tmpfs
	} {
		if got := networkFileSystems[magic].trust; got != want {
			t.Errorf("file system %#x: trust %d, want %d", magic, got, want)
		}
	}
	if name, trust := fileSystem(t.TempDir()); trust == fsRefused {
		t.Errorf("the temporary directory counts as %s", name)
	}
}
