package host

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// turnOfTalk is one line of a conversation; its form is told in the document.
type turnOfTalk struct {
	line   int
	Note   string
	Say    json.RawMessage
	Hear   any
	Told   []any
	Prints string
}

func readConversation(t testing.TB, path string) []turnOfTalk {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []turnOfTalk
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		turn := turnOfTalk{line: n}
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&turn); err != nil {
			t.Fatalf("%s:%d: %v", path, n, err)
		}
		if turn.Note == "" {
			all = append(all, turn)
		}
	}
	return all
}

// talk compares what is heard with what a document expects, and remembers what
// it names.
type talk struct{ names map[string]string }

// say fills names in.
func (k *talk) say(frame string) string {
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(k.names))) { // the longer of two that begin alike first
		frame = strings.ReplaceAll(frame, "$"+name, k.names[name])
	}
	return frame
}

// differ says where got is not what want describes; "" if it is.
func (k *talk) differ(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is %v, want an object", path, got)
		}
		known := map[string]bool{}
		for key, value := range want {
			name, optional := strings.CutSuffix(key, "?")
			known[name] = true
			if _, there := object[name]; !there {
				if optional {
					continue
				}
				return fmt.Sprintf("%s.%s is missing", path, name)
			}
			if d := k.differ(path+"."+name, value, object[name]); d != "" {
				return d
			}
		}
		for key, value := range object {
			if !known[key] {
				return fmt.Sprintf("%s.%s is not expected: %v", path, key, value)
			}
		}
		return ""
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return fmt.Sprintf("%s is %v, want %d elements", path, got, len(want))
		}
		for i := range want {
			if d := k.differ(fmt.Sprintf("%s[%d]", path, i), want[i], list[i]); d != "" {
				return d
			}
		}
		return ""
	case string:
		return k.differText(path, want, got)
	}
	if got != want {
		return fmt.Sprintf("%s is %v, want %v", path, got, want)
	}
	return ""
}

var anyText = regexp.MustCompile(`<text>`)

func (k *talk) differText(path, want string, got any) string {
	kinds := map[string]string{"<int>": "int", "<text>": "text", "<bool>": "bool", "<list>": "array", "<object>": "object"}
	if kind, ok := kinds[want]; ok {
		if typeOf(got) != kind {
			return fmt.Sprintf("%s is %v, want %s", path, got, want)
		}
		return ""
	}
	text, ok := got.(string)
	if name, bound := strings.CutPrefix(want, "<="); ok && bound {
		name = strings.TrimSuffix(name, ">")
		if k.names[name] == "" {
			k.names[name] = text
		}
		want = k.names[name]
	}
	pattern := "(?s)^" + anyText.ReplaceAllString(regexp.QuoteMeta(want), ".*") + "$"
	if !ok || !regexp.MustCompile(pattern).MatchString(text) {
		return fmt.Sprintf("%s is %v, want %q", path, got, want)
	}
	return ""
}

func TestConversations(t *testing.T) {
	r := newGatewayRig(t)
	turns := readConversation(t, "../testdata/host/ws/cron.jsonl")
	if len(turns) < 35 {
		t.Fatalf("only %d turns", len(turns))
	}
	k := &talk{names: map[string]string{"TOKEN": rigToken,
		"INAHOUR": time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z")}}
	w := r.knock()
	for _, turn := range turns {
		if turn.Say != nil {
			w.send(k.say(string(turn.Say)))
		}
		if turn.Prints != "" {
			r.finish(k.names["RUN"], turn.Prints)
		}
		told := turn.Told
		for heard := turn.Hear == nil; !heard || len(told) > 0; {
			f, want := w.mustFrame(), turn.Hear
			switch {
			case f["type"] == "event" && f["event"] == "cron" && len(told) > 0:
				want, told = told[0], told[1:]
			case heard:
				t.Fatalf("line %d: heard %v", turn.line, f)
			default:
				heard = true
			}
			if d := k.differ("frame", want, any(f)); d != "" {
				t.Fatalf("line %d: %s\nin %v", turn.line, d, f)
			}
		}
	}
}
