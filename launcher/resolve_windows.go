package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"
)

// envKey is the form in which two variable names are the same.
func envKey(name string) string { return strings.ToUpper(name) }

func enterable(string) error { return nil } // the start itself tells

// programAt tries path as it is and with each extension of PATHEXT.
func programAt(path string, env []string) (string, error) {
	candidates := []string{}
	if filepath.Ext(path) != "" {
		candidates = append(candidates, path)
	}
	extensions := lookupEnv(env, "PATHEXT")
	if extensions == "" {
		extensions = ".com;.exe;.bat;.cmd"
	}
	for _, ext := range strings.Split(strings.ToLower(extensions), ";") {
		if ext != "" {
			candidates = append(candidates, path+ext)
		}
	}
	for _, candidate := range candidates {
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() {
			return candidate, nil
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fs.ErrNotExist
}

// startError explains a failed start.
func startError(p *prepared, err error) error {
	e := &Error{Code: "start-failed", Op: "launch", Message: fmt.Sprintf("could not start %q", p.path), Err: reason(err)}
	switch {
	case errors.Is(err, windows.ERROR_BAD_EXE_FORMAT):
		e.Code, e.Message, e.Err = "not-a-program", fmt.Sprintf("%q cannot be run: it is not a program for this machine", p.path), nil
		e.Hint = "name its interpreter, as in powershell -File " + p.path
	case errors.Is(err, fs.ErrPermission):
		return notPermitted(p.path, err)
	case errors.Is(err, fs.ErrNotExist):
		e.Code = "not-found"
	case errors.Is(err, windows.ERROR_FILENAME_EXCED_RANGE):
		e.Code, e.Message, e.Err = "too-long", "the command's arguments are too long for the system", nil
		e.Hint = "pass long text through --command-input"
	case errors.Is(err, syscall.EINVAL):
		e.Code, e.Message, e.Err = "bad-argument", "an argument or variable of the command holds a NUL byte", nil
	}
	return e
}

func signalName(syscall.WaitStatus) string { return "" } // there are none
