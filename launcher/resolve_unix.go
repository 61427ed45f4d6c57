//go:build unix

package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// envKey is the form in which two variable names are the same.
func envKey(name string) string { return name }

func enterable(dir string) error { return unix.Access(dir, unix.X_OK) }

// programAt says whether path can be executed as far as its mode tells.
func programAt(path string, _ []string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return "", fs.ErrNotExist
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fmt.Errorf("it is a directory: %w", fs.ErrNotExist)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return "", err
	}
	return path, nil
}

// startError explains a failed start.
func startError(p *prepared, err error) error {
	e := &Error{Code: "start-failed", Op: "launch", Message: fmt.Sprintf("could not start %q", p.path), Err: reason(err)}
	explain := func(code, message, hint string) error {
		e.Code, e.Message, e.Hint, e.Err = code, message, hint, nil
		return e
	}
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return explain("not-a-program", fmt.Sprintf("%q cannot be run: it has no #! line, or it was built for another machine", p.path),
			"put #!/bin/sh on its first line, or run it as sh "+p.path)
	case errors.Is(err, syscall.ENOENT):
		if line := interpreterOf(p.path); line != "" {
			hint := "install it, or correct the first line of " + p.path
			if strings.HasSuffix(line, "\r") {
				hint = "the file has Windows line ends: save it with Unix ones"
			}
			return explain("not-a-program", fmt.Sprintf("%q cannot be run: the interpreter %q of its first line is not there", p.path, line), hint)
		}
		return explain("not-found", fmt.Sprintf("not found: %q, or the loader it was built for, is not there", p.path), "")
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return notPermitted(p.path, err)
	case errors.Is(err, syscall.E2BIG):
		return explain("too-long", "the command's arguments and environment are too long for the system",
			"pass long text through --command-input")
	case errors.Is(err, syscall.EINVAL):
		return explain("bad-argument", "an argument or variable of the command holds a NUL byte", "")
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		e.Code, e.Hint = "no-resources", "see ulimit -a for the daemon's user"
	}
	return e
}

func signalName(status syscall.WaitStatus) string {
	if !status.Signaled() {
		return ""
	}
	if name := unix.SignalName(status.Signal()); name != "" {
		return name
	}
	return fmt.Sprintf("%d", int(status.Signal()))
}

// interpreterOf reads the #! line of a script; "" if it has none.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var first [256]byte
	n, _ := f.Read(first[:]) // a file that cannot be read has no line to show
	line, found := strings.CutPrefix(string(first[:n]), "#!")
	if !found {
		return ""
	}
	line, _, _ = strings.Cut(line, "\n")
	return strings.TrimLeft(line, " \t")
}
