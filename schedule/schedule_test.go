package schedule

import (
	"strings"
	"testing"
)

func TestTheZeroScheduleNeverFires(t *testing.T) {
	var s Schedule
	if slotMs, ok := s.Next(0); ok {
		t.Errorf("next is %d", slotMs)
	}
	if slotMs, ok := s.Prev(0); ok {
		t.Errorf("previous is %d", slotMs)
	}
	if m := Due(s, 0, 1e12, CatchUp{Policy: RunAll}); m.Slots != 0 || m.RunSlotsMs != nil {
		t.Errorf("due: %+v", m)
	}
	if s.Describe() != "never" || s != At(maxInstantMs+1) || s != Cron(nil, nil, Vixie, 0) || s != Cron(&Expression{}, nil, Vixie, 0) {
		t.Error("nothing, nil and out of range are the same schedule")
	}
}

func TestSM12InstantsOutOfRangeHaveNoSlots(t *testing.T) {
	grid, err := Every(1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Schedule{grid, At(5), cronIn(t, "* * * * *", "Europe/Oslo", Vixie)} {
		for _, ms := range []int64{minInstantMs - 1, maxInstantMs + 1, -1 << 63, 1<<63 - 1} {
			if slotMs, ok := s.Next(ms); ok {
				t.Errorf("%s: next of %d is %d", s.Describe(), ms, slotMs)
			}
			if slotMs, ok := s.Prev(ms); ok {
				t.Errorf("%s: previous of %d is %d", s.Describe(), ms, slotMs)
			}
		}
	}
	if slotMs, ok := cronIn(t, "* * * * *", "Europe/Oslo", Vixie).Next(minInstantMs); !ok || !strings.HasPrefix(FormatInstant(slotMs), "0000-12-31T23:17") {
		t.Errorf("the first slot of all is %s", answer(slotMs, ok))
	}
	if slotMs, ok := cronIn(t, "* * * * *", "UTC", Vixie).Prev(maxInstantMs); !ok || FormatInstant(slotMs) != "9999-12-31T23:59:00.000Z" {
		t.Errorf("the last slot of all is %s", answer(slotMs, ok))
	}
	if slotMs, ok := cronIn(t, "0 0 0 1 1 * 2020", "UTC", Vixie).Next(instant(t, "2026-01-01")); ok {
		t.Errorf("a year that has passed fires at %d", slotMs)
	}
}

func TestAtFiresOnce(t *testing.T) {
	s := At(1000)
	if slotMs, ok := s.Next(999); !ok || slotMs != 1000 {
		t.Errorf("next is %s", answer(slotMs, ok))
	}
	if _, ok := s.Next(1000); ok {
		t.Error("fires again")
	}
	if slotMs, ok := s.Prev(1001); !ok || slotMs != 1000 {
		t.Errorf("previous is %s", answer(slotMs, ok))
	}
	if _, ok := s.Prev(1000); ok {
		t.Error("the slot is before itself")
	}
	m := Due(s, 0, 5000, CatchUp{})
	if m.Slots != 1 || len(m.RunSlotsMs) != 1 || m.Skipped != 0 {
		t.Errorf("due: %+v", m)
	}
}

// SM4, SM8, SM9, SM10, SM11: the grid, its edge and what lies beyond the range.
func TestGridRows(t *testing.T) {
	for _, c := range []struct {
		row                    string
		everyMs, anchor, after int64
		want                   int64
		ok                     bool
	}{
		{"SM4", 30_000, 1_000_000, 1_010_000, 1_030_000, true},
		{"SM8", 30_000, 1_000_000, 1_000_000, 1_030_000, true},
		{"SM9", 30_000, 1_000_000, 1_060_000, 1_090_000, true},
		{"before the anchor", 30_000, 1_000_000, 5, 1_000_000, true},
		{"before 1970", 30_000, 1_000_000, -5, 1_000_000, true},
		{"SM11", maxInstantMs, 1, 1, 0, false},
		{"the last instant", 1, 0, maxInstantMs - 1, maxInstantMs, true},
		{"after the last instant", 1, 0, maxInstantMs, 0, false},
	} {
		s, err := Every(c.everyMs, c.anchor)
		if err != nil {
			t.Fatal(err)
		}
		if slotMs, ok := s.Next(c.after); ok != c.ok || ok && slotMs != c.want {
			t.Errorf("%s: %d %v, want %d %v", c.row, slotMs, ok, c.want, c.ok)
		}
	}
	for _, bad := range [][2]int64{{0, 0}, {1000, -1}, {1000, maxInstantMs + 1}, {maxInstantMs + 1, 0}} {
		if _, err := Every(bad[0], bad[1]); code(err) != CodeRange {
			t.Errorf("SM10: every %d from %d: %v", bad[0], bad[1], err)
		}
	}
	s, err := Every(7, 10)
	if err != nil {
		t.Fatal(err)
	}
	if slotMs, ok := s.Prev(24); !ok || slotMs != 17 {
		t.Errorf("previous of 24 is %s", answer(slotMs, ok))
	}
	if _, ok := s.Prev(10); ok {
		t.Error("there is a slot before the anchor")
	}
}

func TestStaggerMovesSlotsAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		expr     string
		offsetMs int64
	}{{"0 * * * *", 123_456}, {"0 9 * * *", 299_999}, {"* * * * * *", 299_999}, {"*/5 * * * *", 300_000}, {"0 0 29 2 *", 1}} {
		plain, late := Cron(expression(t, c.expr), UTC(), Vixie, 0), Cron(expression(t, c.expr), UTC(), Vixie, c.offsetMs)
		for _, atMs := range []int64{instant(t, "2026-02-01"), instant(t, "2026-02-01") + c.offsetMs, instant(t, "2026-02-01T10:00Z") + c.offsetMs - 1} {
			base, _ := plain.Next(atMs - c.offsetMs)
			if slotMs, ok := late.Next(atMs); !ok || slotMs != base+c.offsetMs {
				t.Errorf("%s + %d ms after %s is %s", c.expr, c.offsetMs, FormatInstant(atMs), answer(slotMs, ok))
			}
			base, _ = plain.Prev(atMs - c.offsetMs)
			if slotMs, ok := late.Prev(atMs); !ok || slotMs != base+c.offsetMs {
				t.Errorf("%s + %d ms before %s is %s", c.expr, c.offsetMs, FormatInstant(atMs), answer(slotMs, ok))
			}
		}
	}
	// Before the offset has passed since 1970, the base is asked from 1970.
	if slotMs, ok := Cron(expression(t, "0 * * * *"), UTC(), Vixie, 5000).Next(10); !ok || slotMs != 3_605_000 {
		t.Errorf("the first slot is %s", answer(slotMs, ok))
	}
	if Cron(expression(t, "0 * * * *"), UTC(), Vixie, -5) != Cron(expression(t, "0 * * * *"), UTC(), Vixie, 0) {
		// Two parses are two expressions; compare what they do.
		a, _ := Cron(expression(t, "0 * * * *"), UTC(), Vixie, -5).Next(0)
		if a != 3_600_000 {
			t.Errorf("a negative offset moves the slot to %d", a)
		}
	}
}

