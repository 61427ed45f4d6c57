package worker

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What clocks do to schedules, as a document: testdata/worker/clock.txt. Each
// case is commands at the margin and, indented below each, what came of it. go
// test ./worker -run TestClockDocument -rewrite writes the outcomes anew.

// clockDesk runs the commands of one case. Both clocks move unless a command
// says otherwise.
type clockDesk struct {
	*desk
	seenRuns, seenSeq int
	wantRuns          map[string]int // runs by job and slot: each slot at most once
}

// clockWords is what a line can begin with.
var clockWords = map[string]func(c *clockDesk, args []string){
	// live DURATION STEP: time passes, runs end as they start.
	"live": func(c *clockDesk, args []string) { c.live(c.span(args[0]), c.span(args[1])) },
	// pass DURATION: time passes, runs go on.
	"pass": func(c *clockDesk, args []string) { c.advance(c.span(args[0])) },
	// wall DURATION or INSTANT: the wall clock alone moves, and a turn looks.
	"wall": func(c *clockDesk, args []string) {
		if strings.HasPrefix(args[0], "2") {
			c.nowMs = at(c.t, args[0])
		} else {
			c.nowMs += c.span(args[0]).Milliseconds()
		}
		c.turn()
	},
	"end": func(c *clockDesk, _ []string) { c.runAll() },
	// slew DURATION: small corrections of both signs, five turns a second.
	"slew": func(c *clockDesk, args []string) {
		steps := []int64{50, -50, 0, 1, -1, 0, 0}
		for i := range int(c.span(args[0]) / (200 * time.Millisecond)) {
			c.monoMs += 200
			c.nowMs += 200 + steps[i%len(steps)]
			c.turn()
			c.runAll()
		}
	},
	// stop DURATION or INSTANT: killed, and started again so much later or then.
	"stop": func(c *clockDesk, args []string) {
		c.close()
		if strings.HasPrefix(args[0], "2") {
			c.nowMs = at(c.t, args[0])
		} else {
			c.nowMs += c.span(args[0]).Milliseconds()
		}
		c.open(Options{LogID: "log"})
	},
	// cron on or off: schedules are turned on or off.
	"cron": func(c *clockDesk, args []string) {
		c.cfg.Version++
		c.cfg.Enabled = args[0] == "on"
		c.w.Configure(c.cfg)
		c.turn()
	},
	"next": func(*clockDesk, []string) {},
	"why":  func(*clockDesk, []string) {},
}

func (c *clockDesk) span(text string) time.Duration {
	c.t.Helper()
	by, err := time.ParseDuration(text)
	if err != nil {
		c.t.Fatal(err)
	}
	return by
}

// do runs one line and tells what came of it.
func (c *clockDesk) line(text string) []string {
	c.t.Helper()
	word, rest, _ := strings.Cut(text, " ")
	args := strings.Fields(rest)
	if word == "add" {
		schedule, more, _ := strings.Cut(strings.Join(args[1:], " "), " | ")
		if more != "" {
			more = "," + more
		}
		c.add(args[0], schedule, more)
		return nil
	}
	do, known := clockWords[word]
	if !known {
		c.t.Fatalf("no such word: %s", text)
	}
	do(c, args)
	out := c.told()
	switch word {
	case "next":
		for j := range c.w.Snapshot().Jobs() {
			next, _ := j.NextRunMs()
			out = append(out, fmt.Sprintf("%s next %s", j.ID, orNone(next)))
		}
	case "why":
		for _, d := range must[Why](c.desk, WhyQuery{JobID: args[0], AtMs: at(c.t, args[1])}).Decisions {
			out = append(out, fmt.Sprintf("%s: %s", d.Rule, rules[Rule(d.Rule)].Text))
		}
	}
	return out
}

// told is what happened since it was asked last: runs, decisions, and events of
// the clock.
func (c *clockDesk) told() []string {
	c.t.Helper()
	var out []string
	var group []*Launch
	flush := func() {
		if len(group) > 3 {
			first, last := group[0], group[len(group)-1]
			out = append(out, fmt.Sprintf("%s runs %d slots, %s to %s (%s)", first.JobID, len(group), instantText(first.SlotMs), instantText(last.SlotMs), first.Trigger))
		} else {
			for _, l := range group {
				out = append(out, fmt.Sprintf("%s runs %s at %s (%s)", l.JobID, instantText(l.SlotMs), instantText(l.RunAtMs), l.Trigger))
			}
		}
		group = nil
	}
	for ; c.seenRuns < len(c.launched); c.seenRuns++ {
		l := c.launched[c.seenRuns]
		if c.wantRuns[fmt.Sprint(l.JobID, l.SlotMs)]++; c.wantRuns[fmt.Sprint(l.JobID, l.SlotMs)] > 1 {
			c.t.Errorf("%s ran slot %s twice", l.JobID, instantText(l.SlotMs))
		}
		if len(group) > 0 && (group[0].JobID != l.JobID || group[0].Trigger != l.Trigger) {
			flush()
		}
		group = append(group, l)
	}
	flush()
	out = append(out, c.query(`SELECT job_id || ' ' || rule || ' x' || slots || ', ' || strftime('%Y-%m-%dT%H:%M:%SZ', from_ms / 1000, 'unixepoch') || ' to ' ||
		strftime('%Y-%m-%dT%H:%M:%SZ', to_ms / 1000, 'unixepoch') || iif(detail IN ('null', '{}'), '', ' ' || iif(rule IN ('overlap', 'interrupted'), '', detail))
		FROM rota_slots WHERE seq > ? ORDER BY seq`, c.seenSeq)...)
	out = append(out, c.query(`SELECT kind || ' ' || detail FROM rota_events WHERE seq > ? AND kind IN ('clock.jump', 'clock.back', 'jobs.retimed') ORDER BY seq`, c.seenSeq)...)
	c.seenSeq = int(c.w.st.seq)
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return out
}

func TestClockDocument(t *testing.T) {
	path := filepath.Join("..", "testdata", "worker", "clock.txt")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	parts := strings.Split(string(raw), "\n## ")
	b.WriteString(parts[0])
	for _, part := range parts[1:] {
		title, body, _ := strings.Cut(part, "\n")
		b.WriteString("\n## " + title + "\n")
		if !t.Run(title, func(t *testing.T) { b.WriteString(clockCase(t, body)) }) {
			b.WriteString(body)
		}
	}
	if *rewrite && !t.Failed() {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// clockCase runs one case and gives its text as it should be.
func clockCase(t *testing.T, body string) string {
	var b strings.Builder
	var c *clockDesk
	for line := range strings.Lines(body) {
		text := strings.TrimRight(line, "\n")
		if strings.HasPrefix(text, "  ") {
			continue // an outcome: written anew
		}
		b.WriteString(text + "\n")
		switch {
		case text == "" || strings.HasPrefix(text, "#"):
		case strings.HasPrefix(text, "start "):
			c = &clockDesk{desk: deskAt(t, strings.TrimPrefix(text, "start ")), wantRuns: map[string]int{}}
		default:
			for _, out := range c.line(text) {
				b.WriteString("  " + out + "\n")
			}
		}
	}
	if got := b.String(); got != body && !*rewrite {
		t.Errorf("is now\n%s\nand was\n%s", got, body)
	}
	return b.String()
}

// orNone is an instant, or none where there is none.
func orNone(ms int64) string {
	if ms == 0 {
		return "none"
	}
	return instantText(ms)
}
