package store

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Every declared code has words, and no words are without a code.
func TestEveryCodeHasItsWords(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[Code]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Code") || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			text, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			declared[Code(text)] = true
		}
		return true
	})
	if len(declared) != len(saidByCode) {
		t.Errorf("%d codes are declared, %d have words", len(declared), len(saidByCode))
	}
	sentences := map[string]Code{}
	for code := range declared {
		s := saidByCode[code]
		if other, ok := sentences[s.sentence]; ok {
			t.Errorf("%s and %s say the same", code, other)
		}
		sentences[s.sentence] = code
		if s.sentence == "" || s.hint == "" || s.exit == 0 {
			t.Errorf("%s: sentence %q, hint %q, exit %d", code, s.sentence, s.hint, s.exit)
		}
		if hint := newError(code, "open", "/d b/x", nil).Hint; strings.ContainsAny(hint, "{}") || strings.Contains(hint, "%s") {
			t.Errorf("%s: the hint is not filled in: %s", code, hint)
		}
	}
}

func TestHintsCanBePasted(t *testing.T) {
	for path, want := range map[string]string{
		"/a/b.sqlite":  "mv /a/b.sqlite-wal /a/b.sqlite-wal.aside",
		"/a b/c":       "mv '/a b/c-wal' '/a b/c-wal.aside'",
		"/a'b;rm -r/c": `mv '/a'\''b;rm -r/c-wal' '/a'\''b;rm -r/c-wal.aside'`,
	} {
		if hint := newError(CodeStaleWAL, "open", path, nil).Hint; !strings.HasSuffix(hint, want) {
			t.Errorf("%s: %s", path, hint)
		}
	}
}

func TestClassAndWhatItEnds(t *testing.T) {
	for _, c := range []struct {
		err   error
		class ErrorClass
		ends  bool
	}{
		{nil, Other, false},
		{errors.New("a rule of rota's"), Other, false},
		{Constraint, Constraint, false},
		{fmt.Errorf("wrapped: %w", DiskFull), DiskFull, true},
		{syscall.ENOSPC, DiskFull, true},
		{syscall.EIO, IO, true},
		{Busy, Busy, true}, {Corrupt, Corrupt, true}, {Interrupt, Interrupt, true}, {NoMem, NoMem, true},
		{newError(CodeFenced, "exec", "/x", nil), Other, false},
		{newError(CodeMisuse, "exec", "/x", nil), Other, true},
		{newError(CodeSavepoint, "savepoint", "/x", Constraint), Constraint, true},
		{newError(CodeEnded, "exec", "/x", IO), IO, true},
		{newError(CodeCommitUnknown, "commit", "/x", IO), IO, true},
	} {
		if got := Class(c.err); got != c.class {
			t.Errorf("%v: class %v, want %v", c.err, got, c.class)
		}
		if got := EndsTurn(c.err); got != c.ends {
			t.Errorf("%v: ends the turn %v, want %v", c.err, got, c.ends)
		}
	}
}

// SQLite's own words, by what it says when it really happens.
func TestClassOfSQLitesErrors(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	for query, want := range map[string]ErrorClass{
		"INSERT INTO rota_meta (key, value) VALUES ('path', 'x')":                   Constraint, // primary key
		"INSERT INTO rota_meta (key, value) VALUES ('new', NULL)":                   Constraint, // not null
		"INSERT INTO rota_plan VALUES ('j', 'text', 1)":                             Constraint, // strict type
		"INSERT INTO cron_job_runtime_authorities VALUES ('k', 'j', NULL, NULL, 1)": Constraint, // foreign key
		"SELECT nonsense":                Other,
		"PRAGMA wal_checkpoint(nonsense": Other,
	} {
		err := s.session.exec(query)
		if err == nil || Class(err) != want {
			t.Errorf("%s: %v is %v, want %v", query, err, Class(err), want)
		}
		if EndsTurn(err) != (want != Constraint) {
			t.Errorf("%s: ends the turn %v", query, EndsTurn(err))
		}
	}
	mustClose(t, s)
}
