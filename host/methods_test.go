package host

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/worker"
)

// stanza is one question of a document, and the lines under it.
type stanza struct {
	line           int
	method, params string
	answer         []string
}

func readStanzas(t *testing.T, path string) []stanza {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []stanza
	for i, line := range strings.Split(string(raw), "\n") {
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "  "):
			last := &all[len(all)-1]
			last.answer = append(last.answer, strings.TrimSpace(line))
		default:
			method, params, _ := strings.Cut(line, " ")
			all = append(all, stanza{line: i + 1, method: method, params: params})
		}
	}
	return all
}

func TestRefusals(t *testing.T) {
	r := newRig(t, nil)
	id := r.addJob("there")
	stanzas := readStanzas(t, "../testdata/host/refusals.txt")
	if len(stanzas) < 30 {
		t.Fatalf("the document has only %d refusals", len(stanzas))
	}
	for _, s := range stanzas {
		t.Run(fmt.Sprintf("line %d %s", s.line, s.method), func(t *testing.T) {
			werr := r.refused(s.method, strings.ReplaceAll(s.params, "JOB", id))
			code, message, _ := strings.Cut(s.answer[0], " ")
			if werr.Code != code {
				t.Errorf("code %s, want %s", werr.Code, code)
			}
			if start, open := strings.CutSuffix(message, "…"); open && !strings.HasPrefix(werr.Message, start) || !open && werr.Message != message {
				t.Errorf("message %q, want %q", werr.Message, message)
			}
			if s.answer[1] == "-" {
				return
			}
			var want, got map[string]any
			if err := json.Unmarshal([]byte(s.answer[1]), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(werr.Details, &got); err != nil {
				t.Fatalf("details %q: %v", werr.Details, err)
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("details.%s is %v, want %v", key, got[key], value)
				}
			}
		})
	}
}

func TestShapes(t *testing.T) {
	r := newRig(t, nil)
	id := r.addJob("once")
	r.addJob("another")
	runID := r.ask("cron.run", `{"id":"`+id+`"}`)["runId"].(string)
	r.finish(runID, "printed")
	for _, s := range readStanzas(t, "../testdata/host/shapes.txt") {
		t.Run(fmt.Sprintf("line %d %s", s.line, s.method), func(t *testing.T) {
			params := strings.NewReplacer("JOB", id, "RUN", runID).Replace(s.params)
			got := r.ask(s.method, params)
			for _, word := range strings.Fields(s.answer[0]) {
				name, types, _ := strings.Cut(word, "=")
				name, optional := strings.CutSuffix(name, "?")
				value, there := got[name]
				delete(got, name)
				switch {
				case !there && !optional:
					t.Errorf("%s is missing", name)
				case there && !slices.Contains(strings.Split(types, "|"), typeOf(value)):
					t.Errorf("%s is %s, want %s", name, typeOf(value), types)
				}
			}
			for name, value := range got {
				t.Errorf("%s is not expected: %v", name, value)
			}
		})
	}
}

func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "text"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case float64:
		if v == math.Trunc(v) {
			return "int"
		}
	}
	return fmt.Sprintf("%T", v)
}

// The table is the one list of methods: info shows it, and what changes the
// schedule is marked.
func TestMethodTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range methodRows() {
		if seen[m.Name] || m.Handle == nil {
			t.Errorf("%s is there twice, or has no handler", m.Name)
		}
		seen[m.Name] = true
		if m.Write != (m.Scope == ScopeAdmin && !m.Local) {
			t.Errorf("%s: scope %s, write %v", m.Name, m.Scope, m.Write)
		}
	}
	if len(methodTable()) != len(methodRows()) {
		t.Error("the table lost a row")
	}
}

// The same request key gives the same run, and the run keeps its id to the end.
func TestRequestKeyGivesOneRun(t *testing.T) {
	r := newRig(t, nil)
	id := r.addJob("keyed")
	ask := func() string { return r.ask("cron.run", `{"id":"`+id+`","requestKey":"k-1"}`)["runId"].(string) }
	first := ask()
	if again := ask(); again != first {
		t.Errorf("while open: %s and %s", first, again)
	}
	r.finish(first, "done")
	if again := ask(); again != first {
		t.Errorf("after the end: %s and %s", first, again)
	}
	if total := r.ask("cron.runs", `{"id":"`+id+`"}`)["total"].(float64); total != 1 {
		t.Errorf("%v runs in the history", total)
	}
}

// Output can be asked for while a run prints, and afterwards.
func TestLogsOfAnActiveAndAFinishedRun(t *testing.T) {
	r := newRig(t, nil)
	runID := r.ask("cron.run", `{"id":"`+r.addJob("talks")+`"}`)["runId"].(string)
	r.launchedRun(runID)
	r.mu.Lock()
	r.text[runID] = "so far"
	r.mu.Unlock()
	logs := r.ask("rota.logs", `{"runId":"`+runID+`"}`)
	if logs["running"] != true || logs["text"] != "so far" {
		t.Errorf("while it runs: %v", logs)
	}
	r.mu.Lock()
	delete(r.text, runID)
	r.mu.Unlock()
	if logs := r.ask("rota.logs", `{"runId":"`+runID+`"}`); logs["running"] != true || logs["text"] != "" {
		t.Errorf("open and silent: %v", logs)
	}
	r.finish(runID, "all of it")
	if logs := r.ask("rota.logs", `{"runId":"`+runID+`"}`); logs["running"] != false || logs["text"] != "all of it" || logs["status"] != "ok" {
		t.Errorf("afterwards: %v", logs)
	}
}

// A page of long outputs is cut below what a reply may have, and says where to
// go on.
func TestRunsPageIsBoundedInBytes(t *testing.T) {
	entry := json.RawMessage(`"` + strings.Repeat("x", maxPageBytes*2/5) + `"`)
	page := cutPage(workerPage(entry, 5), 200)
	if len(page.Entries) != 2 || !page.HasMore || page.NextOffset == nil || *page.NextOffset != 2 {
		t.Errorf("%d entries, hasMore %v", len(page.Entries), page.HasMore)
	}
	huge := json.RawMessage(`"` + strings.Repeat("x", maxPageBytes+1) + `"`)
	if page := cutPage(workerPage(huge, 2), 200); len(page.Entries) != 1 {
		t.Errorf("one entry larger than a page: %d entries", len(page.Entries))
	}
}

// A page of long events is cut where a commit ends, and has at least one commit.
func TestEventsPageIsBoundedInBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		atMs  []int64
		bytes int
		want  int
	}{
		{"short events", []int64{1, 2, 3}, 10, 3},
		{"cut between commits", []int64{1, 2, 3, 4}, maxPageBytes * 2 / 5, 2},
		{"not within one", []int64{1, 2, 2, 2}, maxPageBytes * 2 / 5, 1},
		{"one long commit", []int64{1, 1, 1}, maxPageBytes, 3},
		{"a long commit, and others", []int64{1, 1, 2, 3}, maxPageBytes, 2},
		{"none", nil, 0, 0},
	} {
		var events []worker.Event
		for _, atMs := range c.atMs {
			events = append(events, worker.Event{AtMs: atMs, Detail: make(json.RawMessage, c.bytes)})
		}
		if got := len(cutEvents(events)); got != c.want {
			t.Errorf("%s: %d events, want %d", c.name, got, c.want)
		}
	}
}
