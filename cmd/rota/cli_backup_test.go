//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A backup is made of a database in use, of one that a kill left, and of one that
// was closed, and each is shown, not served, wherever it is opened.
func TestBackupWithAndWithoutADaemon(t *testing.T) {
	c := newCLI(t)
	c.serve()
	add := func(name string) {
		t.Helper()
		if p := c.run("cron", "add", "--name", name, "--every", "1d", "--command", "true"); p.exit != 0 {
			t.Fatal(p)
		}
	}
	out := t.TempDir()
	backup := func(name string) string {
		t.Helper()
		path := filepath.Join(out, name)
		p := c.run("backup", path)
		if p.exit != 0 || !strings.HasPrefix(p.out, "Copied ") || !strings.HasSuffix(p.out, " to "+path+"\n") || p.err != "" {
			t.Fatal(p)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v (%v)", name, info.Mode(), err)
		}
		return path
	}
	add("first")
	served := backup("served")
	add("second")
	c.kill()
	killed := backup("killed")
	if p := c.run("cron", "list"); p.exit == 0 {
		t.Fatal("a daemon answers")
	}
	c.serve()()
	closed := backup("closed")
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 3 {
		t.Errorf("left over: %v (%v)", entries, err)
	}

	for path, names := range map[string][]string{served: {"first"}, killed: {"first", "second"}, closed: {"first", "second"}} {
		other := newCLI(t)
		stop := other.serve("--db", path)
		list := other.run("cron", "list", "--all")
		for _, name := range []string{"first", "second"} {
			if has := strings.Contains(list.out, name); has != (name == names[len(names)-1] || name == names[0]) {
				t.Errorf("%s shows %s: %v", filepath.Base(path), name, has)
			}
		}
		if p := other.run("cron", "add", "--name", "x", "--every", "1d", "--command", "true"); p.exit == 0 || !strings.Contains(p.err, "a backup of "+filepath.Join(c.dir, "rota.sqlite")) {
			t.Errorf("%s takes a job: %v", filepath.Base(path), p)
		}
		stop()
		stop = other.serve("--db", path, "--adopt")
		if p := other.run("cron", "add", "--name", "x", "--every", "1d", "--command", "true"); p.exit != 0 {
			t.Errorf("%s, adopted: %v", filepath.Base(path), p)
		}
		stop()
	}
}

func TestBackupWithoutADatabase(t *testing.T) {
	c := newCLI(t)
	path := filepath.Join(t.TempDir(), "copy")
	p := c.run("backup", path)
	if p.exit != exitNotFound || !strings.HasPrefix(p.err, "there is no database "+filepath.Join(c.dir, "rota.sqlite")) {
		t.Errorf("%+v", p)
	}
	if entries, err := os.ReadDir(c.dir); err != nil || len(entries) != 0 {
		t.Errorf("made %v (%v)", entries, err)
	}
}
