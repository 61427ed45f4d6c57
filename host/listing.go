package host

import (
	"sync"
	"time"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// listing is what cron.list keeps for its next call: the order of the jobs at one
// snapshot, and how definitions look. A list of 200 of many jobs then costs what
// changed since the last one, and 200 states. The worker knows nothing of it.
//
// What is kept holds on to the jobs of its snapshot, so it is let go when nobody
// has asked for a while.
type listing struct {
	sheets job.Sheets

	mu     sync.Mutex       // guards what follows; never held while an answer is written
	at     *worker.Snapshot // what roll is of; nil = nothing is kept
	roll   job.Roll
	forget *time.Timer
}

// listingKept is how long after the last list.
const listingKept = 30 * time.Second

// page finds the jobs of a page, and the snapshot that they are of.
func (l *listing) page(w *worker.Worker, p job.ListParams) (job.Page, *worker.Snapshot) {
	if !p.ByRoll() {
		snap := w.Snapshot()
		return job.Select(briefs(snap), rowsOf(snap), p), snap
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.follow(w.Snapshot()) // read in here: no list goes back
	return l.roll.Select(p), l.at
}

// follow brings the roll to a snapshot.
func (l *listing) follow(snap *worker.Snapshot) {
	if l.forget == nil {
		l.forget = time.AfterFunc(listingKept, l.drop)
	}
	l.forget.Reset(listingKept)
	var moves []job.Moved
	if l.at == nil {
		moves = make([]job.Moved, 0, snap.Len())
		for b := range briefs(snap) {
			moves = append(moves, job.Moved{Is: &b})
		}
	} else {
		for was, is := range snap.Since(l.at) {
			moves = append(moves, job.Moved{Was: briefIn(was), Is: briefIn(is)})
		}
	}
	l.roll.Apply(moves)
	l.at = snap
}

// briefIn is the brief of a job, nil when it is not there or not listed.
func briefIn(j *worker.Job) *job.Brief {
	if j == nil {
		return nil
	}
	b, ok := briefOf(j)
	if !ok {
		return nil
	}
	return &b
}

// drop is for whoever reads nothing more for a while.
func (l *listing) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.roll = nil, job.Roll{}
	l.sheets.Forget()
}
