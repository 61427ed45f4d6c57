package schedule

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"
)

// The laws that the daylight-saving rule was chosen for, as properties of random
// schedules around the clock changes of many zones.

// near returns a random zone and a random instant within two days of one of its
// changes.
func near(t *testing.T, r *rand.Rand) (*Zone, int64) {
	t.Helper()
	tz := transitionZones[r.IntN(len(transitionZones))]
	z := zone(t, tz.name)
	start := time.Date(tz.from, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	seg := z.at(start)
	for range r.IntN(4) {
		if seg.end < infinity {
			seg = z.at(seg.end)
		}
	}
	at := seg.end
	if at == infinity {
		at = seg.start
	}
	return z, at*1000 + r.Int64N(4*86_400_000) - 2*86_400_000
}

func slots(s Schedule, fromMs, toMs int64) []int64 {
	var out []int64
	for atMs, ok := s.Next(fromMs); ok && atMs <= toMs; atMs, ok = s.Next(atMs) {
		out = append(out, atMs)
	}
	return out
}

// Law (a): a list of fixed times fires when its elements fire.
func TestLawUnion(t *testing.T) {
	r := random(t)
	for range 400 {
		z, atMs := near(t, r)
		minute := strconv.Itoa(r.IntN(60))
		a, b := strconv.Itoa(r.IntN(5)), strconv.Itoa(r.IntN(24))
		both := Cron(expression(t, minute+" "+a+","+b+" * * *"), z, Vixie, 0)
		one := Cron(expression(t, minute+" "+a+" * * *"), z, Vixie, 0)
		two := Cron(expression(t, minute+" "+b+" * * *"), z, Vixie, 0)
		toMs := atMs + 4*86_400_000
		union := append(slots(one, atMs, toMs), slots(two, atMs, toMs)...)
		slices.Sort(union)
		union = slices.Compact(union)
		if got := slots(both, atMs, toMs); !slices.Equal(got, union) {
			t.Fatalf("%s: %v, its parts give %v", both.Describe(), got, union)
		}
	}
}

// Law (b): a fixed-time job with k times of day fires between once and k times
// for each date that matches, and not at all only if the date never existed.
func TestLawOnceToKPerDate(t *testing.T) {
	r := random(t)
	for range 300 {
		z, atMs := near(t, r)
		k := 1 + r.IntN(4)
		hours := strconv.Itoa(r.IntN(24))
		for range k - 1 {
			hours += "," + strconv.Itoa(r.IntN(24))
		}
		minute := r.IntN(60)
		for d := range 4 {
			day := floorDiv(atMs, 86_400_000) + int64(d)
			year, month, dom := dateOf(day)
			text := strconv.Itoa(minute) + " " + hours + " " + strconv.Itoa(dom) + " " + strconv.Itoa(month) + " *"
			s := Cron(expression(t, text), z, Vixie, 0)
			n := len(slots(s, (day-3)*86_400_000, (day+3)*86_400_000))
			exists := false
			for sec := (day - 2) * secondsPerDay; sec < (day+2)*secondsPerDay; sec += 900 {
				y, m, dd := time.Unix(sec, 0).In(z.Location()).Date()
				exists = exists || (y == year && int(m) == month && dd == dom)
			}
			if n > k || (n == 0) == exists {
				t.Fatalf("%q in %s fires %d times on %d-%02d-%02d (exists %v), want 1 to %d", text, z.Name(), n, year, month, dom, exists, k)
			}
		}
	}
}

// Law (c): every n minutes means a silence of n minutes of elapsed time at most,
// where the clocks change by a multiple of n on a multiple of n.
func TestLawNoLongSilence(t *testing.T) {
	r := random(t)
	for range 200 {
		z, atMs := near(t, r)
		n := []int{1, 2, 3, 5, 6, 10, 15, 30}[r.IntN(8)]
		step := int64(n) * 60
		fits := true
		for sec := atMs/1000 - 3*secondsPerDay; sec < atMs/1000+5*secondsPerDay; sec += 3600 {
			seg := z.at(sec)
			fits = fits && seg.offset%step == 0 && seg.start%step == 0
		}
		if !fits {
			continue
		}
		list := slots(Cron(expression(t, "*/"+strconv.Itoa(n)+" * * * *"), z, Vixie, 0), atMs, atMs+3*86_400_000)
		for i := 1; i < len(list); i++ {
			if list[i]-list[i-1] != step*1000 {
				t.Fatalf("*/%d in %s: silence from %s to %s", n, z.Name(), FormatInstant(list[i-1]), FormatInstant(list[i]))
			}
		}
	}
}

// Laws (d) and (e): Next is monotonic and strictly later, Prev undoes it; for
// each kind of schedule and both rules.
func TestLawNextAndPrev(t *testing.T) {
	r := random(t)
	for range 3000 {
		z, xMs := near(t, r)
		s := randomSchedule(t, r, z, xMs)
		yMs := xMs + r.Int64N(3*86_400_000)
		nextX, okX := s.Next(xMs)
		nextY, okY := s.Next(yMs)
		if okX && nextX <= xMs {
			t.Fatalf("%s: Next(%d) = %d", s.Describe(), xMs, nextX)
		}
		if okY && (!okX || nextX > nextY) {
			t.Fatalf("%s: Next(%s) is %s, later than Next(%s) = %s", s.Describe(), FormatInstant(xMs), answer(nextX, okX), FormatInstant(yMs), FormatInstant(nextY))
		}
		if !okX {
			continue
		}
		grain := int64(1000)
		if s.kind != kindCron {
			grain = 1
		}
		if back, ok := s.Prev(nextX + grain); !ok || back != nextX {
			t.Fatalf("%s: Prev just after %s is %s", s.Describe(), FormatInstant(nextX), answer(back, ok))
		}
		if back, ok := s.Prev(nextX); ok && (back > xMs || back >= nextX) {
			t.Fatalf("%s: %s lies between %s and its next %s", s.Describe(), FormatInstant(back), FormatInstant(xMs), FormatInstant(nextX))
		}
	}
}

func randomSchedule(t *testing.T, r *rand.Rand, z *Zone, nearMs int64) Schedule {
	t.Helper()
	switch r.IntN(12) {
	case 0:
		return At(nearMs + r.Int64N(86_400_000))
	case 1:
		s, err := Every(1+r.Int64N(10_000_000), max(0, nearMs-r.Int64N(1e12)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for {
		text := randomField(r, 0, 59, 0.1) + " " + randomHour(r) + " " + randomDates(r)
		e, err := ParseExpression(text)
		if code(err) == CodeNever {
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return Cron(e, z, DST(r.IntN(2)), []int64{0, 0, 1, 123_456, 299_999}[r.IntN(5)])
	}
}

// A full range of hours is fixed-time by its text, a star is not.
func TestFullRangeRunsOnceInARepeatedHour(t *testing.T) {
	from, to := instant(t, "2026-11-01T04:30Z"), instant(t, "2026-11-01T07:30Z")
	if got := slots(cronIn(t, "0 0-23 * * *", "America/New_York", Vixie), from, to); len(got) != 2 {
		t.Errorf("0-23 fires %d times over the repeated hour, want 2", len(got))
	}
	if got := slots(cronIn(t, "0 * * * *", "America/New_York", Vixie), from, to); len(got) != 3 {
		t.Errorf("* fires %d times over the repeated hour, want 3", len(got))
	}
}
