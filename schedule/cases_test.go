package schedule

import (
	"strings"
	"testing"
	"time"
)

// Faults that users of schedulers met, each with the answer that is right. The
// numbers are those of the project's list of cases.

func TestCase002FallBackHourFiresOnce(t *testing.T) {
	s := cronIn(t, "30 1 * * *", "America/New_York", Vixie)
	walk(t, s, instant(t, "2026-11-01T05:00Z"), []string{"2026-11-01T05:30Z", "2026-11-02T06:30Z"})
	// A process that starts between the two 01:30s has no memory to go by.
	walk(t, s, instant(t, "2026-11-01T06:10Z"), []string{"2026-11-02T06:30Z"})
}

func TestCase004TheDayAfterTheChangeIsNotAnHourOff(t *testing.T) {
	walk(t, cronIn(t, "0 12 * * *", "America/New_York", Vixie), instant(t, "2026-10-31T16:00Z"), []string{"2026-11-01T17:00Z"})
	walk(t, cronIn(t, "0 9 * * *", "America/Los_Angeles", Vixie), instant(t, "2026-03-07T17:00:01Z"), []string{"2026-03-08T16:00Z", "2026-03-09T16:00Z"})
}

func TestCase006LocalTimeOfAOneShot(t *testing.T) {
	for _, c := range []struct{ at, tz, want string }{
		{"2026-05-06T10:00", "America/Chicago", "2026-05-06T15:00Z"},
		{"2026-04-05T01:45", "Australia/Lord_Howe", "2026-04-04T14:45Z"},
		{"2026-10-25T02:30", "Europe/Oslo", "2026-10-25T00:30Z"},
		{"2027-03-23", "Asia/Shanghai", "2027-03-22T16:00Z"},
	} {
		atMs, err := ParseAt(c.at, zone(t, c.tz))
		if err != nil || atMs != instant(t, c.want) {
			t.Errorf("%s %s is %s (%v), want %s", c.at, c.tz, FormatInstant(atMs), err, c.want)
		}
	}
	_, err := ParseAt("2026-03-08T02:30", zone(t, "America/New_York"))
	e, ok := err.(*Error)
	if !ok || e.Code != CodeGap || e.Field != "at" {
		t.Fatalf("a time in the gap: %v", err)
	}
	if want := "clocks go from 2026-03-08T01:59:59 to 2026-03-08T03:00:00 there; write 2026-03-08T03:00:00, or add an offset"; e.Hint != want {
		t.Errorf("the hint is %q", e.Hint)
	}
	_, err = ParseAt("2011-12-30", zone(t, "Pacific/Apia"))
	if code(err) != CodeGap || !strings.Contains(err.(*Error).Hint, "2011-12-31T00:00:00") {
		t.Errorf("a date that never existed: %#v", err)
	}
}

func TestCase007DayOfMonthAndWeekdayAreAlternatives(t *testing.T) {
	walk(t, cronIn(t, "0 0 13 * 5", "UTC", Vixie), instant(t, "2026-02-01"), []string{"2026-02-06", "2026-02-13", "2026-02-20", "2026-02-27"})
	walk(t, cronIn(t, "0 0 */2 * 3", "UTC", Vixie), instant(t, "2024-08-16T12:00Z"), []string{"2024-08-17", "2024-08-19", "2024-08-21"})
	walk(t, cronIn(t, "0 0 13 * +5", "UTC", Vixie), instant(t, "2026-02-01"), []string{"2026-02-13", "2026-03-13", "2026-11-13"})
	step, list := cronIn(t, "0 0 * * */2", "UTC", Vixie), cronIn(t, "0 0 * * 0,2,4,6", "UTC", Vixie)
	fromMs := instant(t, "2026-01-02")
	walk(t, step, fromMs, []string{"2026-01-03"})
	for range 50 {
		a, _ := step.Next(fromMs)
		b, _ := list.Next(fromMs)
		if a != b {
			t.Fatalf("*/2 gives %s, 0,2,4,6 gives %s", FormatInstant(a), FormatInstant(b))
		}
		fromMs = a
	}
}

func TestCase008SundayAsSevenAndOtherOddSteps(t *testing.T) {
	walk(t, cronIn(t, "45 4 * * 6-7", "UTC", Vixie), instant(t, "2020-05-07T18:55:58Z"), []string{"2020-05-09T04:45Z", "2020-05-10T04:45Z"})
	walk(t, cronIn(t, "*/60 * * * *", "UTC", Vixie), instant(t, "2026-01-01T12:00Z"), []string{"2026-01-01T13:00Z"})
	walk(t, cronIn(t, "5/15 * * * *", "UTC", Vixie), instant(t, "2026-01-01T12:00Z"), []string{"2026-01-01T12:05Z", "2026-01-01T12:20Z", "2026-01-01T12:35Z", "2026-01-01T12:50Z", "2026-01-01T13:05Z"})
	walk(t, cronIn(t, "0 0 * * 5-1", "UTC", Vixie), instant(t, "2026-01-01"), []string{"2026-01-02", "2026-01-03", "2026-01-04", "2026-01-05", "2026-01-09"})
}

