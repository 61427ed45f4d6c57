//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestSession plays the session document on a real daemon.
func TestSession(t *testing.T) {
	c := newCLI(t)
	c.serve()
	nextYear := time.Now().UTC().AddDate(1, 0, 0).Truncate(time.Second)
	playSession(t, c, "../../testdata/cli/session.txt", map[string]string{
		"DB":           filepath.Join(c.dir, "rota.sqlite"),
		"BACKUP":       filepath.Join(c.dir, "copy.sqlite"),
		"NEXT-YEAR":    nextYear.Format("2006-01-02T15:04:05"),
		"NEXT-YEAR-MS": fmt.Sprint(nextYear.UnixMilli()),
	})
}

// TestRequestsSession plays what the command line says about http requests,
// webhooks and a job's own rules.
func TestRequestsSession(t *testing.T) {
	c := newCLI(t)
	c.serve()
	playSession(t, c, "../../testdata/cli/requests.txt", map[string]string{})
}

// sessionStep is one stanza of a session.
type sessionStep struct {
	line  int
	words []string
	want  []string
}

func readSession(t *testing.T, path string) []sessionStep {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var steps []sessionStep
	for i, line := range strings.Split(string(raw), "\n") {
		switch {
		case strings.TrimSpace(line) == "", strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "$ "):
			steps = append(steps, sessionStep{line: i + 1, words: shellWords(line[2:])})
		default:
			last := &steps[len(steps)-1]
			last.want = append(last.want, line)
		}
	}
	return steps
}

// shellWords splits a command line; single quotes keep everything.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	quoted, open := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, open = !quoted, true
		case r == ' ' && !quoted:
			if open {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if open {
		words = append(words, word.String())
	}
	return words
}

func playSession(t *testing.T, c *cli, path string, names map[string]string) {
	t.Helper()
	fill := func(s string) string {
		for name, value := range names {
			s = strings.ReplaceAll(s, "{"+name+"}", value)
		}
		return s
	}
	for _, step := range readSession(t, path) {
		words := make([]string, len(step.words))
		for i, w := range step.words {
			words[i] = fill(w)
		}
		t.Run(fmt.Sprintf("line %d %s", step.line, strings.Join(step.words[:min(2, len(step.words))], " ")), func(t *testing.T) {
			c.t = t
			p := c.run(words...)
			for _, want := range step.want {
				checkStep(t, fill(want), p, names)
			}
			if t.Failed() {
				t.Logf("exit %d\nstdout:\n%s\nstderr:\n%s", p.exit, p.out, p.err)
			}
		})
	}
	c.t = t
}

func checkStep(t *testing.T, want string, p printed, names map[string]string) {
	t.Helper()
	verb, rest, _ := strings.Cut(want, " ")
	switch verb {
	case "exit":
		if fmt.Sprint(p.exit) != rest {
			t.Errorf("exit %d, want %s", p.exit, rest)
		}
	case "silent":
		if p.out != "" {
			t.Errorf("stdout is not empty")
		}
	case "out":
		if !hasLine(p.out, rest) {
			t.Errorf("stdout has no line %q", rest)
		}
	case "err":
		if !hasLine(p.err, rest) {
			t.Errorf("stderr has no line %q", rest)
		}
	case "keep":
		name, path, _ := strings.Cut(rest, " ")
		value, ok := member(oneDocument(t, p.out), path)
		if !ok {
			t.Fatalf("no %s to keep", path)
		}
		names[name] = fmt.Sprint(value)
	case "json":
		checkMember(t, rest, oneDocument(t, p.out))
	default:
		t.Fatalf("the document says %q", want)
	}
}

func checkMember(t *testing.T, want string, doc any) {
	t.Helper()
	if path, absent := strings.CutPrefix(want, "! "); absent {
		if value, there := member(doc, path); there {
			t.Errorf("%s is there: %v", path, value)
		}
		return
	}
	path, text, compared := strings.Cut(want, " = ")
	got, there := member(doc, path)
	if !there {
		t.Errorf("%s is missing", path)
		return
	}
	if !compared {
		return
	}
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("the document says %q: %v", want, err)
	}
	gotJSON, _ := json.Marshal(got) // values that were JSON a moment ago
	wantJSON, _ := json.Marshal(value)
	if string(gotJSON) != string(wantJSON) {
		t.Errorf("%s is %s, want %s", path, gotJSON, wantJSON)
	}
}

// hasLine reports whether a line begins with start; trailing spaces of a table
// do not count.
func hasLine(text, start string) bool {
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

// oneDocument reads stdout as exactly one JSON document.
func oneDocument(t *testing.T, out string) any {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	var doc any
	if err := dec.Decode(&doc); err != nil {
		t.Fatalf("stdout is no JSON: %v\n%s", err, out)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Fatalf("stdout has more than one document:\n%s", out)
	}
	return doc
}

// member walks a path of keys and indices.
func member(doc any, path string) (any, bool) {
	for _, key := range strings.Split(path, ".") {
		switch at := doc.(type) {
		case map[string]any:
			value, ok := at[key]
			if !ok {
				return nil, false
			}
			doc = value
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return nil, false
			}
			doc = at[i]
		default:
			return nil, false
		}
	}
	return doc, true
}
