package schedule

import "testing"

// Schedules: what the next slot costs, for each kind of schedule that costs
// differently.
//
//	go test ./schedule -run '^$' -bench Next
//	go test ./schedule -run '^$' -bench .
//
// One iteration is one question. It allocates nothing, which a test checks. A
// daily or interval schedule is to answer within 200 ns, and a leap day within
// 1.5 µs; neverAgainSkip is the worst case, a proof over 400 years that no slot
// follows.

// The kinds, each asked from 15 March 2026.
var benchmarks = []struct{ name, expr, tz string }{
	{"minute", "* * * * *", "America/New_York"},
	{"quarter", "*/15 * * * *", "America/New_York"},
	{"daily", "0 9 * * *", "America/New_York"},
	{"dailyUTC", "0 9 * * *", "UTC"},
	{"workdays", "0 9 * * 1-5", "America/New_York"},
	{"monthly", "0 0 1 * *", "America/New_York"},
	{"lastDay", "0 0 L * *", "America/New_York"},
	{"lastFriday", "0 9 * * FRI#L", "America/New_York"},
	{"yearly", "0 0 1 1 *", "America/New_York"},
	{"leapDay", "0 0 29 2 *", "America/New_York"},
	{"leapMonday", "0 0 29 2 +1", "America/New_York"},
}

const (
	benchFromMs = 1_773_532_800_000 // 2026-03-15T00:00Z
	springMs    = 1_772_953_200_000 // 2026-03-08T07:00Z: 02:00 becomes 03:00 in New York
	autumnMs    = 1_793_512_800_000 // 2026-11-01T06:00Z: 02:00 becomes 01:00
)

// BenchmarkNext is the slot after an instant.
func BenchmarkNext(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			s := cronIn(b, c.expr, c.tz, Vixie)
			b.ReportAllocs()
			for b.Loop() {
				s.Next(benchFromMs)
			}
		})
	}
	// The days of a change of offset: asked just before, the answer is in the hour
	// that is jumped over or shown twice, or behind it.
	for _, c := range []struct {
		name, expr string
		fromMs     int64
	}{
		{"insideTheGap", "30 2 * * *", springMs - 3_240_000}, // 01:06
		{"dailyOverTheGap", "0 9 * * *", springMs - 3_600_000},
		{"minuteIntoTheGap", "* * * * *", springMs - 1},
		{"insideTheRepeat", "30 1 * * *", autumnMs - 3_600_000},
		{"dailyOverTheRepeat", "0 9 * * *", autumnMs - 3_600_000},
		{"minuteIntoTheRepeat", "* * * * *", autumnMs - 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := cronIn(b, c.expr, "America/New_York", Vixie)
			b.ReportAllocs()
			for b.Loop() {
				s.Next(c.fromMs)
			}
		})
	}
	b.Run("neverAgainSkip", func(b *testing.B) {
		s := cronIn(b, "30 2 * 3 SUN#2", "America/New_York", Skip)
		b.ReportAllocs()
		for b.Loop() {
			s.Next(benchFromMs)
		}
	})
	b.Run("interval", func(b *testing.B) {
		s, err := Every(60_000, 12_345)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			s.Next(benchFromMs)
		}
	})
}

// BenchmarkPrev is the slot before.
func BenchmarkPrev(b *testing.B) {
	for _, c := range benchmarks {
		b.Run(c.name, func(b *testing.B) {
			s := cronIn(b, c.expr, c.tz, Vixie)
			b.ReportAllocs()
			for b.Loop() {
				s.Prev(benchFromMs)
			}
		})
	}
}

// BenchmarkParseExpression is what an expression costs once.
func BenchmarkParseExpression(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseExpression("*/15 9-17 * * 1-5"); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDueOneDayOfMinutes lists the 1,440 slots that a day of downtime missed.
func BenchmarkDueOneDayOfMinutes(b *testing.B) {
	s := cronIn(b, "* * * * *", "America/New_York", Vixie)
	b.ReportAllocs()
	for b.Loop() {
		Due(s, benchFromMs-86_400_000, benchFromMs, CatchUp{Policy: RunAll})
	}
}

func TestNextAndPrevAllocateNothing(t *testing.T) {
	for _, c := range benchmarks {
		for _, dst := range []DST{Vixie, Skip} {
			s := cronIn(t, c.expr, c.tz, dst)
			// A year with changes, and one beyond the table of segments.
			for _, atMs := range []int64{benchFromMs, springMs - 3_240_000, autumnMs - 1, 4_300_000_000_000} {
				if n := testing.AllocsPerRun(20, func() { s.Next(atMs); s.Prev(atMs) }); n != 0 {
					t.Errorf("%s %s at %s: %v allocations", c.name, dst, FormatInstant(atMs), n)
				}
			}
		}
	}
}
