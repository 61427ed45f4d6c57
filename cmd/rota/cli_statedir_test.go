//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestStateDir(t *testing.T) {
	cwd, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	if cwd, err = filepath.EvalSymlinks(cwd); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, goos, flag, home string
		env                    map[string]string
		want                   string
		named                  bool
	}{
		{"flag", "linux", "/nonexistent/a", "/nonexistent/home", map[string]string{"ROTA_STATE_DIR": "/nonexistent/b"}, "/nonexistent/a", true},
		{"environment", "linux", "", "/nonexistent/home", map[string]string{"ROTA_STATE_DIR": "/nonexistent/b"}, "/nonexistent/b", true},
		{"relative", "linux", ".", "/nonexistent/home", nil, cwd, true},
		{"XDG", "linux", "", "/nonexistent/home", map[string]string{"XDG_STATE_HOME": "/nonexistent/x"}, "/nonexistent/x/rota", false},
		{"XDG must be absolute", "linux", "", "/nonexistent/home", map[string]string{"XDG_STATE_HOME": "x"}, "/nonexistent/home/.local/state/rota", false},
		{"linux", "linux", "", "/nonexistent/home", nil, "/nonexistent/home/.local/state/rota", false},
		{"macOS", "darwin", "", "/nonexistent/home", nil, "/nonexistent/home/Library/Application Support/rota", false},
		{"Windows", "windows", "", "/nonexistent/home", map[string]string{"LOCALAPPDATA": "/nonexistent/local"}, "/nonexistent/local/rota", false},
		{"no home", "linux", "", "", nil, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, named, err := stateDir(c.flag, environment{goos: c.goos, home: c.home, getenv: func(k string) string { return c.env[k] }})
			if c.want == "" {
				if err == nil {
					t.Errorf("chose %s", dir)
				}
				return
			}
			if err != nil || filepath.ToSlash(dir) != c.want || named != c.named {
				t.Errorf("%s named=%v %v, want %s named=%v", dir, named, err, c.want, c.named)
			}
		})
	}
}

func TestSocketPath(t *testing.T) {
	env := environment{goos: "linux", tempDir: "/tmp", getenv: func(k string) string {
		return map[string]string{"XDG_RUNTIME_DIR": "/run/user/7"}[k]
	}}
	fits := "/" + strings.Repeat("d", maxSocketPath-len("//rota.sock"))
	if got := socketPath(fits, env); got != fits+"/rota.sock" || len(got) != maxSocketPath {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	long := fits + "d"
	short := socketPath(long, env)
	if !strings.HasPrefix(short, "/run/user/7/rota-") || short == socketPath(long+"d", env) || short != socketPath(long, env) {
		t.Errorf("one byte more: %s", short)
	}
	env.goos = "darwin" // its zero byte counts
	if got := socketPath(fits, env); got == fits+"/rota.sock" {
		t.Errorf("macOS takes %d bytes", len(got))
	}
	env.getenv = func(string) string { return "" }
	if got := socketPath(long, env); !strings.HasPrefix(got, "/tmp/rota-") {
		t.Errorf("without a runtime directory: %s", got)
	}
}
