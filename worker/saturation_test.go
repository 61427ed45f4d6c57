package worker

import (
	"math"
	"testing"
)

// The gauge is told when the loop begins to work and to wait, and forgets what is
// older than its two windows.
func TestSaturation(t *testing.T) {
	var s saturation
	at := int64(1000)
	expect := func(what string, want float64) {
		t.Helper()
		if got := s.value(at); math.Abs(got-want) > 0.011 {
			t.Errorf("%s: %.3f, want %.3f", what, got, want)
		}
	}
	expect("before the first turn", 0)
	s.turnTo(true, at)
	at += 500
	expect("half a second of work", 1)
	s.turnTo(false, at)
	at += 500
	expect("and half a second of waiting", 0.5)
	for range 400 { // 40 s of 25 ms work in each 100
		s.turnTo(true, at)
		at += 25
		s.turnTo(false, at)
		at += 75
	}
	expect("a quarter, for longer than it remembers", 0.25)
	s.turnTo(true, at)
	at += 30_000
	expect("one long turn behind them", 0.8)
	s.turnTo(false, at)
	at += 60_000
	expect("a minute of sleep", 0)
	s.turnTo(true, at)
	at++
	s.turnTo(false, at)
	at += 59_999
	expect("a look a minute", 0)
}
