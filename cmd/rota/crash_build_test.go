//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// crashBuilds are the two builds of the program that crash tests kill: the
// ordinary one, and the one whose crash points can be armed. They lie beside
// the test binary, which `go test` removes with everything around it.
var crashBuilds = struct {
	plain, armed crashBuild
}{armed: crashBuild{args: []string{"-tags", "failpoint"}}}

type crashBuild struct {
	once sync.Once
	args []string
	path string
	err  error
}

// crashPlain is the program as it ships.
func crashPlain(t *testing.T) string { return crashBuilds.plain.binary(t) }

// crashArmed is the program with its crash points.
func crashArmed(t *testing.T) string { return crashBuilds.armed.binary(t) }

func (b *crashBuild) binary(t *testing.T) string {
	t.Helper()
	b.once.Do(func() {
		var self, dir string
		if self, b.err = os.Executable(); b.err != nil {
			return
		}
		if dir, b.err = os.MkdirTemp(filepath.Dir(self), "crash-"); b.err != nil {
			return
		}
		b.path = filepath.Join(dir, "rota")
		b.err = crashGoBuild(b.path, b.args...)
	})
	if b.err != nil {
		t.Fatal(b.err)
	}
	return b.path
}

// crashGoBuild builds this package into path.
func crashGoBuild(path string, args ...string) error {
	cmd := exec.Command("go", append(append([]string{"build", "-ldflags=-s -w"}, args...), "-o", path, ".")...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}

// crashPlant is one planted bug: replacements in the source, and the kinds of
// violation of which one must be found.
type crashPlant struct {
	find  []string // "nothing" alone: no violation at all
	edits []crashEdit
}

// crashEdit replaces text that must be there exactly once, in one file or in
// all files of one package.
type crashEdit struct{ where, old, new string }

// readCrashPlant reads a plant's document: comments, a line "find: KIND …",
// then for each edit a line "== FILE" or "== PACKAGE", "-- old" with the text
// to replace and "-- new" with what takes its place.
func readCrashPlant(t *testing.T, path string) crashPlant {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, _ := strings.Cut(string(raw), "\n== ")
	var p crashPlant
	for line := range strings.Lines(head) {
		if kinds, ok := strings.CutPrefix(line, "find:"); ok {
			p.find = strings.Fields(kinds)
		}
	}
	for part := range strings.SplitSeq(rest, "\n== ") {
		file, body, ok1 := strings.Cut(part, "\n-- old\n")
		old, replacement, ok2 := strings.Cut(body, "\n-- new\n")
		if !ok1 || !ok2 {
			t.Fatalf("%s: an edit is not \"== FILE\", \"-- old\", text, \"-- new\", text", path)
		}
		p.edits = append(p.edits, crashEdit{file, old, strings.TrimRight(replacement, "\n")})
	}
	if len(p.find) == 0 || len(p.edits) == 0 {
		t.Fatalf("%s: a plant needs a line \"find:\" and an edit", path)
	}
	return p
}

// apply makes the edit in text, the changed files so far by path.
func (e crashEdit) apply(t *testing.T, root string, text map[string]string) {
	t.Helper()
	pattern := filepath.Join(root, filepath.FromSlash(e.where))
	if filepath.Ext(pattern) != ".go" {
		pattern = filepath.Join(pattern, "*.go")
	}
	sources, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, source := range sources {
		now, changed := text[source]
		if !changed {
			raw, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			now = string(raw)
		}
		if n := strings.Count(now, e.old); n > 0 && !strings.HasSuffix(source, "_test.go") {
			found += n
			text[source] = strings.Replace(now, e.old, e.new, 1)
		}
	}
	if found != 1 {
		t.Fatalf("the plant is stale: its old text is %d times in %s, not once:\n%s", found, e.where, e.old)
	}
}

// build makes the program with the bug in it, in dir, with its crash points.
// The source is not touched: the compiler is given changed copies in its place.
func (p crashPlant) build(t *testing.T, dir string) (armed string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text := map[string]string{}
	for _, e := range p.edits {
		e.apply(t, root, text)
	}
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for source, changed := range text {
		copied := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(source, root), string(filepath.Separator), "_"))
		if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[source] = copied
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	armed = filepath.Join(dir, "rota")
	if err := crashGoBuild(armed, "-overlay", list, "-tags", "failpoint"); err != nil {
		t.Fatal(err)
	}
	return armed
}
