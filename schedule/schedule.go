package schedule

import (
	"strings"
	"time"
)

// Instants lie within what the store's dates can hold: 100 million days either
// side of 1970.
const (
	maxInstantMs = 8_640_000_000_000_000
	minInstantMs = -maxInstantMs
)

func inRange(ms int64) bool { return ms >= minInstantMs && ms <= maxInstantMs }

// A DST is the rule for wall times that a change of offset removes or repeats.
type DST uint8

const (
	// Vixie never loses or doubles a named time and never silences a rhythm; see
	// the package comment. It is the zero value.
	Vixie DST = iota
	// Skip loses a removed time and runs every repeated one at its first pass.
	Skip
)

var dstNames = [...]string{Vixie: "vixie", Skip: "skip"}

func (d DST) String() string {
	if int(d) < len(dstNames) {
		return dstNames[d]
	}
	return "unknown"
}

// ParseDST reads "vixie" or "skip", in any case; empty is Vixie.
func ParseDST(s string) (DST, error) {
	word := strings.ToLower(strings.TrimSpace(s))
	if word == "" {
		return Vixie, nil
	}
	for d, name := range dstNames {
		if word == name {
			return DST(d), nil
		}
	}
	return Vixie, fault(CodeDST, "dst", s, "not a daylight-saving rule", "write vixie or skip")
}

type kind uint8

const (
	kindNever kind = iota // the zero value
	kindAt
	kindEvery
	kindCron
)

// A Schedule says when a job fires: once, on a grid, or by a cron expression in
// a zone. It is a small immutable value, safe to copy, compare and share. The
// zero value never fires.
type Schedule struct {
	kind kind
	dst  DST

	expression *Expression // cron only
	zone       *Zone       // cron only

	firstMs int64 // at: the instant; every: the anchor
	spanMs  int64 // every: the interval; cron: how much later than the wall time it fires
}

// Cron returns the schedule of an expression in a zone (nil is UTC), each slot
// staggerOffsetMs later than its wall time. A nil expression never fires, and a
// negative offset counts as 0.
func Cron(e *Expression, z *Zone, dst DST, staggerOffsetMs int64) Schedule {
	if e == nil || e.Never() {
		return Schedule{}
	}
	if z == nil {
		z = utc
	}
	return Schedule{kind: kindCron, dst: dst, expression: e, zone: z, spanMs: min(max(staggerOffsetMs, 0), maxInstantMs)}
}

// Every returns the grid anchorMs, anchorMs+everyMs, … It is strict: neither the
// end of a run nor its start moves it.
func Every(everyMs, anchorMs int64) (Schedule, error) {
	if everyMs < 1 || everyMs > maxInstantMs {
		return Schedule{}, fault(CodeRange, "every", formatInt(everyMs), "the interval must be between 1 ms and 8640000000000000 ms", "write e.g. 60000 for one minute")
	}
	if anchorMs < 0 || anchorMs > maxInstantMs {
		return Schedule{}, fault(CodeRange, "anchor", formatInt(anchorMs), "the anchor must be between 0 and 8640000000000000 ms", "leave it out to begin now")
	}
	return Schedule{kind: kindEvery, firstMs: anchorMs, spanMs: everyMs}, nil
}

// At returns the schedule that fires once, or never when the instant is out of
// range.
func At(atMs int64) Schedule {
	if !inRange(atMs) {
		return Schedule{}
	}
	return Schedule{kind: kindAt, firstMs: atMs}
}

// Next returns the least slot after afterMs. ok is false when there is none.
func (s Schedule) Next(afterMs int64) (slotMs int64, ok bool) {
	if !inRange(afterMs) {
		return 0, false
	}
	switch s.kind {
	case kindAt:
		return s.firstMs, s.firstMs > afterMs
	case kindEvery:
		return s.nextOnGrid(afterMs)
	case kindCron:
		return s.nextStaggered(afterMs)
	}
	return 0, false
}

// Prev returns the greatest slot before beforeMs. ok is false when there is none.
func (s Schedule) Prev(beforeMs int64) (slotMs int64, ok bool) {
	if !inRange(beforeMs) {
		return 0, false
	}
	switch s.kind {
	case kindAt:
		return s.firstMs, s.firstMs < beforeMs
	case kindEvery:
		return s.prevOnGrid(beforeMs)
	case kindCron:
		return s.prevStaggered(beforeMs)
	}
	return 0, false
}

// FormatInstant writes an instant as RFC 3339 in UTC with milliseconds. Years
// outside 0 to 9999 take a sign and six digits.
func FormatInstant(ms int64) string {
	day := floorDiv(ms, secondsPerDay*1000)
	rest := ms - day*secondsPerDay*1000
	year, month, dom := dateOf(day)
	b := make([]byte, 0, 28)
	switch {
	case year < 0:
		b = append(b, '-')
		b = appendPadded(b, -year, 6)
	case year > 9999:
		b = append(b, '+')
		b = appendPadded(b, year, 6)
	default:
		b = appendPadded(b, year, 4)
	}
	b = appendPadded(append(b, '-'), month, 2)
	b = appendPadded(append(b, '-'), dom, 2)
	b = append(b, 'T')
	b = appendPadded(b, int(rest/3_600_000), 2)
	b = appendPadded(append(b, ':'), int(rest/60_000%60), 2)
	b = appendPadded(append(b, ':'), int(rest/1000%60), 2)
	b = appendPadded(append(b, '.'), int(rest%1000), 3)
	return string(append(b, 'Z'))
}

func appendPadded(b []byte, n, width int) []byte {
	for scale := pow10(width - 1); scale > 0; scale /= 10 {
		b = append(b, byte('0'+n/scale%10))
	}
	return b
}

func pow10(n int) int {
	p := 1
	for range n {
		p *= 10
	}
	return p
}

// instantInZone writes an instant as the zone shows it, for descriptions.
func instantInZone(sec int64, z *Zone) string {
	return time.Unix(sec, 0).In(z.location).Format("2006-01-02T15:04:05")
}
