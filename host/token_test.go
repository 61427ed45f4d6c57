package host

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestTokenIsMadeOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "token")
	made, notes, err := EnsureToken(path)
	if err != nil || len(notes) != 0 || !regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`).MatchString(made) {
		t.Fatalf("made %q %v %v", made, notes, err)
	}
	if st, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
	if again, _, err := EnsureToken(path); err != nil || again != made {
		t.Errorf("the second start has %q %v", again, err)
	}
	if read, err := ReadToken(path); err != nil || read != made {
		t.Errorf("a client reads %q %v", read, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("beside it lies %v %v", left, err)
	}
	other, _, err := EnsureToken(filepath.Join(t.TempDir(), "token"))
	if err != nil || other == made {
		t.Errorf("another directory has %q %v", other, err)
	}
}

func TestOpenTokenFileIsClosed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there the access rights of the directory decide")
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("chosen-by-hand\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // whatever the umask
		t.Fatal(err)
	}
	token, notes, err := EnsureToken(path)
	if err != nil || token != "chosen-by-hand" || len(notes) != 1 || !strings.Contains(notes[0], "0644") || strings.Contains(notes[0], token) {
		t.Errorf("%q %v %v", token, notes, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", st.Mode(), err)
	}
}

func TestNoTokenInTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for _, content := range []string{"", " \n", "two words", strings.Repeat("x", maxTokenBytes+1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var fault *FileError
		if _, _, err := EnsureToken(path); !errors.As(err, &fault) || fault.Hint == "" {
			t.Errorf("%.20q: %v", content, err)
		}
	}
	var fault *FileError
	if _, _, err := EnsureToken(t.TempDir()); !errors.As(err, &fault) {
		t.Errorf("a directory: %v", err)
	}
}
