package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// batch is how many runs one insert asks for: each peer is quickest with many
// in one transaction.
const batch = 100

// settleTime is how long a side may take, after the last request, to finish
// what was asked for.
const settleTime = 2 * time.Minute

// complaints counts over the whole process, which measures one side once.
var complaints atomic.Int64

// queue is what a drain needs of an open peer, whose workers run.
type queue struct {
	insert     func(ctx context.Context, first, n int) error // in one transaction
	unfinished func(ctx context.Context) (int, error)        // runs whose end is not in the file
	finished   func(ctx context.Context) (int, error)        // rows of ended runs; nil where none are kept
	stop       func(ctx context.Context) error
}

// ends counts the runs that came to their end, each of them once.
type ends struct {
	seen     []atomic.Bool
	c        chan struct{}
	repeated atomic.Int64
}

func newEnds(runs int) *ends {
	return &ends{seen: make([]atomic.Bool, runs), c: make(chan struct{}, runs)}
}

// end notes the end of a run. Queues deliver at least once: one that comes
// again is counted apart.
func (e *ends) end(run int) {
	if run >= len(e.seen) || e.seen[run].Swap(true) {
		e.repeated.Add(1)
		return
	}
	e.c <- struct{}{}
}

type drainSize struct {
	runs, inFlight int
	limit          time.Duration
}

// measureDrain asks for runs, at most inFlight of them open, and stops the
// watch when the file holds the end of the last one.
func measureDrain(ctx context.Context, s side, file string, size drainSize) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, size.limit+settleTime)
	defer cancel()
	db, err := openFile(file)
	if err != nil {
		return figures{}, err
	}
	defer db.Close()
	if err := checkDurable(ctx, db); err != nil {
		return figures{}, err
	}
	ends := newEnds(size.runs)
	q, err := s.open(ctx, db, ends, size.runs)
	if err != nil {
		return figures{}, err
	}
	kept := 0
	if q.finished != nil {
		if kept, err = q.finished(ctx); err != nil {
			return figures{}, err
		}
	}
	bytes := fileBytes(file)
	before, begin := readUsage(), time.Now()
	asked, err := pump(ctx, q, ends, size)
	if err != nil {
		return figures{}, err
	}
	if err := settled(ctx, q); err != nil {
		return figures{}, err
	}
	took, after := time.Since(begin), readUsage()
	if err := q.stop(ctx); err != nil {
		return figures{}, err
	}
	if err := emptyLog(ctx, db); err != nil {
		return figures{}, err
	}
	bytes = fileBytes(file) - bytes
	if q.finished != nil {
		now, err := q.finished(ctx)
		if err == nil && now-kept != asked {
			err = fmt.Errorf("%d runs were asked for, and the file tells of %d", asked, now-kept)
		}
		if err != nil {
			return figures{}, err
		}
	}
	n := float64(asked)
	return figures{
		Runs: asked, InFlight: size.inFlight, Durability: "full",
		Seconds: took.Seconds(), RunsPerSecond: n / took.Seconds(),
		CPUUsPerRun:        float64((after.cpu - before.cpu).Microseconds()) / n,
		AllocsPerRun:       float64(after.mallocs-before.mallocs) / n,
		WrittenBytesPerRun: float64(after.written-before.written) / n,
		WriteCallsPerRun:   float64(after.writes-before.writes) / n,
		BytesPerRun:        float64(bytes) / n,
		Repeated:           int(ends.repeated.Load()),
	}, nil
}

// pump keeps the peer busy and returns how many runs it asked for. It inserts
// when there is room for a whole batch, so that no peer pays a commit a run
// where it need not.
func pump(ctx context.Context, q *queue, ends *ends, size drainSize) (asked int, err error) {
	begin, open := time.Now(), 0
	for asked < size.runs && time.Since(begin) < size.limit {
		n := min(batch, size.inFlight, size.runs-asked)
		for open+n > size.inFlight {
			select {
			case <-ends.c:
				open--
			case <-ctx.Done():
				return asked, stuck(asked, open)
			}
		}
		if err := q.insert(ctx, asked, n); err != nil {
			return asked, err
		}
		asked, open = asked+n, open+n
	}
	for open > 0 {
		select {
		case <-ends.c:
			open--
		case <-ctx.Done():
			return asked, stuck(asked, open)
		}
	}
	return asked, nil
}

func stuck(asked, open int) error {
	return fmt.Errorf("of %d runs that were asked for, %d came to no end", asked, open)
}

// settled waits until the file tells of every end: some peers report a run
// from its function, before they record it.
func settled(ctx context.Context, q *queue) error {
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		n, err := q.unfinished(ctx)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return fmt.Errorf("%d runs ended, and the file does not tell", n)
		}
	}
}

// makeFile makes a side's file in a process of its own, so that what it costs
// is in no figure.
func makeFile(ctx context.Context, s side, file string, finished int) error {
	db, err := openFile(file)
	if err != nil {
		return err
	}
	err = s.prefill(ctx, db, finished)
	if err == nil { // without the free pages that filling leaves, which would hide the growth
		if _, err = db.ExecContext(ctx, "VACUUM"); err == nil {
			err = emptyLog(ctx, db)
		}
	}
	return errors.Join(err, db.Close())
}

// count answers a query for one number.
func count(ctx context.Context, db *sql.DB, query string) (n int, err error) {
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// emptyLog moves the log into the file, so that the file's size is what is kept.
func emptyLog(ctx context.Context, db *sql.DB) error {
	_, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	return err
}

func fileBytes(file string) int64 {
	st, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return st.Size()
}
