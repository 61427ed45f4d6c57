package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// ends tells each caller when its run has ended.
type ends struct {
	sub  *worker.Subscription
	lost chan struct{} // closed when events were dropped

	mu    sync.Mutex               // guards what follows
	runs  map[string]chan struct{} // awaited, by public id; buffered by one
	early map[string]bool          // ended before anybody waited
}

func newEnds(w *worker.Worker) *ends {
	e := &ends{sub: w.Subscribe(1 << 16), lost: make(chan struct{}), runs: map[string]chan struct{}{}, early: map[string]bool{}}
	go e.listen() // ends with the subscription
	return e
}

func (e *ends) listen() {
	for ev := range e.sub.C {
		if ev.Kind == worker.EventFinished {
			e.ended(ev.RunID)
		}
		if e.sub.Lost() {
			close(e.lost)
			return
		}
	}
}

func (e *ends) ended(runID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.runs[runID]; ok {
		delete(e.runs, runID)
		c <- struct{}{}
		return
	}
	e.early[runID] = true
}

// wait returns when a run has ended. c is the caller's own, and empty.
func (e *ends) wait(ctx context.Context, runID string, c chan struct{}) error {
	e.mu.Lock()
	if e.early[runID] {
		delete(e.early, runID)
		e.mu.Unlock()
		return nil
	}
	e.runs[runID] = c
	e.mu.Unlock()
	select {
	case <-c:
		return nil
	case <-e.lost:
		return errors.New("the benchmark did not keep up with its events")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *ends) close() { e.sub.Close() }

// delays is a measured distribution.
type delays []time.Duration

// ms is a percentile in milliseconds, 0 of nothing. The last is the largest.
func (t delays) ms(percent int) float64 {
	if len(t) == 0 {
		return 0
	}
	if !slices.IsSorted(t) {
		slices.Sort(t)
	}
	at := t[min(len(t)-1, len(t)*percent/100)]
	return float64(at.Microseconds()) / 1000
}
