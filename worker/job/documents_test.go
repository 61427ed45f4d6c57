package job

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// The documents under testdata/job are tests that anyone can read and add to.
// A block is a line with a verb and its settings, the input, a line "----", and
// the output up to an empty line. Lines before a block that begin with "#" are
// prose. "go test ./worker/job -rewrite" writes the output anew; the change is
// then reviewed like code.
var rewrite = flag.Bool("rewrite", false, "write the outputs of testdata/job/*.txt anew")

const documents = "../../testdata/job"

// block is one question to the package and its expected answer.
type block struct {
	line     int
	verb     string
	settings map[string]string
	input    []string
	want     string
}

// runDocument checks every block of a document, and returns how many it had.
func runDocument(t *testing.T, name string) int {
	t.Helper()
	path := filepath.Join(documents, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	blocks := 0
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	for i := 0; i < len(lines); {
		if lines[i] == "" || strings.HasPrefix(lines[i], "#") {
			out.WriteString(lines[i] + "\n")
			i++
			continue
		}
		b, next := readBlock(t, path, lines, i)
		got := answer(t, b)
		if got != b.want && !*rewrite {
			t.Errorf("%s:%d: %s\n%s\ngives\n%s\ninstead of\n%s", path, b.line, b.verb, strings.Join(b.input, "\n"), got, b.want)
		}
		out.WriteString(lines[i] + "\n")
		for _, input := range b.input {
			out.WriteString(input + "\n")
		}
		out.WriteString("----\n" + got)
		blocks++
		i = next
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if blocks == 0 {
		t.Fatalf("%s holds no block", path)
	}
	return blocks
}

func readBlock(t *testing.T, path string, lines []string, i int) (block, int) {
	t.Helper()
	words := strings.Fields(lines[i])
	b := block{line: i + 1, verb: words[0], settings: map[string]string{}}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		b.settings[key] = value
	}
	for i++; i < len(lines) && lines[i] != "----"; i++ {
		b.input = append(b.input, lines[i])
	}
	if i == len(lines) {
		t.Fatalf("%s:%d: the block has no \"----\"", path, b.line)
	}
	for i++; i < len(lines) && lines[i] != ""; i++ {
		b.want += lines[i] + "\n"
	}
	return b, i
}

// defaultNow is the time of every block that does not say: a Sunday afternoon
// with no clock change near.
const defaultNow = "2026-11-29T14:55:45.281Z"

func (b block) env(t *testing.T) Env {
	t.Helper()
	now := b.settings["now"]
	if now == "" {
		now = defaultNow
	}
	ms, err := strconv.ParseInt(now, 10, 64)
	if err != nil {
		if ms, err = schedule.ParseAt(now, nil); err != nil {
			t.Fatal(err)
		}
	}
	env := Env{NowMs: ms, HostZone: "Europe/Oslo", Announce: b.settings["announce"] == "yes"}
	if zone, ok := b.settings["zone"]; ok {
		env.HostZone = zone
	}
	switch b.settings["retries"] {
	case "none":
		env.ErrorBackoffMs, env.DisableFailures = []int64{2000}, 3
	case "one":
		env.ErrorBackoffMs, env.RetryMax, env.RetryBackoffMs, env.RetryOn = []int64{2000, 4000}, 1, []int64{1000, 9000}, []string{"network"}
	}
	return env
}

func (b block) id() string {
	if id := b.settings["id"]; id != "" {
		return id
	}
	return "job-1"
}

func (b block) in(i int) json.RawMessage {
	if i >= len(b.input) {
		return nil
	}
	return json.RawMessage(b.input[i])
}

// answer runs one block.
func answer(t *testing.T, b block) string {
	t.Helper()
	switch b.verb {
	case "add":
		return answerAdd(t, b)
	case "update", "converge":
		return answerChange(t, b)
	case "decode":
		d, err := Decode(b.in(0))
		if err != nil {
			return refusal(err)
		}
		return decoded(&d)
	case "view", "public", "compact":
		return answerView(t, b)
	case "preview":
		return string(DeliveryPreview(b.in(0))) + "\n"
	case "set":
		return answerSet(t, b)
	case "mask":
		return MaskedURL(string(b.in(0))) + "\n"
	case "keys":
		if err := CheckKeys(b.in(0)); err != nil {
			return refusal(err)
		}
		return "ok\n"
	case "params":
		p, err := DecodeListParams(b.in(0))
		if err != nil {
			return refusal(err)
		}
		return fmt.Sprintf("%+v\n", p)
	case "list":
		return answerList(t, b)
	}
	t.Fatalf("line %d: no verb %q", b.line, b.verb)
	return ""
}

func answerAdd(t *testing.T, b block) string {
	t.Helper()
	c, err := Create(b.id(), b.in(0), b.env(t))
	if err != nil {
		return refusal(err)
	}
	return string(c.Definition) + "\n" + b.extras(c.Definition, c.Notes)
}

// extras prints the notes and the revision when the block asks for them.
func (b block) extras(definition []byte, notes []string) string {
	var out strings.Builder
	if b.settings["show"] == "notes" {
		for _, n := range notes {
			out.WriteString("note: " + n + "\n")
		}
	}
	if b.settings["show"] == "revision" {
		out.WriteString(WireRevision(definition) + "\n")
	}
	return out.String()
}

func answerChange(t *testing.T, b block) string {
	t.Helper()
	edit := Merge
	if b.verb == "converge" {
		edit = Converge
	}
	c, err := edit(b.in(0), b.in(1), b.env(t))
	if err != nil {
		return refusal(err)
	}
	var marks []string
	for _, m := range []struct {
		name string
		on   bool
	}{{"changed", c.Changed}, {"scheduling", c.Scheduling}, {"schedule", c.Schedule}, {"enabled", c.Enabled},
		{"disabled", c.Disabled}} {
		if m.on {
			marks = append(marks, m.name)
		}
	}
	if c.StatePatch != nil {
		marks = append(marks, "state="+string(c.StatePatch))
	}
	first := string(c.Definition)
	if first == string(b.in(0)) {
		first = "the same bytes"
	}
	return first + "\n" + strings.TrimSpace("is: "+strings.Join(marks, " ")) + "\n" + b.extras(c.Definition, c.Notes)
}

func answerView(t *testing.T, b block) string {
	t.Helper()
	render := map[string]func(Row) (json.RawMessage, error){"view": View, "public": PublicView, "compact": CompactView}[b.verb]
	at, _ := strconv.ParseInt(b.settings["updated"], 10, 64)
	v, err := render(Row{ID: b.id(), Definition: b.in(0), State: b.in(1), UpdatedAtMs: at})
	if err != nil {
		return refusal(err)
	}
	return string(v) + "\n"
}

// answerSet applies edits "key=value" or "key" to the object in the first
// line; "\n" in that line stands for a line break.
func answerSet(t *testing.T, b block) string {
	t.Helper()
	var edits []rawjson.Member
	for _, line := range b.input[1:] {
		key, value, given := strings.Cut(line, "=")
		m := rawjson.Member{Key: key}
		if given {
			m.Value = json.RawMessage(value)
		}
		edits = append(edits, m)
	}
	got, err := rawjson.Set([]byte(strings.ReplaceAll(b.input[0], `\n`, "\n")), edits...)
	if err != nil {
		return refusal(err)
	}
	return strings.ReplaceAll(string(got), "\n", `\n`) + "\n"
}

// answerList lists the rows of testdata/job/rows.jsonl and prints what a
// reader of a list checks: names in order, and the numbers of the page.
func answerList(t *testing.T, b block) string {
	t.Helper()
	p, err := DecodeListParams(b.in(0))
	if err != nil {
		return refusal(err)
	}
	raw, err := listRows(readRows(t), p)
	if err != nil {
		return refusal(err)
	}
	var page struct {
		Jobs       []struct{ Name string }
		Total      int
		Offset     int
		Limit      int
		HasMore    bool
		NextOffset *int
		Previews   map[string]any `json:"deliveryPreviews"`
	}
	if err := json.Unmarshal(raw, &page); err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(page.Jobs))
	for i, j := range page.Jobs {
		names[i] = j.Name
	}
	if len(names) == 0 {
		names = []string{"(none)"}
	}
	next := "null"
	if page.NextOffset != nil {
		next = strconv.Itoa(*page.NextOffset)
	}
	return fmt.Sprintf("%s\ntotal %d, offset %d, limit %d, more %v, next %s, previews %d\n", strings.Join(names, ", "),
		page.Total, page.Offset, page.Limit, page.HasMore, next, len(page.Previews))
}

