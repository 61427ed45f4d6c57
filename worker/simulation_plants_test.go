package worker

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plantSeeds is how many seeds a planted bug may stay unseen.
const plantSeeds = 50

// plantsAlways are the plants of every run: one that loses a decision, and one
// that needs a kill.
var plantsAlways = []string{"overlap-without-row", "requeues-what-started"}

// TestPlantedBugsAreFound plants the bugs of testdata/simulation/plants, one at
// a time, and demands that the simulation finds each. A simulation that finds
// nothing in a broken worker proves nothing about a sound one. A plant whose text
// is no longer in the source fails: bring it up to date. ROTA_SIM=long builds all
// of them, which takes minutes; otherwise it is the two of plantsAlways.
func TestPlantedBugsAreFound(t *testing.T) {
	paths, err := filepath.Glob("../testdata/simulation/plants/*.txt")
	if err != nil || len(paths) < 12 {
		t.Fatalf("the plants are not there: %d, %v", len(paths), err)
	}
	if testing.Short() {
		t.Skip("each plant builds the tests anew")
	}
	for _, path := range paths {
		p := readPlant(t, path) // all of them: a stale one is seen at once
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		if os.Getenv("ROTA_SIM") != "long" && !slices.Contains(plantsAlways, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p.found(t)
		})
	}
}

// plant is one planted bug: changed sources by path, and the words of which one
// must be in what the simulation says of it.
type plant struct {
	find []string
	text map[string]string
}

// readPlant reads a plant's document: comments, a line "find: WORD …", then for
// each edit a line "== FILE" or "== PACKAGE", "-- old" with the text to replace,
// which must be there once, and "-- new" with what takes its place.
func readPlant(t *testing.T, path string) plant {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := plant{text: map[string]string{}}
	head, edits, _ := strings.Cut(string(raw), "\n== ")
	for line := range strings.Lines(head) {
		if words, ok := strings.CutPrefix(line, "find:"); ok {
			p.find = strings.Fields(words)
		}
	}
	for edit := range strings.SplitSeq(edits, "\n== ") {
		where, body, ok1 := strings.Cut(edit, "\n-- old\n")
		old, replacement, ok2 := strings.Cut(body+"\n", "\n-- new\n")
		if !ok1 || !ok2 || len(p.find) == 0 {
			t.Fatalf("%s: a plant is \"find: WORDS\", then edits of \"== FILE\", \"-- old\", text, \"-- new\", text", path)
		}
		p.replace(t, path, filepath.FromSlash(where), old, strings.TrimRight(replacement, "\n"))
	}
	return p
}

// replace makes one edit in the changed sources so far.
func (p plant) replace(t *testing.T, path, where, old, replacement string) {
	t.Helper()
	pattern := filepath.Join("..", where)
	if filepath.Ext(pattern) != ".go" {
		pattern = filepath.Join(pattern, "*.go")
	}
	sources, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		now, changed := p.text[source]
		if !changed {
			raw, err := os.ReadFile(source)
			if err != nil {
				t.Fatal(err)
			}
			now = string(raw)
		}
		if n := strings.Count(now, old); n > 0 {
			found += n
			p.text[source] = strings.Replace(now, old, replacement, 1)
		}
	}
	if found != 1 {
		t.Fatalf("%s is stale: its old text is %d times in %s, not once:\n%s", path, found, where, old)
	}
}

var failedSeed = regexp.MustCompile(`FAIL: TestSimulation/seed=(\d+)`)

// found builds the tests with the bug in them and runs seeds until one fails.
// The source is not touched: the compiler is given changed copies in its place.
func (p plant) found(t *testing.T) {
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for source, text := range p.text {
		original, err := filepath.Abs(source)
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(dir, filepath.Base(source))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay.Replace[original] = copied
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	list, bugged := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "bugged.test")
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", bugged, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command(bugged, "-test.run=^TestSimulation$")
	run.Env = append(os.Environ(), "ROTA_SIM_UNTIL=found", "ROTA_SIM_SEED=", "ROTA_SIM_SEEDS="+strconv.Itoa(plantSeeds))
	out, err := run.CombinedOutput()
	seed := failedSeed.FindSubmatch(out)
	if err == nil || seed == nil {
		t.Fatalf("not found in %d seeds: %v\n%s", plantSeeds, err, out)
	}
	said := string(out)
	if _, what, ok := strings.Cut(said, "seed "+string(seed[1])+":"); ok {
		said, _, _ = strings.Cut(what, "\n")
	} else {
		said = said[:min(len(said), 400)]
	}
	named := false
	for _, word := range p.find {
		named = named || strings.Contains(said, word)
	}
	if !named {
		t.Errorf("seed %s fails for another reason than %v: %s", seed[1], p.find, said)
	}
	t.Logf("found by seed %s:%s", seed[1], said[:min(len(said), 200)])
}
