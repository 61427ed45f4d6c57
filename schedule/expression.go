package schedule

import "math/bits"

// An Expression is a parsed cron expression of 5, 6 (seconds first) or 7 (year
// last) fields, or an @alias. It knows nothing of zones: it matches wall times.
// Its zero value matches nothing; use [ParseExpression].
type Expression struct {
	text     string
	times    timeSet
	dates    dateSet
	fixed    bool
	warnings []string
}

// Text returns the expression as it was written, without surrounding space.
func (e *Expression) Text() string { return e.text }

// FixedTime reports whether the second, minute and hour fields name moments of
// the day (no "*", "?" or "/") rather than a rhythm. It decides what happens
// when clocks change; an alias is classified by its expansion.
func (e *Expression) FixedTime() bool { return e.fixed }

// Never reports whether no date of any year can match. [ParseExpression]
// refuses such an expression, so this is true only of the zero value.
func (e *Expression) Never() bool { return e.dates.empty() || e.times.empty() }

// Warnings returns what the author may not have meant, in field order.
func (e *Expression) Warnings() []string {
	return append([]string(nil), e.warnings...)
}

// A timeSet holds the seconds of a day that match, as three bit sets.
type timeSet struct {
	second, minute uint64
	hour           uint32
}

func (t *timeSet) empty() bool { return t.second == 0 || t.minute == 0 || t.hour == 0 }

// lowest and highest return the index of the outermost set bit.
func lowest(set uint64) int  { return bits.TrailingZeros64(set) }
func highest(set uint64) int { return 63 - bits.LeadingZeros64(set) }

// from keeps the bits at or above n, upTo those at or below. A shift by the
// width or more yields zero in Go, so n may be one past the end.
func from(set uint64, n int) uint64 { return set >> uint(n) << uint(n) }
func upTo(set uint64, n int) uint64 { return set & (1<<uint(n+1) - 1) }

func secondOfDay(hour, minute, second int) int { return hour*3600 + minute*60 + second }

func (t *timeSet) first() int {
	return secondOfDay(lowest(uint64(t.hour)), lowest(t.minute), lowest(t.second))
}

func (t *timeSet) last() int {
	return secondOfDay(highest(uint64(t.hour)), highest(t.minute), highest(t.second))
}

// next returns the least matching second of the day at or after sod.
func (t *timeSet) next(sod int) (int, bool) {
	hour, minute, second := sod/3600, sod/60%60, sod%60
	if t.hour&(1<<uint(hour)) != 0 {
		if t.minute&(1<<uint(minute)) != 0 {
			if s := from(t.second, second); s != 0 {
				return secondOfDay(hour, minute, lowest(s)), true
			}
		}
		if m := from(t.minute, minute+1); m != 0 {
			return secondOfDay(hour, lowest(m), lowest(t.second)), true
		}
	}
	if h := from(uint64(t.hour), hour+1); h != 0 {
		return secondOfDay(lowest(h), lowest(t.minute), lowest(t.second)), true
	}
	return 0, false
}

// prev returns the greatest matching second of the day at or before sod.
func (t *timeSet) prev(sod int) (int, bool) {
	hour, minute, second := sod/3600, sod/60%60, sod%60
	if t.hour&(1<<uint(hour)) != 0 {
		if t.minute&(1<<uint(minute)) != 0 {
			if s := upTo(t.second, second); s != 0 {
				return secondOfDay(hour, minute, highest(s)), true
			}
		}
		if m := upTo(t.minute, minute-1); m != 0 {
			return secondOfDay(hour, highest(m), highest(t.second)), true
		}
	}
	if h := upTo(uint64(t.hour), hour-1); h != 0 {
		return secondOfDay(highest(h), highest(t.minute), highest(t.second)), true
	}
	return 0, false
}

// nextWall returns the least matching wall time at or after wall.
func (e *Expression) nextWall(wall int64) (int64, bool) {
	day := floorDiv(wall, secondsPerDay)
	sod := int(wall - day*secondsPerDay)
	year, month, dom := dateOf(day)
	if year > maxYear {
		return 0, false
	}
	if year < minYear {
		year, month, dom, sod = minYear, 1, 1, 0
		day = dayOf(year, month, dom)
	}
	if e.dates.contains(year, month, dom) {
		if s, ok := e.times.next(sod); ok {
			return day*secondsPerDay + int64(s), true
		}
	}
	day, ok := e.dates.after(year, month, dom)
	if !ok {
		return 0, false
	}
	return day*secondsPerDay + int64(e.times.first()), true
}

// prevWall returns the greatest matching wall time at or before wall.
func (e *Expression) prevWall(wall int64) (int64, bool) {
	day := floorDiv(wall, secondsPerDay)
	sod := int(wall - day*secondsPerDay)
	year, month, dom := dateOf(day)
	if year < minYear {
		return 0, false
	}
	if year > maxYear {
		year, month, dom, sod = maxYear, 12, 31, secondsPerDay-1
		day = dayOf(year, month, dom)
	}
	if e.dates.contains(year, month, dom) {
		if s, ok := e.times.prev(sod); ok {
			return day*secondsPerDay + int64(s), true
		}
	}
	day, ok := e.dates.before(year, month, dom)
	if !ok {
		return 0, false
	}
	return day*secondsPerDay + int64(e.times.last()), true
}
