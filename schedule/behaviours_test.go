package schedule

import (
	"fmt"
	"testing"
)

// Rows of testdata/behaviours.md about the arithmetic that no table of questions
// shows.

// TestSM14AnExpressionIsCompiledOnce: asking a schedule compiles nothing, however
// many others are asked in between. There is no cache, so none can be too small
// (SM15): what is compiled stays with its schedule.
//
// covers: SM14 SM15
func TestSM14AnExpressionIsCompiledOnce(t *testing.T) {
	oslo := zone(t, "Europe/Oslo")
	var all []Schedule
	for i := range 600 {
		all = append(all, Cron(expression(t, fmt.Sprintf("%d %d * * *", i%60, i/60)), oslo, Skip, 0))
	}
	fromMs := instant(t, "2026-05-01T12:00")
	if n := testing.AllocsPerRun(2, func() {
		for _, s := range all {
			if slotMs, ok := s.Next(fromMs); !ok || slotMs <= fromMs {
				t.Errorf("%s: next is %s", s.Describe(), answer(slotMs, ok))
			}
		}
	}); n != 0 {
		t.Errorf("600 questions make %v objects", n)
	}
}

// TestSM23WhichTextsAreNumbers: a stored number of milliseconds may be a text, and
// spaces around it do no harm. Anything else is refused with a sentence.
func TestSM23WhichTextsAreNumbers(t *testing.T) {
	for text, want := range map[string]int64{
		"60000": 60_000, " 60000 ": 60_000, "60000.9": 60_000, "6e4": 60_000, "8640000000000000": maxInstantMs,
	} {
		if ms, err := ParseEveryMs(text); err != nil || ms != want {
			t.Errorf("%q is %d (%v), want %d", text, ms, err, want)
		}
	}
	for _, text := range []string{"", " ", "abc", "60s", "60 000", "60_000", "0x10", "NaN", "Infinity", "-Infinity", "null",
		"8640000000000001", "1e400", "0", "0.5", "-60000"} {
		ms, err := ParseEveryMs(text)
		if e, ok := err.(*Error); !ok || e.Message == "" || e.Hint == "" {
			t.Errorf("%q is %d (%v)", text, ms, err)
		}
	}
}
