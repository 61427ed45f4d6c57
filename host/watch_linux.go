package host

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// watch tells of changes of a file by its name: written and closed, replaced,
// removed. It sees nothing of a file that somebody keeps open while writing, nor
// on file systems that other machines write to, so it is no reason not to look
// once in a while. It is nil for a symbolic link, whose target may change
// elsewhere, and where the kernel gives no watch.
func watch(path string) *watcher {
	if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSymlink != 0 {
		return nil
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil
	}
	const changes = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_DELETE | unix.IN_CREATE | unix.IN_ONLYDIR
	if _, err := unix.InotifyAddWatch(fd, filepath.Dir(path), changes); err != nil {
		unix.Close(fd)
		return nil
	}
	w := &watcher{changed: make(chan struct{}, 1), file: os.NewFile(uintptr(fd), "inotify")}
	w.ended.Go(func() { w.read(filepath.Base(path)) })
	return w
}

// read passes on what concerns the name, until the watch is closed.
func (w *watcher) read(name string) {
	b := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(b)
		if err != nil {
			return
		}
		if !concerns(b[:n], name) {
			continue
		}
		select {
		case w.changed <- struct{}{}:
		default: // it is told already
		}
	}
}

// concerns reports whether events name a file, or may have: the kernel says when
// it had to drop some.
func concerns(events []byte, name string) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		mask, length := binary.NativeEndian.Uint32(events[4:]), binary.NativeEndian.Uint32(events[12:])
		end := min(len(events), unix.SizeofInotifyEvent+int(length))
		if mask&unix.IN_Q_OVERFLOW != 0 || strings.TrimRight(string(events[unix.SizeofInotifyEvent:end]), "\x00") == name {
			return true
		}
		events = events[end:]
	}
	return false
}
