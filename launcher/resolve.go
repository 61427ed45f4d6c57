package launcher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// prepared is a command ready to start.
type prepared struct {
	path string   // the program, absolute
	argv []string // as the job has it; argv[0] is not rewritten
	cwd  string
	env  []string
}

// prepare finds everything a command needs, and says what is wrong with it
// before anything happens.
func prepare(daemon []string, home string, launch *worker.Launch) (*prepared, error) {
	command := launch.Payload.Command
	if command == nil || len(command.Argv) == 0 || command.Argv[0] == "" {
		return nil, &Error{Code: "bad-argument", Op: "launch", Message: "the command names no program",
			Hint: "give one with rota cron edit JOB --command or --command-argv"}
	}
	cwd, err := workingDirectory(command, home)
	if err != nil {
		return nil, err
	}
	env := commandEnv(daemon, launch, cwd)
	path, err := findProgram(command.Argv[0], cwd, env)
	if err != nil {
		return nil, err
	}
	return &prepared{path: path, argv: command.Argv, cwd: cwd, env: env}, nil
}

// Resolve finds the program that a command would start, as the launcher would
// now find it: in the job's own PATH, from its own directory.
func Resolve(command *job.CommandPayload, environ []string, home string) (path string, err error) {
	launch := &worker.Launch{Payload: job.Payload{Kind: "command", Command: command}}
	p, err := prepare(environ, home, launch)
	if err != nil {
		return "", err
	}
	return p.path, nil
}

// workingDirectory is the job's, else the home that the job's own environment
// names, else the user's.
func workingDirectory(command *job.CommandPayload, home string) (string, error) {
	const hint = "set another with rota cron edit JOB --command-cwd DIR"
	cwd := command.Cwd
	if cwd == "" {
		cwd = home
		for _, v := range command.Env {
			if envKey(v.Name) == "HOME" && filepath.IsAbs(v.Value) {
				cwd = v.Value
			}
		}
	}
	bad := func(why string, err error) error {
		return &Error{Code: "bad-cwd", Op: "launch",
			Message: fmt.Sprintf("bad working directory %q: it %s", cwd, why), Hint: hint, Err: err}
	}
	if !filepath.IsAbs(cwd) {
		return "", bad("is not absolute", nil)
	}
	info, err := os.Stat(cwd)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", bad("does not exist", nil)
	case err != nil:
		return "", bad("cannot be entered", reason(err))
	case !info.IsDir():
		return "", bad("is not a directory", nil)
	}
	if err := enterable(cwd); err != nil {
		return "", bad("cannot be entered", err)
	}
	return cwd, nil
}

// findProgram resolves argv[0]. A name with a separator is taken from the
// working directory; a bare name is searched in the job's PATH.
func findProgram(name, cwd string, env []string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) || strings.ContainsRune(name, '/') {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(cwd, path)
		}
		found, err := programAt(path, env)
		switch {
		case err == nil:
			return found, nil
		case errors.Is(err, fs.ErrPermission):
			return "", notPermitted(path, err)
		case errors.Is(err, fs.ErrNotExist):
			return "", &Error{Code: "not-found", Op: "launch", Message: fmt.Sprintf("not found: there is no file %q", path),
				Hint: "correct the path with rota cron edit JOB --command-argv"}
		}
		return "", &Error{Code: "not-found", Op: "launch", Message: fmt.Sprintf("%q cannot be run", path), Err: reason(err)}
	}
	return searchPath(name, lookupEnv(env, "PATH"), env)
}

// searchPath looks through the directories of PATH. A match in a relative one
// does not count: what it names would depend on where the daemon stands.
func searchPath(name, searched string, env []string) (string, error) {
	var relative, forbidden string
	for _, dir := range filepath.SplitList(searched) {
		if dir == "" {
			dir = "."
		}
		found, err := programAt(filepath.Join(dir, name), env)
		switch {
		case err == nil && filepath.IsAbs(dir):
			return found, nil
		case err == nil && relative == "":
			relative = dir
		case errors.Is(err, fs.ErrPermission) && filepath.IsAbs(dir) && forbidden == "":
			// Only a file that is there is reported; a directory that may not be
			// searched is passed over, as a shell does.
			if info, statErr := os.Stat(filepath.Join(dir, name)); statErr == nil && !info.IsDir() {
				forbidden = filepath.Join(dir, name)
			}
		}
	}
	switch {
	case forbidden != "":
		return "", notPermitted(forbidden, fs.ErrPermission)
	case relative != "":
		return "", &Error{Code: "relative-path", Op: "launch",
			Message: fmt.Sprintf("%q was found only through the relative PATH entry %q, and such entries are not used", name, relative),
			Hint:    "write its absolute path, or ./" + name + " with --command-cwd"}
	case searched == "":
		return "", &Error{Code: "not-found", Op: "launch", Message: fmt.Sprintf("not found: PATH is empty, so %q cannot be looked up", name),
			Hint: "give the job a PATH with --command-env PATH=…, or write the program's absolute path"}
	}
	return "", &Error{Code: "not-found", Op: "launch", Message: fmt.Sprintf("not found: %q is in no directory of PATH (%s)", name, searched),
		Hint: "write its absolute path, or give the job a PATH with --command-env PATH=…"}
}

func notPermitted(path string, err error) error {
	e := &Error{Code: "not-permitted", Op: "launch", Message: fmt.Sprintf("not permitted to execute %q", path), Err: reason(err)}
	if info, statErr := os.Stat(path); statErr == nil && info.Mode()&0o111 == 0 {
		e.Hint = "chmod +x " + path
	}
	return e
}

// reason drops the operation and path that the sentence already names.
func reason(err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
