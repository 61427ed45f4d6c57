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
