//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Verbs that need no daemon.
func TestNext(t *testing.T) {
	playSession(t, newCLI(t), "../../testdata/cli/next.txt", map[string]string{})
}

func TestCheck(t *testing.T) {
	playSession(t, newCLI(t), "../../testdata/cli/check.txt", map[string]string{})
}

func TestNextBatchAnswersLineByLine(t *testing.T) {
	questions, err := os.Open("../../testdata/cli/batch.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer questions.Close()
	want, err := os.ReadFile("../../testdata/cli/batch.answers.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := newCLI(t).command("next", "--batch")
	cmd.Stdin = questions
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	wanted := strings.Split(strings.TrimSpace(string(want)), "\n")
	if len(got) != len(wanted) {
		t.Fatalf("%d answers, want %d:\n%s", len(got), len(wanted), out)
	}
	for i := range got {
		var g map[string]any
		if err := json.Unmarshal([]byte(got[i]), &g); err != nil {
			t.Fatal(err)
		}
		if fault, ok := g["error"].(map[string]any); ok { // the document has its code only
			if fault["message"] == "" {
				t.Errorf("answer %d has no message", i)
			}
			g["error"] = fault["code"]
		}
		var w map[string]any
		if err := json.Unmarshal([]byte(wanted[i]), &w); err != nil {
			t.Fatal(err)
		}
		a, _ := json.Marshal(g) // was JSON a moment ago
		b, _ := json.Marshal(w)
		if !bytes.Equal(a, b) {
			t.Errorf("answer %d is %s, want %s", i+1, a, b)
		}
	}
}

// Every verb takes --json, and with no daemon its stdout is one error document,
// whatever the log says on stderr.
func TestCase045JSONIsOneDocumentWithoutADaemon(t *testing.T) {
	c := newCLI(t)
	words := map[string][]string{ // what a verb needs to get as far as the daemon
		"rota cron add":  {"--name", "x", "--every", "1h", "--command", "true"},
		"rota cron edit": {"ID", "--name", "x"},
		"rota check":     {"no-such-file"},
	}
	local := []string{"rota next", "rota version"}
	others := []string{"rota serve", "rota bench", "rota help", "rota completion"}
	checked := 0
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if slices.ContainsFunc(others, func(o string) bool { return path == o || strings.HasPrefix(path, o+" ") }) {
			return
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.HasSubCommands() || slices.Contains(local, path) {
			return
		}
		checked++
		if cmd.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", path)
			return
		}
		args := strings.Fields(path)[1:]
		if extra, ok := words[path]; ok {
			args = append(args, extra...)
		} else if strings.ContainsAny(cmd.Use, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") && !strings.Contains(cmd.Use, "[") {
			args = append(args, "something")
		}
		p := c.run(append(args, "--json")...)
		doc := oneDocument(t, p.out)
		if ok, _ := member(doc, "ok"); ok != false || p.exit == 0 || strings.TrimSpace(p.err) == "" {
			t.Errorf("%s: exit %d, stdout %s, stderr %s", path, p.exit, p.out, p.err)
		}
		wantType, wantExit := "no_server", exitNoServer
		switch {
		case strings.HasPrefix(path, "rota cron "):
			wantType, wantExit = "cli_error", exitFailed
		case path == "rota check":
			wantType, wantExit = "io", exitIO
		case path == "rota backup": // it would copy the file itself
			wantType, wantExit = "not_found", exitNotFound
		}
		if got, _ := member(doc, "error.type"); got != wantType || p.exit != wantExit {
			t.Errorf("%s: type %v and exit %d, want %s and %d", path, got, p.exit, wantType, wantExit)
		}
	}
	walk(newRootCommand(&app{}))
	if checked < 15 {
		t.Errorf("only %d verbs were looked at", checked)
	}
}

// A command line that does not parse is told in JSON too.
func TestUsageErrorsInJSON(t *testing.T) {
	c := newCLI(t)
	for _, args := range [][]string{{"cron", "list", "--bogus", "--json"}, {"cron", "get", "--json"}, {"why", "--json"}, {"cron", "list", "--json", "--timeout", "x"}} {
		p := c.run(args...)
		if code, _ := member(oneDocument(t, p.out), "error.code"); code != "usage" || p.exit == 0 {
			t.Errorf("%v: %v, exit %d", args, code, p.exit)
		}
	}
}
