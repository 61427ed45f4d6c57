//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

var errLockTaken = errors.New("the lock is taken")

// lockExclusive takes a flock, which the kernel drops with the process however
// it ends, and which a child does not inherit past its exec.
func lockExclusive(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errLockTaken
		default:
			return err
		}
	}
}

// ownedByMe says whether this user may change the modes of a file.
func ownedByMe(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// pidExists says whether any process has this pid now.
func pidExists(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
