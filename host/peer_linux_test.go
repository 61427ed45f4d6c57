package host

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// Somebody else who gets as far as the socket is not served. The test connects
// from one thread that has taken another user's identity.
func TestAnotherUserIsNotServed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take another user's identity")
	}
	r := newRig(t, nil)
	for path, mode := range map[string]os.FileMode{filepath.Dir(r.sock): 0o755, r.sock: 0o777} {
		if err := os.Chmod(path, mode); err != nil { // past the first barrier, to see the second
			t.Fatal(err)
		}
	}
	answered := make(chan int, 1)
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its identity
		const keep, nobody = ^uintptr(0), uintptr(65534)
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, nobody, keep); errno != 0 {
			failed <- errno
			return
		}
		nc, err := net.Dial("unix", r.sock)
		if err != nil {
			failed <- err
			return
		}
		defer nc.Close()
		_ = nc.SetDeadline(time.Now().Add(deadline))
		_, _ = nc.Write([]byte(`{"type":"req","id":"1","method":"cron.status"}` + "\n"))
		n, _ := nc.Read(make([]byte, 100))
		answered <- n
	}()
	select {
	case n := <-answered:
		if n != 0 {
			t.Errorf("another user got %d bytes", n)
		}
	case err := <-failed:
		t.Fatal(err)
	}
	r.serves(t)
}
