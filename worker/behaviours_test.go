package worker

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// claims are tests that show a row of testdata/behaviours.md without saying so
// themselves. A name is package.Test, as it stands in the document.
var claims = map[string][]string{
	"cmd/rota.TestCase022TwoDaemonsOnOneStore":             {"SC2", "TR16"},
	"cmd/rota.TestSIGTERMHandsOver":                        {"TR13"},
	"launcher.TestHowCommandsEnd":                          {"OR9", "TW12"},
	"launcher.TestTheLiveCheckRefusesWithoutATrace":        {"TR7"},
	"schedule.TestLawNextAndPrev":                          {"SM29", "SM30", "TR10"},
	"schedule.TestOracleAgreesNearTransitions":             {"SM31", "SM32"},
	"schedule.TestSkipRows":                                everyVector(),
	"store.TestCase022OneOfFiftyServes":                    {"SC2"},
	"worker.TestAOneShotIsDeletedOnlyWhenItsResultArrived": {"TR1"},
	"worker.TestAWaitOverARestart":                         {"RP4", "RC17", "RC21"},
	"worker.TestCatchUpOneFiveAtOnceTheRestApart":          {"OC2", "RC22"},
	"worker.TestCommitFailureAtEachStep":                   {"OR27", "OR28"},
	"worker.TestRecoverySkipsOldIDs":                       {"RC11", "MA1"},
	"worker.TestRecoveryOfWaitingRequests":                 {"MA1"},
	"worker.TestTransientFailures":                         {"TR23"},
}

func everyVector() (ids []string) {
	for n := range 29 {
		ids = append(ids, fmt.Sprint("V", n+1))
	}
	return ids
}

// behaviourSeries are the ids of the rows, by their letters.
var behaviourSeries = map[string]int{"OC": 4, "RP": 7, "RC": 24, "SC": 2, "SM": 32, "V": 29, "TR": 23, "OR": 33, "MA": 3, "OW": 19, "TW": 13}

var (
	behaviourID   = regexp.MustCompile(`\b(OC|RP|RC|SC|SM|TR|OR|MA|OW|TW|V)0*(\d+)\b`)
	coversLine    = regexp.MustCompile(`(?m)^(?:#|//)?\s*covers: (.*)$`)
	startsWithID  = regexp.MustCompile(`^(OC|RP|RC|SC|SM|TR|OR|MA|OW|TW)0*(\d+)([^0-9A-Za-z]|[a-z]?$|[A-Z])`)
	scheduleRowID = regexp.MustCompile(`(?m)^(SM\d+)[a-z]? \|`)
)

