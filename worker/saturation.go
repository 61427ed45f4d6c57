package worker

import "sync"

// saturationWindowMs is the length of one of the two windows that the gauge
// looks back over: it forgets what is older than both.
const saturationWindowMs = 10_000

// saturation is the share of time that the loop works and waits for nobody: the
// one figure that says how far from its limit a single goroutine is. It waits for
// messages, for deadlines, and in a commit for the disk: a sync takes as long for
// one run as for hundreds, and what comes meanwhile shares the next one, so a loop
// that does little else can still take many times as much.
type saturation struct {
	mu      sync.Mutex // guards what follows
	started bool
	working bool
	sinceMs int64 // when the loop last began to work or to wait; monotonic
	windows [2]saturationWindow
}

type saturationWindow struct{ fromMs, busyMs int64 }

// turnTo notes that the loop begins to work, or to wait.
func (s *saturation) turnTo(working bool, monoMs int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		s.started = true
		s.windows = [2]saturationWindow{{fromMs: monoMs}, {fromMs: monoMs}}
	} else if s.working {
		s.windows[1].busyMs += monoMs - s.sinceMs
	}
	s.working, s.sinceMs = working, monoMs
	if monoMs-s.windows[1].fromMs >= saturationWindowMs {
		s.windows[0], s.windows[1] = s.windows[1], saturationWindow{fromMs: monoMs}
	}
}

// value is between 0 and 1, over ten to twenty seconds, or over the time since the
// loop last woke where that is longer.
func (s *saturation) value(monoMs int64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.windows
	if s.working {
		w[1].busyMs += monoMs - s.sinceMs
	} else if monoMs-w[1].fromMs >= 2*saturationWindowMs { // it has slept since: what came before is over
		w[0] = saturationWindow{fromMs: s.sinceMs}
		w[1] = w[0]
	}
	if monoMs <= w[0].fromMs {
		return 0
	}
	busyMs := w[0].busyMs + w[1].busyMs
	if w[0].fromMs == w[1].fromMs {
		busyMs = w[1].busyMs
	}
	return min(1, float64(busyMs)/float64(monoMs-w[0].fromMs))
}
