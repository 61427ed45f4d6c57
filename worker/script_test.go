package worker

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestScripts runs every document of testdata/turn and compares what it says
// with what happens. The documents are to be read without this code:
//
//	# a comment; "# covers: TR11 OR19" names the behaviours it shows
//	start 2026-05-01T00:00:30Z         the clock at the first start; the first line
//	add j cron "* * * * *"             or: every 90s [anchor], at +1h, or a schedule object;
//	                                   then more parameters of the job as an object
//	edit j {"enabled":false}           and enable, disable, remove
//	run j force key-1                  a manual run, with or without a request key
//	cancel j                           stop a run, by its job or its name
//	end j ok "output"                  a run ends: ok, skipped, or error "text" reason=timeout
//	finish-all                         every run ends ok, and what they let start
//	deliver j delivered                a delivery ends: delivered, not-delivered, unknown
//	advance 90m                        time goes by, with a turn at every deadline
//	step -1h, sleep 8h                 the wall clock moves, and nothing else does
//	config {"MaxConcurrent":1}         a configuration is pushed
//	launcher away, launcher back       whether orders are taken; a kill loses those that are not,
//	                                   and a restart brings the launcher back
//	kill, stop                         the daemon is killed, or stops in order
//	restart down 2h boot new log new   it starts again, perhaps after some time, in another boot,
//	                                   or with a new launch log
//	sql UPDATE …                       rows change behind the daemon's back
//	history-row j ok                   another program recorded the run's end
//	why j 2026-05-01T00:01:00Z         what became of a slot
//	show receipts                      or history, slots, plan, jobs, next, events; ledger is the first four;
//	                                   tasks, runs and definitions are columns of the rows
//
// Behind each command stand the events and orders that followed from it, as
// lines that begin with "> ". A timed run is called job@slot, a manual one
// job#number. The flag -rewrite writes those lines anew.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("../testdata/turn/*.txt")
	if err != nil || len(paths) < 8 {
		t.Fatalf("the scripts are not there: %d, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			got, want := newScript(t).run(string(raw)), string(raw)
			if got == want {
				return
			}
			if *rewrite {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			t.Errorf("%s tells something else.\n%s\nIf that is right: go test ./worker -run TestScripts -rewrite", path, firstDifference(want, got))
		})
	}
}

// script is one document being performed.
type script struct {
	t        *testing.T
	m        *machine // nil before start
	launches []*Launch
	manual   map[string]string // names of manual runs by public id and by receipt id
	count    map[string]int    // manual runs so far, by job
	orders   []string          // of the present command
	seq      int64             // of the last event shown
	out      strings.Builder
}

func newScript(t *testing.T) *script {
	return &script{t: t, manual: map[string]string{}, count: map[string]int{}}
}

// run performs a document and gives it with what happened.
func (s *script) run(text string) string {
	s.t.Helper()
	for n, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, ">") {
			continue
		}
		s.out.WriteString(line + "\n")
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		words, err := scriptWords(line)
		if err != nil {
			s.t.Fatalf("line %d: %v", n+1, err)
		}
		if s.m == nil && words[0] != "start" {
			s.t.Fatalf("line %d: a script begins with start TIME", n+1)
		}
		do, ok := scriptCommands[words[0]]
		if !ok {
			s.t.Fatalf("line %d: no command is called %s", n+1, words[0])
		}
		if err := do(s, words[1:], line); err != nil {
			s.t.Fatalf("line %d: %s: %v", n+1, line, err)
		}
		s.tell()
	}
	return s.out.String()
}

// say writes one line of what happened.
func (s *script) say(format string, a ...any) {
	s.out.WriteString("> " + strings.TrimRight(fmt.Sprintf(format, a...), " ") + "\n")
}

// tell writes the events and orders since the last command.
func (s *script) tell() {
	if s.m.w != nil {
		s.events(s.seq, func(line string) { s.say("%s", line) })
	}
	for _, line := range s.orders {
		s.say("%s", line)
	}
	s.orders = nil
}

// take is the launcher: it notes what it is handed.
func (s *script) take(o Order) {
	switch {
	case o.Launch != nil:
		s.launches = append(s.launches, o.Launch)
		s.m.announce(o.Launch.ReceiptID)
		s.orders = append(s.orders, "launch "+s.name(o.Launch.RunID))
	case o.Cancel != nil:
		s.orders = append(s.orders, fmt.Sprintf("cancel %s: %s", s.name(o.Cancel.ReceiptID), o.Cancel.Message))
	case o.Deliver != nil:
		s.orders = append(s.orders, fmt.Sprintf("deliver %s to %s", s.name(o.Deliver.RunID), o.Deliver.To))
	case o.Settled != "":
		s.m.forget(o.Settled)
	}
}

// scriptWords cuts a line into words, quoted texts and JSON objects.
func scriptWords(line string) (words []string, err error) {
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		switch rest[0] {
		case '{':
			d := json.NewDecoder(strings.NewReader(rest))
			var object json.RawMessage
			if err := d.Decode(&object); err != nil {
				return nil, err
			}
			words, rest = append(words, string(object)), rest[d.InputOffset():]
		case '"':
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("%w: %s", err, rest)
			}
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return nil, err
			}
			words, rest = append(words, text), rest[len(quoted):]
		default:
			word, after, _ := strings.Cut(rest, " ")
			words, rest = append(words, word), after
		}
	}
	return words, nil
}

// scriptSpan reads a duration; d is a day of 24 hours.
func scriptSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		return time.Duration(n) * 24 * time.Hour, err
	}
	return time.ParseDuration(text)
}

// firstDifference shows where two documents part.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(a), len(b)) {
		if i < len(a) && i < len(b) && a[i] == b[i] {
			continue
		}
		show := func(lines []string) string {
			return strings.Join(lines[min(max(0, i-3), len(lines)):min(i+5, len(lines))], "\n  ")
		}
		return fmt.Sprintf("line %d, written:\n  %s\nhappened:\n  %s", i+1, show(a), show(b))
	}
	return ""
}
