package host

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// maxTokenFileBytes bounds the file; a token made here has 43 bytes.
const maxTokenFileBytes = 4096

// EnsureToken reads the token of a state directory and makes it, for the owner
// alone, where there is none. A file that others may read is closed to them;
// notes say what was done about it. The caller holds the lock of the directory's
// database, so nobody makes another at the same time.
func EnsureToken(path string) (token string, notes []string, err error) {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		token, err = makeToken(path)
		return token, nil, err
	case err != nil:
		return "", nil, fmt.Errorf("token file: %w", err)
	case !st.Mode().IsRegular():
		return "", nil, &FileError{File: path, Message: "is not a file", Hint: "move it away: a new token is made at the next start"}
	}
	if open := st.Mode().Perm() & 0o077; open != 0 && runtime.GOOS != "windows" { // there the directory decides
		if err := os.Chmod(path, 0o600); err != nil {
			return "", nil, fmt.Errorf("close the token file to others: %w", err)
		}
		notes = append(notes, fmt.Sprintf("the token file %s was open to others (mode %04o) and is closed now; delete it before the next start if somebody may have read it", path, st.Mode().Perm()))
	}
	token, err = ReadToken(path)
	return token, notes, err
}

// ReadToken reads the token at path.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxTokenFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || len(raw) > maxTokenFileBytes || strings.ContainsAny(token, " \t\r\n") {
		return "", &FileError{File: path, Message: "holds no token", Hint: "delete it: a new one is made at the next start of rota serve"}
	}
	return token, nil
}

func makeToken(path string) (string, error) {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	token := base64.RawURLEncoding.EncodeToString(secret[:])
	temp, err := os.CreateTemp(filepath.Dir(path), ".token-*") // for its owner alone
	if err != nil {
		return "", fmt.Errorf("make the token file: %w", err)
	}
	_, err = temp.WriteString(token + "\n")
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
		return "", fmt.Errorf("make the token file: %w", err)
	}
	return token, nil
}
