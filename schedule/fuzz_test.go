package schedule

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzExpression: the parser answers any text with an expression or a complete
// error; what it accepts has slots that strictly increase, both ways, under both
// rules, and a description. No call may take more than bounded work: the fuzzer
// itself reports a hang.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "*/15 9-17 1,15 */2 MON-FRI", "0 0 29 2 +1", "0 12 * * FRI#L", "0 0 LW,15W * 5L",
		"@Hourly", "30 2 * 3 SUN#2", "0 0 12 1 1 * 2030-2032", "22-2 0 * NOV-FEB 5-1", "0 0 31 4,6,9,11 *",
		", * * * *", "TZ= 0 9 * * *", "CRON_TZ=UTC", "*-5 * * * *", "5/15 7/3 ? ? ?", "0 0 * * 7-2/3",
		"0 0 30W 2 1#5", "59 59 23 31 12 * 9999", "0 0 0 1 1 * */400", "*\u00a0* * * *", "1-2-3 4/5/6 # L W",
		strings.Repeat("1,", 400) + "1 * * * *",
	} {
		f.Add(text, int64(1_772_930_000_000), uint8(3))
	}
	zones := []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Pacific/Apia", "America/Nuuk", "Africa/Casablanca"}
	f.Fuzz(func(t *testing.T, text string, fromMs int64, pick uint8) {
		e, err := ParseExpression(text)
		if err != nil {
			fault, ok := err.(*Error)
			if !ok || fault.Code == "" || fault.Message == "" || len(fault.Input) > maxEchoBytes+8 || !utf8.ValidString(fault.Error()) {
				t.Fatalf("%q: the error is not complete: %#v", text, err)
			}
			return
		}
		if e.Never() || e.Describe() == "" || e.Describe() == "never" {
			t.Fatalf("%q is accepted and described as %q", text, e.Describe())
		}
		if again, err := ParseExpression(e.Text()); err != nil || again.Describe() != e.Describe() {
			t.Fatalf("%q does not survive its own text (%v)", text, err)
		}
		if !inRange(fromMs) {
			return
		}
		s := Cron(e, zone(t, zones[int(pick)%len(zones)]), DST(pick>>7), int64(pick)*1000)
		atMs := fromMs
		for range 5 {
			next, ok := s.Next(atMs)
			if !ok {
				break
			}
			if next <= atMs {
				t.Fatalf("%s: next of %d is %d", s.Describe(), atMs, next)
			}
			if back, ok := s.Prev(next + 1000); !ok || back < next {
				t.Fatalf("%s: Prev just after %d is %d %v", s.Describe(), next, back, ok)
			}
			atMs = next
		}
		for range 3 {
			prev, ok := s.Prev(atMs)
			if !ok {
				break
			}
			if prev >= atMs {
				t.Fatalf("%s: previous of %d is %d", s.Describe(), atMs, prev)
			}
			atMs = prev
		}
	})
}

func FuzzParseAt(f *testing.F) {
	for _, text := range []string{"2026-02-01T09:00:00Z", "2026-02-01", "+002026-02-01T24:00", "1769936400000", "2026-03-08T02:30", "2026-02-01T09:00:00.123456789+0530"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, z := range []*Zone{nil, zone(t, "America/New_York")} {
			atMs, err := ParseAt(text, z)
			if err != nil {
				if e, ok := err.(*Error); !ok || e.Code == "" || e.Hint == "" {
					t.Fatalf("%q: %#v", text, err)
				}
				continue
			}
			if !inRange(atMs) {
				t.Fatalf("%q is %d, out of range", text, atMs)
			}
			if again, err := ParseAt(FormatInstant(atMs), z); err != nil || again != atMs {
				t.Fatalf("%q is %s, which reads as %d (%v)", text, FormatInstant(atMs), again, err)
			}
		}
	})
}

func FuzzDurations(f *testing.F) {
	for _, text := range []string{"1h30m", "500ms", "1.5d", "60000", "1e3", "9.2e18", "-1s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if ms, err := ParseDuration(text); err == nil && (ms < 0 || ms > maxInstantMs) {
			t.Fatalf("duration %q is %d", text, ms)
		}
		if ms, err := ParseEveryMs(text); err == nil {
			if s, err := Every(ms, 0); err != nil || s == (Schedule{}) {
				t.Fatalf("interval %q is %d, which Every refuses: %v", text, ms, err)
			}
		}
	})
}