// TestBehavioursDocument keeps testdata/behaviours.md true: every row has a test
// or says what it waits for, every test that names a row has one, and the last
// column is what the tests say. The flag -rewrite writes it anew.
func TestBehavioursDocument(t *testing.T) {
	const path = "../testdata/behaviours.md"
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	covered := map[string]map[string]bool{}
	collectScripts(t, covered)
	collectTests(t, covered)
	vectors := vectorRows(t)
	var got strings.Builder
	seen := map[string]bool{}
	for _, line := range strings.SplitAfter(string(raw), "\n") {
		row := readBehaviour(line)
		if row == nil {
			got.WriteString(line)
			continue
		}
		if seen[row.id] {
			t.Errorf("%s has two rows", row.id)
		}
		seen[row.id] = true
		row.check(t, covered[row.id])
		if v, ok := vectors[row.id]; ok && row.what != v {
			t.Errorf("%s is %s, and the document says %s", row.id, v, row.what)
		}
		got.WriteString(row.write(covered[row.id]))
	}
	total := 0
	for letters, n := range behaviourSeries {
		for i := range n {
			if id := fmt.Sprint(letters, i+1); !seen[id] {
				t.Errorf("%s has no row", id)
			}
		}
		total += n
	}
	if len(seen) != total {
		t.Errorf("%d rows, want %d", len(seen), total)
	}
	for id, by := range covered {
		if !seen[id] {
			t.Errorf("%s is claimed by %v and has no row", id, slices.Sorted(maps.Keys(by)))
		}
	}
	if got.String() == string(raw) {
		return
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s tells something else.\n%s\nIf that is right: go test ./worker -run TestBehavioursDocument -rewrite", path, firstDifference(string(raw), got.String()))
}

// behaviour is one row of the document.
type behaviour struct{ id, what, here string }

// readBehaviour reads a row, nil where the line is none.
func readBehaviour(line string) *behaviour {
	cells := strings.Split(strings.TrimSuffix(line, "\n"), "|")
	if len(cells) != 6 {
		return nil
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	if id := cells[1]; id != "" && behaviourID.FindString(id) == id {
		return &behaviour{id, cells[2], cells[3]}
	}
	return nil
}

// check compares a row with the tests that name it.
func (b *behaviour) check(t *testing.T, by map[string]bool) {
	waits := strings.HasPrefix(b.here, "waits for: ")
	if !waits && !strings.HasPrefix(b.here, "changed: ") && !strings.HasPrefix(b.here, "as written") {
		t.Errorf("%s is %q: as written, changed, or waits for something?", b.id, b.here)
	}
	if !waits && len(by) == 0 {
		t.Errorf("%s neither waits nor is tested: %s", b.id, b.what)
	}
}

func (b *behaviour) write(by map[string]bool) string {
	return strings.ReplaceAll(fmt.Sprintf("| %s | %s | %s | %s |\n", b.id, b.what, b.here,
		strings.Join(slices.Sorted(maps.Keys(by)), ", ")), "|  |", "| |")
}

func cover(covered map[string]map[string]bool, by, ids string) {
	for _, m := range behaviourID.FindAllStringSubmatch(ids, -1) {
		id := m[1] + m[2]
		if covered[id] == nil {
			covered[id] = map[string]bool{}
		}
		covered[id][by] = true
	}
}

// collectScripts reads what the scripts and the tables of questions cover.
func collectScripts(t *testing.T, covered map[string]map[string]bool) {
	t.Helper()
	paths, err := filepath.Glob("../testdata/turn/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range coversLine.FindAllStringSubmatch(string(raw), -1) {
			cover(covered, strings.TrimPrefix(path, "../testdata/"), m[1])
		}
	}
	raw, err := os.ReadFile("../testdata/schedule/rows.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range scheduleRowID.FindAllStringSubmatch(string(raw), -1) {
		cover(covered, "schedule.TestSingleQuestions", m[1])
	}
}

// vectorRows are the questions of the daylight-saving table, by id.
func vectorRows(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../testdata/schedule/skip.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(raw)), "\n") {
		if cells := strings.Split(line, " | "); !strings.HasPrefix(line, "#") && len(cells) == 5 {
			rows[fmt.Sprint("V", len(rows)+1)] = fmt.Sprintf("`%s` in %s from %s", cells[1], cells[0], cells[2])
		}
	}
	if len(rows) != len(everyVector()) {
		t.Fatalf("%d vectors were read", len(rows))
	}
	return rows
}

// collectTests reads what the tests of every package say that they cover, and
// adds the claims, which must name a test that exists.
func collectTests(t *testing.T, covered map[string]map[string]bool) {
	t.Helper()
	tests := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(strings.TrimPrefix(path, ".."+string(filepath.Separator))))
		for _, d := range tree.Decls {
			name := filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				name = folder + "." + fn.Name.Name
				tests[name] = true
				coverByFunc(covered, name, fn)
			}
			coverByCases(covered, name, d)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, ids := range claims {
		if !tests[name] {
			t.Errorf("%s is said to cover %v and does not exist", name, ids)
		}
		cover(covered, name, strings.Join(ids, " "))
	}
}

// coverByFunc reads a test's own name and the covers line of its comment.
func coverByFunc(covered map[string]map[string]bool, name string, fn *ast.FuncDecl) {
	if m := startsWithID.FindStringSubmatch(strings.TrimPrefix(fn.Name.Name, "Test")); m != nil {
		cover(covered, name, m[1]+m[2])
	}
	for _, m := range coversLine.FindAllStringSubmatch(fn.Doc.Text(), -1) {
		cover(covered, name, m[1])
	}
}

// coverByCases reads the names of a test's cases: texts that begin with an id.
func coverByCases(covered map[string]map[string]bool, name string, d ast.Decl) {
	ast.Inspect(d, func(n ast.Node) bool {
		if pair, ok := n.(*ast.KeyValueExpr); ok && isClaim(pair) {
			return false
		}
		text, ok := n.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING {
			return true
		}
		if value, err := strconv.Unquote(text.Value); err == nil {
			if m := startsWithID.FindStringSubmatch(value); m != nil {
				cover(covered, name, m[1]+m[2])
			}
		}
		return true
	})
}

// isClaim says that a pair is one of claims, or of the series: those are lists
// of ids and no tests.
func isClaim(pair *ast.KeyValueExpr) bool {
	key, ok := pair.Key.(*ast.BasicLit)
	return ok && (strings.Contains(key.Value, ".Test"))
}
