package worker

import "time"

// Clock is where time enters the worker, once a turn. Its three functions are
// three different clocks and are never mixed: wall time decides slots,
// monotonic time measures waits, and Timer wakes the loop.
//
// The zero value is the real clock. Tests that need wall-clock steps replace
// the functions; tests that only need time to pass use testing/synctest.
type Clock struct {
	// WallMs is the wall clock, Unix milliseconds.
	WallMs func() int64
	// MonoMs is monotonic time in milliseconds since an arbitrary start.
	MonoMs func() int64
	// Timer fires once after d of monotonic time; stop releases it.
	Timer func(d time.Duration) (fired <-chan time.Time, stop func() bool)
}

// withDefaults fills what is nil with the real clock.
func (c Clock) withDefaults() Clock {
	if c.WallMs == nil {
		c.WallMs = func() int64 { return time.Now().UnixMilli() }
	}
	if c.MonoMs == nil {
		start := time.Now()
		c.MonoMs = func() int64 { return time.Since(start).Milliseconds() }
	}
	if c.Timer == nil {
		c.Timer = func(d time.Duration) (<-chan time.Time, func() bool) {
			t := time.NewTimer(d)
			return t.C, t.Stop
		}
	}
	return c
}

// instant is one reading of both clocks: a turn has one.
type instant struct{ wallMs, monoMs int64 }

func (w *Worker) now() instant { return instant{w.clock.WallMs(), w.clock.MonoMs()} }

const (
	// jumpMs is how far wall time may run ahead of monotonic time between two
	// turns and still be the same day's work. Beyond it the machine slept or the
	// clock was set, and what came due meanwhile was missed.
	jumpMs = 60_000
	// correctionMs is how far back wall time may go while deadlines hold. Beyond
	// it the time before was wrong.
	correctionMs = 3 * 3_600_000
)

// seenClock is what the worker remembers of its clocks from turn to turn. The
// zero value has seen nothing.
type seenClock struct {
	last instant
	// latestMs is the latest wall time since the start or the last correction:
	// marks and deadlines may lie up to it without anything being wrong. Steps
	// back add up against it.
	latestMs int64
}

// clockChange is what happened to wall time since the last turn that looked.
// The zero value says that it went on as usual.
type clockChange struct {
	fromMs, toMs int64
	aheadMs      int64 // by so much it ran ahead: a sleep, or a step forward
	behindMs     int64 // by so much it is behind the latest seen: a correction
}

// change compares a reading with what was seen. A step back of up to three
// hours is none: deadlines are absolute, and the mark keeps slots from coming
// twice.
func (s seenClock) change(now instant) clockChange {
	if s == (seenClock{}) {
		return clockChange{}
	}
	if behindMs := s.latestMs - now.wallMs; behindMs > correctionMs {
		return clockChange{fromMs: s.latestMs, toMs: now.wallMs, behindMs: behindMs}
	}
	if aheadMs := (now.wallMs - s.last.wallMs) - (now.monoMs - s.last.monoMs); aheadMs > jumpMs {
		return clockChange{fromMs: s.last.wallMs, toMs: now.wallMs, aheadMs: aheadMs}
	}
	return clockChange{}
}

// after is what is remembered once a turn has acted on a reading.
func (s seenClock) after(now instant, c clockChange) seenClock {
	if c.behindMs > 0 {
		return seenClock{now, now.wallMs}
	}
	return seenClock{now, max(s.latestMs, c.fromMs, now.wallMs)}
}
