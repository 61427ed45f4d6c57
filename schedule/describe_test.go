package schedule

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the golden documents anew")

// golden compares a document of "input | output" lines with what f gives now.
func golden(t *testing.T, name string, f func(input string) string) {
	t.Helper()
	path := filepath.Join(documents, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	n := 0
	for i, line := range lines {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		n++
		input, want, _ := strings.Cut(line, " | ")
		got := f(input)
		lines[i] = input + " | " + got
		if got != want && !*rewrite {
			t.Errorf("%s: %q\n got %s\nwant %s", name, input, got, want)
		}
	}
	if n == 0 {
		t.Fatalf("%s holds nothing", name)
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDescribe(t *testing.T) {
	golden(t, "describe.txt", func(input string) string {
		return expression(t, input).Describe()
	})
}

func TestWarnings(t *testing.T) {
	golden(t, "warnings.txt", func(input string) string {
		list := expression(t, input).Warnings()
		if len(list) == 0 {
			return "none"
		}
		return strings.Join(list, " // ")
	})
}

func TestRefusals(t *testing.T) {
	golden(t, "refusals.txt", func(input string) string {
		_, err := ParseExpression(input)
		e, ok := err.(*Error)
		if !ok {
			return "accepted"
		}
		return e.Code + " // " + e.Error() + " // " + e.Hint
	})
}

func TestDescribeSchedules(t *testing.T) {
	grid, err := Every(5_400_000, instant(t, "2026-01-01"))
	if err != nil {
		t.Fatal(err)
	}
	e := expression(t, "0 9 * * 1-5")
	for want, s := range map[string]Schedule{
		"once, at 2026-02-01T09:00:00.000Z":                                      At(instant(t, "2026-02-01T09:00Z")),
		"every 1h30m, counted from 2026-01-01T00:00:00.000Z":                     grid,
		"at 09:00 on Monday through Friday, America/New_York time":               Cron(e, zone(t, "America/New_York"), Vixie, 0),
		"at 09:00 on Monday through Friday, UTC, each 2m3s456ms later (stagger)": Cron(e, nil, Vixie, 123_456),
	} {
		if got := s.Describe(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A description is made from the sets, so what says the same fires the same.
func TestEqualDescriptionsFireAlike(t *testing.T) {
	r := random(t)
	byText := make(map[string]*Expression)
	same := 0
	for range 30_000 {
		text := randomField(r, 0, 59, 0.4) + " " + randomHour(r) + " " + randomDates(r)
		e, err := ParseExpression(text)
		if err != nil {
			continue
		}
		first, ok := byText[e.Describe()]
		if !ok {
			byText[e.Describe()] = e
			continue
		}
		same++
		a, b := Cron(first, UTC(), Vixie, 0), Cron(e, UTC(), Vixie, 0)
		atMs := instant(t, "2026-01-01")
		for range 40 {
			x, _ := a.Next(atMs)
			y, _ := b.Next(atMs)
			if x != y {
				t.Fatalf("%q and %q are both %q, but after %s fire at %s and %s", first.Text(), text, e.Describe(), FormatInstant(atMs), FormatInstant(x), FormatInstant(y))
			}
			atMs = x
		}
	}
	if same < 1000 {
		t.Errorf("only %d pairs", same)
	}
}

func TestTextIsAsWritten(t *testing.T) {
	for text, want := range map[string]string{"  0   9 * * mon-fri \n": "0   9 * * mon-fri", "@Daily": "@Daily"} {
		if got := expression(t, text).Text(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	e := expression(t, "*/60 * * * *")
	e.Warnings()[0] = "changed"
	if e.Warnings()[0] == "changed" {
		t.Error("a caller can change the warnings of a shared expression")
	}
}
