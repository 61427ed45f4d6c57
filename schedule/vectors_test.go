package schedule

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The documents under testdata/schedule are the contract: each line is a test,
// and their number is asserted so that none can go missing.

// The answers are those of the embedded zone data, whatever the host has set.
func TestMain(m *testing.M) {
	os.Unsetenv("ZONEINFO")
	os.Exit(m.Run())
}

const documents = "../testdata/schedule"

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(documents, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// readTable reads a document of lines with columns between " | ".
func readTable(t *testing.T, name string, columns int) [][]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(documents, name))
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for n, line := range strings.Split(strings.TrimRight(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		cells := strings.Split(line, " | ")
		if len(cells) != columns {
			t.Fatalf("%s:%d has %d columns, want %d", name, n+1, len(cells), columns)
		}
		rows = append(rows, cells)
	}
	return rows
}

// instant reads UTC times with or without seconds, zone letter and fraction.
func instant(t *testing.T, text string) int64 {
	t.Helper()
	trimmed := strings.TrimSuffix(text, "Z")
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02"} {
		if at, err := time.Parse(layout, trimmed); err == nil {
			return at.UnixMilli()
		}
	}
	t.Fatalf("%q is not a time", text)
	return 0
}

func zone(t testing.TB, name string) *Zone {
	t.Helper()
	z, err := LoadZone(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

func expression(t testing.TB, text string) *Expression {
	t.Helper()
	e, err := ParseExpression(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return e
}

func cronIn(t testing.TB, text, tz string, dst DST) Schedule {
	t.Helper()
	return Cron(expression(t, text), zone(t, tz), dst, 0)
}

func answer(slotMs int64, ok bool) string {
	if !ok {
		return "none"
	}
	return FormatInstant(slotMs)
}

func TestEveryCronVector(t *testing.T) {
	var doc struct {
		Cases []struct {
			ID, Expr, TZ, From string
			Next               []string
			Refused            bool
			FixedTime          *bool
		}
	}
	readJSON(t, "cron.json", &doc)
	if len(doc.Cases) != 419 {
		t.Fatalf("%d cases, want 419", len(doc.Cases))
	}
	for _, c := range doc.Cases {
		t.Run(c.ID, func(t *testing.T) {
			e, err := ParseExpression(c.Expr)
			if c.Refused {
				if err == nil {
					t.Fatalf("%q is accepted", c.Expr)
				}
				return
			}
			if err != nil {
				if code(err) == CodeNever && len(c.Next) == 0 {
					return
				}
				t.Fatal(err)
			}
			if c.FixedTime != nil && e.FixedTime() != *c.FixedTime {
				t.Errorf("%q: FixedTime is %v", c.Expr, e.FixedTime())
			}
			s := Cron(e, zone(t, c.TZ), Vixie, 0)
			walk(t, s, instant(t, c.From), c.Next)
			if len(c.Next) == 0 {
				if slotMs, ok := s.Next(instant(t, c.From)); ok {
					t.Errorf("%q fires at %s, want never", c.Expr, FormatInstant(slotMs))
				}
			}
		})
	}
}

// walk follows Next through the wanted slots and Prev back.
func walk(t *testing.T, s Schedule, fromMs int64, want []string) {
	t.Helper()
	atMs := fromMs
	for i, text := range want {
		slotMs, ok := s.Next(atMs)
		if wantMs := instant(t, text); !ok || slotMs != wantMs {
			t.Fatalf("%s: slot %d is %s, want %s", s.Describe(), i+1, answer(slotMs, ok), text)
		}
		if back, ok := s.Prev(slotMs + 1); !ok || back != slotMs {
			t.Errorf("%s: Prev just after %s is %s", s.Describe(), text, answer(back, ok))
		}
		if i > 0 {
			if back, ok := s.Prev(slotMs); !ok || back != atMs {
				t.Errorf("%s: Prev of %s is %s, want %s", s.Describe(), text, answer(back, ok), FormatInstant(atMs))
			}
		}
		atMs = slotMs
	}
}

func code(err error) string {
	if e, ok := err.(*Error); ok {
		return e.Code
	}
	return ""
}

func TestEveryInvalidVector(t *testing.T) {
	var doc struct {
		Cases []struct{ ID, Kind, Input, Want string }
	}
	readJSON(t, "invalid.json", &doc)
	if len(doc.Cases) != 85 {
		t.Fatalf("%d cases, want 85", len(doc.Cases))
	}
	for _, c := range doc.Cases {
		t.Run(c.ID, func(t *testing.T) {
			var err error
			switch c.Kind {
			case "cron":
				_, err = ParseExpression(c.Input)
			case "zone":
				name := c.Input
				if name == "" { // not given: the caller takes the host's
					name, _ = HostZoneName("", "/usr/share/zoneinfo/Europe/Berlin", "")
				}
				_, err = LoadZone(name)
			default:
				t.Fatalf("kind %q", c.Kind)
			}
			got := "accepted"
			if err != nil {
				got = "refused"
				if code(err) == CodeNever {
					got = "never"
				}
				e, ok := err.(*Error)
				if !ok || e.Code == "" || e.Message == "" || e.Hint == "" || len(e.Input) > 80 {
					t.Errorf("%.40q: the error is not complete: %#v", c.Input, err)
				}
			}
			if got != c.Want {
				t.Errorf("%.40q is %s (%v), want %s", c.Input, got, err, c.Want)
			}
		})
	}
}

func TestEveryAtAndEveryVector(t *testing.T) {
	var doc struct {
		Every []struct {
			ID                string
			EveryMs, AnchorMs json.RawMessage
			NowMs             int64
			NextMs            []int64
		}
		At []struct{ ID, At, TZ, Now, Want, Parsed string }
	}
	readJSON(t, "at_every.json", &doc)
	if n := len(doc.Every) + len(doc.At); n != 60 {
		t.Fatalf("%d cases, want 60", n)
	}
	for _, c := range doc.Every {
		t.Run(c.ID, func(t *testing.T) {
			atMs := c.NowMs
			s, err := gridOf(unquote(c.EveryMs), unquote(c.AnchorMs))
			for i, want := range c.NextMs {
				slotMs, ok := s.Next(atMs)
				if err != nil || !ok || slotMs != want {
					t.Fatalf("slot %d is %d %v (%v), want %d", i+1, slotMs, ok, err, want)
				}
				atMs = slotMs
			}
			if slotMs, ok := s.Next(atMs); ok && len(c.NextMs) < 6 {
				t.Errorf("one more slot at %d", slotMs)
			}
		})
	}
	for _, c := range doc.At {
		t.Run(c.ID, func(t *testing.T) {
			var z *Zone
			if c.TZ != "" {
				z = zone(t, c.TZ)
			}
			atMs, err := ParseAt(c.At, z)
			got, parsed := "refused", ""
			if err == nil {
				got, parsed = "past", FormatInstant(atMs)
				if next, ok := At(atMs).Next(instant(t, c.Now)); ok && next == atMs {
					got = "ok"
				}
			}
			if got != c.Want || parsed != c.Parsed {
				t.Errorf("%q is %s %s (%v), want %s %s", c.At, got, parsed, err, c.Want, c.Parsed)
			}
		})
	}
}

// unquote gives the text of a JSON number or string.
func unquote(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	return string(raw)
}

func gridOf(every, anchor string) (Schedule, error) {
	everyMs, err := ParseEveryMs(every)
	if err != nil {
		return Schedule{}, err
	}
	anchorMs, err := ParseAnchorMs(anchor)
	if err != nil {
		return Schedule{}, err
	}
	return Every(everyMs, anchorMs)
}

// Twenty-nine questions at clock changes under the skip rule, both ways.
func TestSkipRows(t *testing.T) {
	rows := readTable(t, "skip.txt", 5)
	if len(rows) != 29 {
		t.Fatalf("%d rows, want 29", len(rows))
	}
	for _, r := range rows {
		t.Run(r[0]+" "+r[1]+" "+r[2], func(t *testing.T) {
			s := cronIn(t, r[1], r[0], Skip)
			nowMs := instant(t, r[2])
			if slotMs, ok := s.Next(nowMs); !ok || slotMs != instant(t, r[3]) {
				t.Errorf("next is %s, want %s", answer(slotMs, ok), r[3])
			}
			if slotMs, ok := s.Prev(nowMs); !ok || slotMs != instant(t, r[4]) {
				t.Errorf("previous is %s, want %s", answer(slotMs, ok), r[4])
			}
		})
	}
}

// What other schedulers get wrong: rows A to M and 1 to 18.
func TestKnownWrongAnswers(t *testing.T) {
	rows := readTable(t, "known.txt", 5)
	if len(rows) != 42 {
		t.Fatalf("%d rows, want 42", len(rows))
	}
	for _, r := range rows {
		t.Run("row "+r[0], func(t *testing.T) {
			walk(t, cronIn(t, r[1], r[2], Vixie), instant(t, r[3]), strings.Fields(r[4]))
		})
	}
}

func TestSingleQuestions(t *testing.T) {
	for _, r := range readTable(t, "rows.txt", 7) {
		t.Run(r[0], func(t *testing.T) {
			dst, err := ParseDST(r[1])
			if err != nil {
				t.Fatal(err)
			}
			s := cronIn(t, r[2], r[3], dst)
			atMs := instant(t, r[4])
			check := func(what, want string, slotMs int64, ok bool) {
				if want == "-" {
					return
				}
				if want != "none" {
					want = FormatInstant(instant(t, want))
				}
				if got := answer(slotMs, ok); got != want {
					t.Errorf("%s is %s, want %s", what, got, want)
				}
			}
			slotMs, ok := s.Next(atMs)
			check("next", r[5], slotMs, ok)
			slotMs, ok = s.Prev(atMs)
			check("previous", r[6], slotMs, ok)
		})
	}
}
