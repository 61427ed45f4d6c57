//go:build unix

package store

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// looseUmask is for a child process: it belongs to the whole process.
func looseUmask() { syscall.Umask(0) }

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func TestCase130ModesUnderAnyUmask(t *testing.T) {
	// "serve" runs under the usual 022, "loose-umask" under 000.
	for _, role := range []string{"serve", "loose-umask"} {
		t.Run(role, func(t *testing.T) {
			base := t.TempDir()
			path := filepath.Join(base, "made", "here", "rota.sqlite")
			c := startChild(t, role, path)
			if got := c.line(); !strings.HasPrefix(got, "serving") {
				t.Fatal(got)
			}
			for _, dir := range []string{filepath.Join(base, "made"), filepath.Dir(path)} {
				if got := mode(t, dir); got != 0o700 {
					t.Errorf("%s has mode %04o", dir, got)
				}
			}
			for _, suffix := range []string{"", "-wal", lockSuffix} {
				if got := mode(t, path+suffix); got != 0o600 {
					t.Errorf("%s has mode %04o", filepath.Base(path)+suffix, got)
				}
			}
		})
	}
}

func TestCase130TooOpenFilesAreTightened(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	path := filepath.Join(dir, "rota.sqlite")
	mustClose(t, mustOpen(t, options(path)))
	loosen := func() {
		for name, m := range map[string]os.FileMode{path: 0o644, path + lockSuffix: 0o666, dir: 0o755} {
			if err := os.Chmod(name, m); err != nil {
				t.Fatal(err)
			}
		}
	}
	loosen()
	s := mustOpen(t, options(path))
	if got := strings.Join(s.Notes(), "\n"); strings.Count(got, "could be read by others") != 2 {
		t.Errorf("the notes should name the database and its directory:\n%s", got)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, path + lockSuffix: 0o600, dir: 0o700} {
		if got := mode(t, name); got != want {
			t.Errorf("%s has mode %04o, want %04o", name, got, want)
		}
	}
	mustClose(t, s)

	// Where other things live the directory is somebody's: its mode stays.
	loosen()
	writeFile(t, filepath.Join(dir, "letter.txt"), []byte("dear"))
	if err := os.Chmod(dir, 0o775); err != nil {
		t.Fatal(err)
	}
	s = mustOpen(t, options(path))
	if got := mode(t, dir); got != 0o775 {
		t.Errorf("a shared directory has mode %04o now", got)
	}
	if got := strings.Join(s.Notes(), "\n"); !strings.Contains(got, "others may replace files") {
		t.Errorf("nothing is said about the directory:\n%s", got)
	}
	mustClose(t, s)
}

func TestCase130TheModesOfABackup(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	path := filepath.Join(t.TempDir(), "copy.sqlite")
	b, err := s.Idle().Backup(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := mode(t, path+partSuffix); got != 0o600 {
		t.Errorf("while it is made its mode is %04o", got)
	}
	made := copyAll(t, b, func() {})
	if err := made.Publish(t.Context(), testNowMs); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, path); got != 0o600 {
		t.Errorf("its mode is %04o", got)
	}
	mustClose(t, s)
}
