package main

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// crons is what a burst needs of a cron library.
type crons struct {
	add     func(second, minute, hour int, run func()) error // daily at this second, in UTC
	start   func()
	dropped func() int // nil where the library does not tell
	stop    func()
}

// A burst is over when every job is accounted for, or when nothing more has
// started for quietTime.
const quietTime = 5 * time.Second

// measureBurst registers the jobs for one second soon, and notes how long after
// that second each function began.
func measureBurst(s side, jobs int) (figures, error) {
	lead := 700*time.Millisecond + time.Duration(jobs)*700*time.Microsecond
	for range 4 {
		f, inTime, err := burstOnce(s, jobs, lead)
		if err != nil || inTime {
			return f, err
		}
		lead *= 2
	}
	return figures{}, fmt.Errorf("%d jobs could not be registered within %v", jobs, lead/2)
}

// burstOnce is one attempt; inTime is false when the registration lasted into
// the second itself, which would then be what is measured.
func burstOnce(s side, jobs int, lead time.Duration) (f figures, inTime bool, err error) {
	c, err := s.crons(jobs)
	if err != nil {
		return figures{}, false, err
	}
	defer c.stop()
	due := time.Now().UTC().Add(lead + time.Second).Truncate(time.Second)
	b := &burstLog{due: due, late: make([]time.Duration, jobs), all: make(chan struct{})}
	for range jobs {
		if err := c.add(due.Second(), due.Minute(), due.Hour(), b.begin); err != nil {
			return figures{}, false, err
		}
	}
	c.start()
	if time.Until(due) < 300*time.Millisecond {
		return figures{}, false, nil
	}
	b.wait(c.dropped)
	started := int(b.noted.Load())
	if b.begun.Load() > int64(jobs) {
		return figures{}, false, errors.New("a job was started twice")
	}
	f = figures{Burst: jobs, Started: started, Lost: jobs - started}
	if started > 0 {
		late := b.late[:started]
		slices.Sort(late)
		f.LateP50Ms, f.LateP99Ms, f.LateMaxMs = ms(late[started/2]), ms(late[started*99/100]), ms(late[started-1])
	}
	return f, true, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// burstLog takes the beginnings of the jobs, from many goroutines.
type burstLog struct {
	due          time.Time
	late         []time.Duration
	begun, noted atomic.Int64
	all          chan struct{} // closed when each has been noted
}

func (b *burstLog) begin() {
	late := time.Since(b.due)
	at := b.begun.Add(1) - 1
	if at >= int64(len(b.late)) {
		return
	}
	b.late[at] = late
	if b.noted.Add(1) == int64(len(b.late)) {
		close(b.all)
	}
}

// wait returns when the burst is over.
func (b *burstLog) wait(dropped func() int) {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	last, since := int64(0), b.due
	for {
		select {
		case <-b.all:
			return
		case <-look.C:
		}
		noted := b.noted.Load()
		if dropped != nil {
			noted += int64(dropped())
		}
		if noted >= int64(len(b.late)) {
			return
		}
		if noted > last {
			last, since = noted, time.Now()
		} else if time.Since(since) > quietTime {
			return
		}
	}
}
