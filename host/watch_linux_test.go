package host

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A watch tells of each way in which programs change a file, and of no other
// file beside it.
func TestWatchTellsOfTheFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	w := watch(path)
	if w == nil {
		t.Fatal("the kernel gives no watch")
	}
	defer w.close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	told := func() {
		t.Helper()
		select {
		case <-w.changed:
		case <-time.After(deadline):
			t.Fatal("nothing was told")
		}
	}
	must(os.WriteFile(path, []byte("{}"), 0o600))
	told()
	for {
		select {
		case <-w.changed: // making and closing it are two events
			continue
		default:
		}
		break
	}
	must(os.WriteFile(filepath.Join(dir, "config.json.tmp"), []byte("{}"), 0o600))
	must(os.Rename(filepath.Join(dir, "config.json.tmp"), path))
	told()
	must(os.Remove(path))
	told()
}

// What only another file's change would explain is not told.
func TestWatchIsOfOneName(t *testing.T) {
	event := func(name string) []byte {
		b := make([]byte, 16, 32)
		b[12] = 16
		return append(append(b, name...), make([]byte, 16-len(name))...)
	}
	if concerns(append(event("other.json"), event("config")...), "config.json") {
		t.Error("another file's events are taken for the file's")
	}
	if !concerns(append(event("other.json"), event("config.json")...), "config.json") {
		t.Error("the file's event is not seen behind another's")
	}
}

func TestWatchLeavesLinksToLooking(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config.json")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), path); err != nil {
		t.Fatal(err)
	}
	if w := watch(path); w != nil {
		w.close()
		t.Error("a link is watched, and its target is not")
	}
}