// An edit of another field asks again from now: tomorrow's slot is still there.
func TestCase009AskingAgainAfterTodaysSlotKeepsTomorrow(t *testing.T) {
	walk(t, cronIn(t, "25 6 * * *", "America/New_York", Vixie), instant(t, "2026-02-07T03:37Z"), []string{"2026-02-07T11:25Z"})
}

func TestCase010TheGridDoesNotMoveWithARestart(t *testing.T) {
	anchorMs := instant(t, "2026-01-01T04:42Z")
	s, err := Every(12_600_000, anchorMs)
	if err != nil {
		t.Fatal(err)
	}
	for _, asked := range []string{"06:08", "08:10", "08:11"} {
		walk(t, s, instant(t, "2026-01-01T"+asked+"Z"), []string{"2026-01-01T08:12Z"})
	}
}

func TestCase012LaptopAsleepForThreeSlots(t *testing.T) {
	s := cronIn(t, "0 4 * * *", "America/New_York", Vixie)
	cursor, now := instant(t, "2026-02-06T09:00Z"), instant(t, "2026-02-09T12:00Z")
	for _, c := range []struct {
		policy  CatchUpPolicy
		run     []string
		skipped int64
	}{
		{RunOne, []string{"2026-02-09T09:00Z"}, 2},
		{RunAll, []string{"2026-02-07T09:00Z", "2026-02-08T09:00Z", "2026-02-09T09:00Z"}, 0},
		{RunNone, nil, 3},
	} {
		m := Due(s, cursor, now, CatchUp{Policy: c.policy})
		if m.Slots != 3 || !m.Exact || len(m.RunSlotsMs) != len(c.run) || m.Skipped != c.skipped {
			t.Errorf("%s: %+v", c.policy, m)
			continue
		}
		for i, want := range c.run {
			if m.RunSlotsMs[i] != instant(t, want) {
				t.Errorf("%s: run %d is %s, want %s", c.policy, i, FormatInstant(m.RunSlotsMs[i]), want)
			}
		}
		if c.skipped > 0 && m.SkippedFirstMs != instant(t, "2026-02-07T09:00Z") {
			t.Errorf("%s: the skipped range begins at %s", c.policy, FormatInstant(m.SkippedFirstMs))
		}
		// The next start has the mark at the newest slot: nothing is due.
		if again := Due(s, m.LastMs, now+60_000, CatchUp{Policy: c.policy}); again.Slots != 0 {
			t.Errorf("%s: a second start finds %+v", c.policy, again)
		}
	}
	walk(t, s, now, []string{"2026-02-10T09:00Z"})
}