func TestStaggerOffsetIsTheHashOfTheID(t *testing.T) {
	// The SHA-256 of "abc" begins ba7816bf, of the empty text e3b0c442.
	for _, c := range []struct {
		id             string
		windowMs, want int64
	}{{"abc", 300_000, 0xba7816bf % 300_000}, {"", 3_600_000, 0xe3b0c442 % 3_600_000}, {"abc", 1, 0}, {"abc", 0, 0}, {"abc", -5, 0}, {"abc", 1 << 40, 0xba7816bf}} {
		if got := StaggerOffset(c.id, c.windowMs); got != c.want {
			t.Errorf("%q in %d ms: %d, want %d", c.id, c.windowMs, got, c.want)
		}
	}
}

func TestDefaultStagger(t *testing.T) {
	for text, want := range map[string]int64{
		"0 * * * *":       300_000,
		"0 */2 * * *":     300_000,
		"0 ? * * *":       300_000,
		"0 9,*/6 * * 1-5": 300_000,
		"0 0 * * * *":     300_000,
		" 0  *  * * * ":   300_000,
		"0 9 * * *":       0,
		"00 * * * *":      0,
		"5 * * * *":       0,
		"30 0 * * * *":    0,
		"0 0-23 * * *":    0,
		"@hourly":         0,
		"0 0 * * * * *":   0,
		"":                0,
	} {
		if got := DefaultStaggerMs(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]int64{
		"500ms": 500, "30s": 30_000, "5m": 300_000, "2h": 7_200_000, "1d": 86_400_000,
		"1h30m": 5_400_000, "1.5h": 5_400_000, "1d2h3m4s5ms": 93_784_005, "250": 250, "0": 0, "0s": 0,
		" 10M ": 600_000, "0.4": 0, "1.5s": 1500, "1m500ms": 60_500, "0.0006s": 1,
	} {
		if ms, err := ParseDuration(text); err != nil || ms != want {
			t.Errorf("%q is %d (%v), want %d", text, ms, err, want)
		}
	}
	for _, text := range []string{"", "-5m", "+5m", "5 m", "m", "1h30", "30m1h", "1h1h", "5w", "5mo", "1.h", ".5h", "1..5h", "1e3s", "ten", "5m!", "99999999999d", strings.Repeat("9", 400) + "s", strings.Repeat("1", 60), "ms"} {
		ms, err := ParseDuration(text)
		if e, ok := err.(*Error); !ok || e.Hint == "" || e.Field != "duration" {
			t.Errorf("%.20q is %d (%v)", text, ms, err)
		}
	}
	for _, ms := range []int64{0, 1, 999, 60_000, 5_400_000, 93_784_005, maxInstantMs} {
		if back, err := ParseDuration(formatSpan(ms)); err != nil || back != ms {
			t.Errorf("%d is written %s and read as %d (%v)", ms, formatSpan(ms), back, err)
		}
	}
}

// Forms of an instant that the vectors leave out.
func TestInstants(t *testing.T) {
	tokyo := zone(t, "Asia/Tokyo")
	for _, c := range []struct {
		text string
		z    *Zone
		want string
	}{
		{"2026-02-01", nil, "2026-02-01T00:00:00.000Z"},
		{"2026-02-01", tokyo, "2026-01-31T15:00:00.000Z"},
		{"2026-02-01Z", tokyo, "2026-02-01T00:00:00.000Z"},
		{"2026-02-01T24:00", tokyo, "2026-02-01T15:00:00.000Z"},
		{"2026-02-01T09:00:00.9999-00:00", nil, "2026-02-01T09:00:00.999Z"},
		{"2026-02-01T09:00:00.5", tokyo, "2026-02-01T00:00:00.500Z"},
		{"+002026-02-01T09:00Z", nil, "2026-02-01T09:00:00.000Z"},
		{"+275760-09-13T00:00Z", nil, "+275760-09-13T00:00:00.000Z"},
		{"999999999999", nil, "2001-09-09T01:46:39.999Z"},
	} {
		if atMs, err := ParseAt(c.text, c.z); err != nil || FormatInstant(atMs) != c.want {
			t.Errorf("%q is %s (%v), want %s", c.text, FormatInstant(atMs), err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":                       CodeSyntax,
		"2026":                   CodeAmbiguousUnit,
		"20260201090000":         CodeAmbiguousUnit,
		"000000000000":           CodeRange,
		"2026-02":                CodeSyntax,
		"2026-2-1":               CodeSyntax,
		"2026-02-30":             CodeRange,
		"2100-02-29":             CodeRange,
		"2026-02-01T9:00":        CodeSyntax,
		"2026-02-01T":            CodeSyntax,
		"2026-02-01T09":          CodeSyntax,
		"2026-02-01T09:60":       CodeRange,
		"2026-02-01T23:59:60Z":   CodeRange,
		"2026-02-01T24:00:01Z":   CodeRange,
		"2026-02-01T09:00:00.Z":  CodeSyntax,
		"2026-02-01T09:00+2":     CodeSyntax,
		"2026-02-01T09:00+02:60": CodeRange,
		"2026-02-01T09:00ZZ":     CodeSyntax,
		"2026-W05-1":             CodeSyntax,
		"-271821-04-19T23:59Z":   CodeRange,
		strings.Repeat("2", 300): CodeTooLong,
	} {
		atMs, err := ParseAt(text, nil)
		e, ok := err.(*Error)
		if !ok || e.Code != want || e.Field != "at" || e.Hint == "" || e.Message == "" {
			t.Errorf("%.30q is %s (%#v), want %s", text, FormatInstant(atMs), err, want)
		}
	}
}

func TestDSTAndPolicyNames(t *testing.T) {
	for text, want := range map[string]DST{"": Vixie, "vixie": Vixie, " Skip ": Skip} {
		if d, err := ParseDST(text); err != nil || d != want {
			t.Errorf("%q is %s (%v)", text, d, err)
		}
	}
	if _, err := ParseDST("cronie"); code(err) != CodeDST {
		t.Errorf("cronie: %v", err)
	}
	for text, want := range map[string]CatchUpPolicy{"": RunOne, "ONE": RunOne, "skip": RunNone, "all": RunAll} {
		if p, err := ParseCatchUpPolicy(text); err != nil || p != want {
			t.Errorf("%q is %s (%v)", text, p, err)
		}
	}
	if _, err := ParseCatchUpPolicy("both"); err == nil {
		t.Error("both is a policy")
	}
	if DST(9).String() != "unknown" || CatchUpPolicy(9).String() != "unknown" || DST(Skip).String() != "skip" || RunAll.String() != "all" {
		t.Error("names")
	}
}
