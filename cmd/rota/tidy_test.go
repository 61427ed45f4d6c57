package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Sizes. Above the first of each pair is worth a look, above the second is too
// much, except for what is listed below.
const (
	softFileLines, hardFileLines = 400, 600
	softFuncLines, hardFuncLines = 70, 100
)

// tooLong are the files and functions ("file.go:Name") that exceed the bounds,
// with their size when they were listed. A row may only get smaller, and goes
// when it is within the bound.
var tooLong = map[string]int{}

// clocklessDirs never ask what time it is, except in clockFile: their callers
// tell them.
var clocklessDirs = []string{"schedule", "store", "worker"}

const clockFile = "worker/clock.go"

// vaguePackages say nothing about what is in them.
var vaguePackages = []string{"util", "utils", "common", "helper", "helpers", "misc", "shared", "base"}

// unfinished matches marks of work that was left for later. Put together, so
// that it does not match itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// textFiles are searched for marks.
var textFiles = []string{".go", ".md", ".sql", ".sh", ".yml", ".yaml", ".json"}

// goFile is one parsed file; its path is from the root, with slashes.
type goFile struct {
	path string
	text []byte
	fset *token.FileSet
	tree *ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f goFile) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.path, f.fset.Position(n.Pos()).Line)
}

func TestFilesAndFunctionsStayShort(t *testing.T) {
	listed := map[string]bool{}
	size := func(what string, lines, soft, hard int) {
		was, known := tooLong[what]
		listed[what] = known && lines > hard
		switch {
		case known && lines > was:
			t.Errorf("%s grew from %d lines to %d", what, was, lines)
		case known && lines <= hard:
			t.Errorf("%s is within the bound: take it from tooLong", what)
		case !known && lines > hard:
			t.Errorf("%s has %d lines, more than %d", what, lines, hard)
		case lines > soft:
			t.Logf("%s has %d lines", what, lines)
		}
	}
	for _, f := range goFiles(t) {
		size(f.path, bytes.Count(f.text, []byte("\n")), softFileLines, hardFileLines)
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				lines := f.fset.Position(fn.End()).Line - f.fset.Position(fn.Pos()).Line + 1
				size(f.path+":"+fn.Name.Name, lines, softFuncLines, hardFuncLines)
			}
		}
	}
	for what := range tooLong {
		if !listed[what] {
			t.Errorf("%s is not there any more: take it from tooLong", what)
		}
	}
}

func TestDecisionsAskNoClock(t *testing.T) {
	asked := 0
	for _, f := range goFiles(t) {
		top, _, _ := strings.Cut(f.path, "/")
		if f.isTest() || !slices.Contains(clocklessDirs, top) {
			continue
		}
		for _, n := range uses(f, "time", "Now", "Since", "Until") {
			if asked++; f.path != clockFile {
				t.Errorf("%s asks the clock", f.at(n))
			}
		}
	}
	if asked == 0 {
		t.Errorf("not even %s asks the clock: this test looks at nothing", clockFile)
	}
}

func TestNoTestSleeps(t *testing.T) {
	for _, f := range goFiles(t) {
		if !f.isTest() {
			continue
		}
		for _, n := range uses(f, "time", "Sleep") {
			t.Errorf("%s sleeps: wait for what is to happen", f.at(n))
		}
	}
}

func TestNoPackageIsNamedVaguely(t *testing.T) {
	for _, f := range goFiles(t) {
		name := strings.TrimSuffix(f.tree.Name.Name, "_test")
		for _, word := range append(strings.Split(filepath.ToSlash(filepath.Dir(f.path)), "/"), name) {
			if slices.Contains(vaguePackages, word) {
				t.Errorf("%s: %q says nothing about what is in it", f.path, word)
			}
		}
	}
}

func TestNothingIsMarkedUnfinished(t *testing.T) {
	eachFile(t, func(path string) {
		if !slices.Contains(textFiles, filepath.Ext(path)) {
			return
		}
		text, err := os.ReadFile(filepath.Join("../..", path))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range unfinished.FindAllIndex(text, 10) {
			t.Errorf("%s:%d: %s", path, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
		}
	})
	if !unfinished.MatchString("// TO" + "DO: later") {
		t.Error("the pattern matches nothing")
	}
}

// uses finds the uses of a package's names, also under another import name.
func uses(f goFile, pkg string, names ...string) (found []ast.Node) {
	local := ""
	for _, imp := range f.tree.Imports {
		if imp.Path.Value == `"`+pkg+`"` {
			local = filepath.Base(pkg)
			if imp.Name != nil {
				local = imp.Name.Name
			}
		}
	}
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains(names, s.Sel.Name) {
			if id, ok := s.X.(*ast.Ident); ok && id.Name == local {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// goFiles parses every Go file of the module.
func goFiles(t *testing.T) (all []goFile) {
	t.Helper()
	eachFile(t, func(path string) {
		if filepath.Ext(path) != ".go" {
			return
		}
		f := goFile{path: path, fset: token.NewFileSet()}
		var err error
		if f.text, err = os.ReadFile(filepath.Join("../..", path)); err == nil {
			f.tree, err = parser.ParseFile(f.fset, path, f.text, parser.SkipObjectResolution)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	})
	if len(all) < 50 {
		t.Fatalf("only %d files: is this the root of the module?", len(all))
	}
	return all
}

// eachFile walks the module without what is hidden.
func eachFile(t *testing.T, do func(path string)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("../.."), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != ".":
			return fs.SkipDir
		case !entry.IsDir():
			do(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