func TestCase016AThousandMissedMinutes(t *testing.T) {
	s := cronIn(t, "* * * * *", "UTC", Vixie)
	now := instant(t, "2026-02-02T00:00Z")
	m := Due(s, now-86_400_000, now, CatchUp{Policy: RunAll})
	if m.Slots != 1440 || len(m.RunSlotsMs) != 10 || m.Skipped != 1430 || !m.Exact {
		t.Fatalf("%+v", m)
	}
	if m.RunSlotsMs[9] != now || m.RunSlotsMs[0] != now-9*60_000 || m.SkippedLastMs != now-10*60_000 {
		t.Errorf("the newest ten run: %+v", m)
	}
	seconds, err := Every(1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	days := int64(400)
	if m := Due(seconds, now-days*86_400_000, now, CatchUp{}); m.Slots != days*86_400 || !m.Exact || len(m.RunSlotsMs) != 1 {
		t.Errorf("400 days of seconds on a grid: %+v", m)
	}
	// The same in cron is counted to a bound, and says so; the instants are exact.
	m = Due(cronIn(t, "* * * * * *", "UTC", Vixie), now-days*86_400_000, now, CatchUp{Policy: RunAll})
	if m.Exact || m.Slots != maxCountedSlots || m.RunSlotsMs[9] != now || m.FirstMs != now-days*86_400_000+1000 {
		t.Errorf("400 days of seconds by cron: %+v", m)
	}
}

func TestCase080WhatCanNeverMatchIsRefused(t *testing.T) {
	for text, field := range map[string]string{
		"0 0 30 2 *":        "day of month",
		"0 0 31 4 *":        "day of month",
		"0 0 31 4,6,9,11 *": "day of month",
		"0 0 30W 2 *":       "day of month",
		"0 0 29 2 1#1":      "", // both fields set are alternatives: fires on first Mondays
		"0 0 29 2 +1#1":     "day of month",
		"0 0 0 29 2 * 2027": "day of month",
		"* * * 13 *":        "month",
		"60 * * * *":        "minute",
		"0 2 1 0 *":         "month",
	} {
		_, err := ParseExpression(text)
		if field == "" {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if e, ok := err.(*Error); !ok || e.Field != field {
			t.Errorf("%q: %v, want an error of the %s field", text, err, field)
		}
	}
	for _, text := range []string{"* * * *", "* * * * * * * *"} {
		if _, err := ParseExpression(text); code(err) != CodeSyntax {
			t.Errorf("%q: %v", text, err)
		}
	}
	leap := cronIn(t, "0 0 29 2 *", "UTC", Vixie)
	walk(t, leap, instant(t, "2026-03-01"), []string{"2028-02-29"})
	walk(t, leap, instant(t, "2096-03-01"), []string{"2104-02-29"})
}

func TestCase081SecondsAreNotMilliseconds(t *testing.T) {
	const want = "2026-02-13T18:00:00.000Z"
	for _, text := range []string{"1771005600000", "2026-02-13T18:00:00Z"} {
		if atMs, err := ParseAt(text, nil); err != nil || FormatInstant(atMs) != want {
			t.Errorf("%q is %s (%v)", text, FormatInstant(atMs), err)
		}
	}
	for text, want := range map[string]string{
		"1771005600":       CodeAmbiguousUnit,
		"1771005600000000": CodeAmbiguousUnit,
		"177100560":        CodeAmbiguousUnit,
		"2026-02-13 18:00": CodeSyntax,
		"-1":               CodeSyntax,
		"1e300":            CodeSyntax,
	} {
		atMs, err := ParseAt(text, nil)
		e, ok := err.(*Error)
		if !ok || e.Code != want || e.Hint == "" {
			t.Errorf("%q is %s (%v), want %s", text, FormatInstant(atMs), err, want)
		}
	}
	if _, err := ParseAt("1771005600", nil); !strings.Contains(err.(*Error).Hint, "1771005600000") {
		t.Errorf("the hint does not give the milliseconds: %q", err.(*Error).Hint)
	}
}

func TestCase083IntervalsThatWouldSpin(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "999": 999, "1.5": 1, "60000": 60_000, " 60000 ": 60_000, "1e3": 1000, "8640000000000000": 8_640_000_000_000_000} {
		if ms, err := ParseEveryMs(text); err != nil || ms != want {
			t.Errorf("%q is %d (%v), want %d", text, ms, err, want)
		}
	}
	for _, text := range []string{"0", "-1", "0.5", "9.2e18", "1e400", "null", "", "abc", "60s", "0x10", "NaN", "Infinity", "1_000", "1e", "--1", "1.", ".5", "8640000000000001"} {
		if ms, err := ParseEveryMs(text); err == nil {
			t.Errorf("%q is accepted as %d", text, ms)
		}
	}
	for _, everyMs := range []int64{0, -1, 9_200_000_000_000_000_000} {
		if s, err := Every(everyMs, 0); err == nil || s != (Schedule{}) {
			t.Errorf("every %d is accepted", everyMs)
		}
	}
	if _, err := Every(1000, -1); err == nil {
		t.Error("a negative anchor is accepted")
	}
}

func TestCase098AStoredSlotIsStillASlotAfterARestart(t *testing.T) {
	s := cronIn(t, "0 9 * * *", "Pacific/Honolulu", Vixie)
	stored := instant(t, "2026-05-08T19:00Z")
	for _, now := range []int64{instant(t, "2026-05-07T20:00Z"), instant(t, "2026-05-08T18:59:59.500Z"), stored - 1} {
		if slotMs, ok := s.Next(now); !ok || slotMs != stored {
			t.Errorf("next of %s is %s", FormatInstant(now), answer(slotMs, ok))
		}
	}
	if slotMs, _ := s.Prev(stored + 1); slotMs != stored {
		t.Errorf("one millisecond later the slot before is %s", FormatInstant(slotMs))
	}
	if slotMs, _ := s.Prev(stored); slotMs != instant(t, "2026-05-07T19:00Z") {
		t.Errorf("the slot before it is %s", FormatInstant(slotMs))
	}
}

func TestCase099TheGridIsCountedFromTheAnchor(t *testing.T) {
	s, err := Every(120_000, instant(t, "2026-01-01T00:00Z"))
	if err != nil {
		t.Fatal(err)
	}
	walk(t, s, instant(t, "2026-01-01T00:07:10Z"), []string{"2026-01-01T00:08Z", "2026-01-01T00:10Z"})
	m := Due(s, instant(t, "2026-01-01T00:00Z"), instant(t, "2026-01-01T00:07:10Z"), CatchUp{Policy: RunNone})
	if m.Skipped != 3 || m.SkippedFirstMs != instant(t, "2026-01-01T00:02Z") || m.SkippedLastMs != instant(t, "2026-01-01T00:06Z") {
		t.Errorf("%+v", m)
	}
}

func TestCase101TheStaggerOfAJobIsItsOwn(t *testing.T) {
	const hourMs = 3_600_000
	offset := StaggerOffset("nightly-report", hourMs)
	if offset != StaggerOffset("nightly-report", hourMs) || offset == StaggerOffset("other", hourMs) {
		t.Fatal("the offset does not depend on the id alone")
	}
	s := Cron(expression(t, "0 * * * *"), UTC(), Vixie, offset)
	hour := instant(t, "2026-02-01T10:00Z")
	// Down from five minutes before the slot to ten minutes after the hour.
	for _, now := range []int64{hour + offset - 300_000, hour + offset - 1} {
		if slotMs, ok := s.Next(now); !ok || slotMs != hour+offset {
			t.Errorf("next of %s is %s", FormatInstant(now), answer(slotMs, ok))
		}
	}
	m := Due(s, hour+offset-300_000, hour+offset+600_000, CatchUp{})
	if len(m.RunSlotsMs) != 1 || m.RunSlotsMs[0] != hour+offset {
		t.Errorf("the missed slot: %+v", m)
	}
	// A restart every ten minutes never delays the job beyond its period.
	atMs, fired := hour, 0
	for range 6 * 24 {
		if m := Due(s, atMs, atMs+600_000, CatchUp{}); m.Slots > 0 {
			fired++
		}
		atMs += 600_000
	}
	if fired != 24 {
		t.Errorf("%d slots in a day of restarts, want 24", fired)
	}
}

func TestCase102FarAwaySlotsAreExact(t *testing.T) {
	walk(t, cronIn(t, "0 4 1 * *", "UTC", Vixie), instant(t, "2026-02-01T04:00:01Z"), []string{"2026-03-01T04:00Z"})
	walk(t, cronIn(t, "0 0 1 1 *", "UTC", Vixie), instant(t, "2026-02-01T04:00:01Z"), []string{"2027-01-01"})
	s, err := Every(90*86_400_000, instant(t, "2026-02-01"))
	if err != nil {
		t.Fatal(err)
	}
	walk(t, s, instant(t, "2026-02-01T00:00:01Z"), []string{"2026-05-02", "2026-07-31"})
}

func TestCase120TheFirstFailureWaitsTheFirstDelay(t *testing.T) {
	table := []int64{5000, 25_000, 120_000}
	for n, want := range []int64{0, 5000, 25_000, 120_000, 120_000} {
		if got := Backoff(table, n); got != want {
			t.Errorf("after failure %d: %d ms, want %d", n, got, want)
		}
	}
	if Backoff(nil, 3) != 0 || Backoff(table, -1) != 0 {
		t.Error("no table or no failure is no delay")
	}
	DefaultErrorBackoffMs()[0] = 1
	if got := Backoff(DefaultErrorBackoffMs(), 1); got != 30_000 {
		t.Errorf("a caller changed the default to %d", got)
	}
	if got := Backoff(DefaultErrorBackoffMs(), 99); got != 3_600_000 {
		t.Errorf("the last error delay is %d", got)
	}
	if got := Backoff(DefaultRetryBackoffMs(), 3); got != 300_000 {
		t.Errorf("the last retry delay is %d", got)
	}
}

// A local day is as long as the zone makes it: 50 half hours on this one.
func TestCase124ADayOf25Hours(t *testing.T) {
	z := zone(t, "America/New_York")
	start, err := ParseAt("2026-11-01", z)
	if err != nil {
		t.Fatal(err)
	}
	end, err := ParseAt("2026-11-02", z)
	if err != nil {
		t.Fatal(err)
	}
	if end-start != int64(25*time.Hour/time.Millisecond) {
		t.Errorf("the day lasts %d ms", end-start)
	}
	if n := len(slots(cronIn(t, "*/30 * * * *", "America/New_York", Vixie), start-1, end-1)); n != 50 {
		t.Errorf("%d half hours, want 50", n)
	}
}
