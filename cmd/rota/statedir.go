package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// environment is what the choice of a state directory depends on, so that it
// can be decided without touching the process.
type environment struct {
	goos    string
	getenv  func(string) string
	home    string // "" = unknown
	tempDir string
}

func hostEnvironment() environment {
	home, err := os.UserHomeDir()
	if err != nil {
		home = ""
	}
	return environment{goos: runtime.GOOS, getenv: os.Getenv, home: home, tempDir: os.TempDir()}
}

// stateDir is the directory of the database and the socket, absolute and with
// symbolic links resolved where it exists, so that a daemon and its clients
// agree on it. named says whether a flag or ROTA_STATE_DIR chose it.
func stateDir(flag string, env environment) (dir string, named bool, err error) {
	dir = flag
	if dir == "" {
		dir = env.getenv("ROTA_STATE_DIR")
	}
	if named = dir != ""; !named {
		if dir, err = defaultStateDir(env); err != nil {
			return "", false, err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", named, fmt.Errorf("state directory: %w", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	return dir, named, nil
}

func defaultStateDir(env environment) (string, error) {
	noHome := &failure{Exit: exitConfig, Code: "no_home", Message: "there is no home directory to keep state in",
		Hint: "name a directory with --state-dir DIR or ROTA_STATE_DIR"}
	switch env.goos {
	case "windows":
		if local := env.getenv("LOCALAPPDATA"); local != "" {
			return filepath.Join(local, "rota"), nil
		}
		if env.home == "" {
			return "", noHome
		}
		return filepath.Join(env.home, "AppData", "Local", "rota"), nil
	case "darwin":
		if env.home == "" {
			return "", noHome
		}
		return filepath.Join(env.home, "Library", "Application Support", "rota"), nil
	}
	// A relative XDG_STATE_HOME is invalid by its own specification.
	if xdg := env.getenv("XDG_STATE_HOME"); filepath.IsAbs(xdg) {
		return filepath.Join(xdg, "rota"), nil
	}
	if env.home == "" {
		return "", noHome
	}
	return filepath.Join(env.home, ".local", "state", "rota"), nil
}

// maxSocketPath is the longest path a socket address takes on every system
// this runs on; on macOS the terminating zero counts.
const maxSocketPath = 104

// socketPath is where the daemon of a state directory listens. A path that is
// too long for a socket address is replaced by a short one made of the
// directory's name.
func socketPath(dir string, env environment) string {
	limit := maxSocketPath
	if env.goos == "darwin" {
		limit--
	}
	path := filepath.Join(dir, "rota.sock")
	if len(path) <= limit {
		return path
	}
	sum := sha256.Sum256([]byte(dir))
	runtimeDir := env.getenv("XDG_RUNTIME_DIR")
	if !filepath.IsAbs(runtimeDir) {
		// Shared with others: both ends check that the other is the same user.
		runtimeDir = env.tempDir
	}
	return filepath.Join(runtimeDir, "rota-"+hex.EncodeToString(sum[:8])+".sock")
}

// databasePath is the database of a state directory.
func databasePath(dir string) string { return filepath.Join(dir, "rota.sqlite") }

// makeStateDir creates the directory for its owner alone. One that is there
// keeps its mode.
func makeStateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return &failure{Exit: exitIO, Code: "io", Message: fmt.Sprintf("state directory %s: %v", dir, err),
			Hint: "name another one with --state-dir DIR", Err: err}
	}
	return nil
}
