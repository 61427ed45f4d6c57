package schedule

import "testing"

// The kinds of schedule that cost differently, each asked from 15 March 2026.
var benchmarks = []struct{ name, expr, tz string }{
	{"minute", "* * * * *", "America/New_York"},
	{"quarter", "*/15 * * * *", "America/New_York"},
	{"daily", "0 9 * * *", "America/New_York"},
	{"dailyUTC", "0 9 * * *", "UTC"},
	{"workdays", "0 9 * * 1-5", "America/New_York"},
	{"monthly", "0 0 1 * *", "America/New_York"},
	{"lastFriday", "0 9 * * FRI#L", "America/New_York"},
	{"yearly", "0 0 1 1 *", "America/New_York"},
	{"leapDay", "0 0 29 2 *", "America/New_York"},
	{"leapMonday", "0 0 29 2 +1", "America/New_York"},
}

const benchFromMs = 1_773_532_800_000 // 2026-03-15T00:00Z

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
	b.Run("insideTheGap", func(b *testing.B) {
		s := cronIn(b, "30 2 * * *", "America/New_York", Vixie)
		b.ReportAllocs()
		for b.Loop() {
			s.Next(1_772_950_000_000) // 2026-03-08T06:06Z
		}
	})
	b.Run("neverAgainSkip", func(b *testing.B) {
		s := cronIn(b, "30 2 * 3 SUN#2", "America/New_York", Skip)
		b.ReportAllocs()
		for b.Loop() {
			s.Next(benchFromMs)
		}
	})
	b.Run("every", func(b *testing.B) {
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

func BenchmarkParseExpression(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseExpression("*/15 9-17 * * 1-5"); err != nil {
			b.Fatal(err)
		}
	}
}

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
			for _, atMs := range []int64{benchFromMs, 1_772_950_000_000, 4_300_000_000_000} {
				if n := testing.AllocsPerRun(20, func() { s.Next(atMs); s.Prev(atMs) }); n != 0 {
					t.Errorf("%s %s at %s: %v allocations", c.name, dst, FormatInstant(atMs), n)
				}
			}
		}
	}
}
