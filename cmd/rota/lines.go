package main

import (
	"os"
	"time"
)

// lines writes whole lines to a file in a goroutine of its own: a pipe that
// nobody empties may hold that one for ever, and must hold neither the events,
// nor the worker's log, nor the stop. Lines that come meanwhile are dropped; the
// ledger has the runs.
type lines struct {
	waiting chan []byte
	written chan struct{}
}

func newLines(out *os.File) *lines {
	l := &lines{waiting: make(chan []byte, 1024), written: make(chan struct{})}
	go func() {
		defer close(l.written)
		for line := range l.waiting {
			_, _ = out.Write(line) // a reader that has gone is no reason to stop
		}
	}()
	return l
}

// Write takes one line and never waits.
func (l *lines) Write(line []byte) (int, error) {
	select {
	case l.waiting <- append([]byte(nil), line...):
	default:
	}
	return len(line), nil
}

// close gives the last lines a moment to get out. Nobody writes any more.
func (l *lines) close() {
	close(l.waiting)
	moment := time.NewTimer(200 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-l.written:
	case <-moment.C:
	}
}
