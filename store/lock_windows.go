package store

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

var errLockTaken = errors.New("the lock is taken")

var (
	kernel32         = syscall.NewLazyDLL("kernel32.dll")
	procLockFileEx   = kernel32.NewProc("LockFileEx")
	procGetDriveType = kernel32.NewProc("GetDriveTypeW")
)

const (
	lockfileFailImmediately = 1
	lockfileExclusiveLock   = 2
	errorLockViolation      = syscall.Errno(33)
	driveRemote             = 4

	// Locks are mandatory here: the locked byte lies far behind the record, so
	// that others can read who holds it.
	lockOffsetHigh = 0x40000000
)

func lockExclusive(f *os.File) error {
	at := syscall.Overlapped{OffsetHigh: lockOffsetHigh}
	ok, _, err := procLockFileEx.Call(f.Fd(), lockfileExclusiveLock|lockfileFailImmediately,
		0, 1, 0, uintptr(unsafe.Pointer(&at)))
	switch {
	case ok != 0:
		return nil
	case errors.Is(err, errorLockViolation), errors.Is(err, syscall.ERROR_IO_PENDING):
		return errLockTaken
	}
	return err
}

// fileSystem names the file system of a directory if it is a network share.
func fileSystem(dir string) (name string, trust fsTrust) {
	root, err := syscall.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err != nil {
		return "", fsLocal
	}
	kind, _, _ := procGetDriveType.Call(uintptr(unsafe.Pointer(root)))
	if kind == driveRemote {
		return "a network drive", fsRefused
	}
	return "", fsLocal
}

// ownedByMe is moot: the mode bits of this system say only "read-only".
func ownedByMe(os.FileInfo) bool { return false }

// pidExists is true: a lock on Windows ends with its handle, which no child has,
// so a taken one has a living holder.
func pidExists(int) bool { return true }