func readRows(t *testing.T) []Row {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(documents, "rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for line := range strings.Lines(string(text)) {
		var r struct {
			ID         string
			UpdatedMs  int64 `json:"updatedAtMs"`
			Definition json.RawMessage
			State      json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, Row{ID: r.ID, Definition: r.Definition, State: r.State, UpdatedAtMs: r.UpdatedMs})
	}
	return rows
}

// refusal prints an error as surfaces see it.
func refusal(err error) string {
	e, ok := err.(*Error)
	if !ok {
		return "not an Error: " + err.Error() + "\n"
	}
	plain := ""
	if e.Plain {
		plain = ", plain"
	}
	out := fmt.Sprintf("refused (%s, %s%s): %s\n", e.Code, e.Field, plain, e.Message)
	if e.Hint != "" {
		out += "hint: " + e.Hint + "\n"
	}
	return out
}

// decoded prints the typed view, the fields that are set only.
func decoded(d *Definition) string {
	var out strings.Builder
	for _, f := range []struct {
		name  string
		value any
		zero  bool
	}{
		{"id", d.ID, d.ID == ""}, {"name", d.Name, d.Name == ""}, {"enabled", d.Enabled, false},
		{"agent", d.EffectiveAgentID(), false}, {"created", d.CreatedAtMs, d.CreatedAtMs == 0},
		{"schedule", string(d.Schedule.encode()), false}, {"payload", d.PayloadKind, false},
		{"delivery", d.Delivery, d.Delivery == DeliverySpec{Mode: "none"}}, {"identity", d.ScheduleIdentity(), false},
	} {
		if !f.zero {
			fmt.Fprintf(&out, "%s: %v\n", f.name, f.value)
		}
	}
	if c := d.Payload.Command; c != nil {
		fmt.Fprintf(&out, "command: %+v\n", *c)
	}
	if p := d.Payload.HTTP; p != nil {
		fmt.Fprintf(&out, "http: %+v\n", *p)
	}
	if c := d.CatchUp; c != nil {
		fmt.Fprintf(&out, "catch-up: %+v\n", *c)
	}
	return out.String()
}
