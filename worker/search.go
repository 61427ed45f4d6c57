package worker

import (
	"errors"
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// Bounds of reading history. Between two turns there is at most one slice, which
// reads a bounded number of rows for all that wait; a search goes on from slice
// to slice, so that a slot that comes due waits for one slice and no more.
const (
	searchesWaiting = 256
	// sliceMs is what a slice should take. How many rows that is depends on
	// their size and on the disk, so the bound follows what the slice before
	// took: the clock is read around a slice, never within it.
	sliceMs        = 2
	sliceRowsFirst = 128
	sliceRowsMin   = 32
	sliceRowsMax   = 1024
	// shareMin is the least that one search gets of a slice.
	shareMin = 16
)

// searches are the reads of history under way, and the count of all history
// that each start makes.
type searches struct {
	waiting []*search // in turn: the first goes on next
	count   *store.HistoryCount
	rows    int // what the next slice may read
}

// search is one read of history. It sees the jobs as they were when it began.
type search struct {
	call  *call
	query RunsQuery
	jobs  tree[string, *Job]
	scan  *store.HistoryScan // nil before its first slice
	page  RunsPage
	err   error
}

// accept takes the reads of history out of a turn's commands: they need nothing
// of its transaction. It answers those that are too many.
func (s *searches) accept(calls []*call) (others []*call) {
	others = calls[:0]
	for _, c := range calls {
		q, ok := c.command.(RunsQuery)
		switch {
		case !ok:
			others = append(others, c)
		case len(s.waiting) >= searchesWaiting:
			c.reply <- answer{err: &job.Error{Code: job.CodeOverloaded, Op: "cron.runs", Message: "too many searches of the history are waiting", Hint: "try again in a moment"}}
		default:
			s.waiting = append(s.waiting, &search{call: c, query: q})
		}
	}
	return others
}

func (s *searches) calls() []*call {
	var all []*call
	for _, q := range s.waiting {
		all = append(all, q.call)
	}
	return all
}

// end answers all of them with an error.
func (s *searches) end(err error) {
	for _, c := range s.calls() {
		c.reply <- answer{err: err}
	}
	s.waiting = nil
}

// dropGivenUp forgets the searches whose callers have gone.
func (s *searches) dropGivenUp() {
	s.waiting = slices.DeleteFunc(s.waiting, func(q *search) bool {
		select {
		case <-q.call.givenUp:
			return true
		default:
			return false
		}
	})
}

// slice goes on with what reads history, in a transaction of its own that
// writes nothing. more says that there is something left to read now.
func (w *Worker) slice() (more bool, err error) {
	s := &w.searches
	if w.stopping.Load() {
		s.end(errStopping())
		return false, nil
	}
	s.dropGivenUp()
	beganMs := w.clock.MonoMs()
	if len(s.waiting) == 0 && w.st.totals.known || beganMs < w.trouble.untilMs && !w.trouble.full {
		return false, nil
	}
	var done []*search
	tx, err := w.store.Begin()
	if err == nil {
		done, err = w.read(tx, s.rows)
		err = errors.Join(err, tx.Rollback())
	}
	if err != nil { // as with a turn: those that wait are told, and there is a hold
		s.waiting = append(done, s.waiting...)
		b := batch{calls: s.calls()}
		s.waiting = nil
		return false, w.failed(&b, err, nil)
	}
	for _, q := range done {
		q.call.reply <- answer{q.page, q.err}
	}
	s.rows = rowsAfter(s.rows, w.clock.MonoMs()-beganMs)
	return len(s.waiting) > 0 || !w.st.totals.known, nil
}

// rowsAfter is what a slice may read after one that took so long.
func rowsAfter(rows int, tookMs int64) int {
	switch {
	case tookMs > sliceMs:
		rows /= 2
	case tookMs < sliceMs:
		rows += rows / 8
	}
	return min(max(rows, sliceRowsMin), sliceRowsMax)
}

// read spends budget rows on everything that reads, a share at a time, and gives
// the searches that are done. Its error ends the transaction.
func (w *Worker) read(tx *store.Tx, budget int) (done []*search, err error) {
	s := &w.searches
	share := max(shareMin, budget/(len(s.waiting)+1))
	if !w.st.totals.known {
		if err := w.countHistory(tx, share); err != nil {
			return nil, err
		}
		budget -= share
	}
	for budget > 0 && len(s.waiting) > 0 {
		q := s.waiting[0]
		spent, err := w.goOn(tx, q, min(share, budget))
		if err != nil && store.EndsTurn(err) {
			return done, err
		}
		s.waiting = s.waiting[1:]
		if err != nil {
			q.err = storageError(err)
		}
		if err != nil || q.scan.Done {
			done = append(done, q)
		} else {
			s.waiting = append(s.waiting, q)
		}
		budget -= max(1, spent)
	}
	return done, nil
}

// goOn does the next piece of one search.
func (w *Worker) goOn(tx *store.Tx, q *search, budget int) (spent int, err error) {
	if q.scan == nil {
		if err := w.begin(tx, q); err != nil {
			return 0, err
		}
	}
	if spent, err = q.scan.Slice(tx, budget); err != nil {
		return spent, err
	}
	for _, e := range q.scan.Page[len(q.page.Entries):] {
		q.page.Entries = append(q.page.Entries, wireEntry(e.JobID, e.EndedAtMs, e.Detail, q.nameOf(e.JobID)))
	}
	if !q.scan.Done {
		return spent, nil
	}
	q.page.Total, q.page.Known = q.scan.Total, true
	q.page.Offset = min(q.query.Offset, q.page.Total)
	if _, exists := q.jobs.Get(q.query.JobID); q.query.JobID != "" && q.page.Total == 0 && !exists {
		q.page.Known, err = store.HasHistory(tx, q.query.JobID)
	}
	return spent, err
}

// begin makes a query a scan of the rows that are there now.
func (w *Worker) begin(tx *store.Tx, q *search) (err error) {
	q.jobs = w.st.jobs
	f := store.HistoryFilter{JobID: q.query.JobID, RunID: q.query.RunID, AgentID: q.query.AgentID, Statuses: q.query.Statuses,
		DeliveryStatuses: q.query.DeliveryStatuses, Query: q.query.Query, Named: q.named()}
	total := -1
	if f.RunID == "" && f.AgentID == "" && len(f.Statuses) == 0 && len(f.DeliveryStatuses) == 0 && f.Query == "" {
		total = w.st.totals.of(f.JobID)
	}
	if f.JobID == "" && f.RunID != "" {
		f.JobID = jobOfRun(f.RunID) // its rows alone
	}
	q.scan, err = store.NewHistoryScan(tx, f, q.query.Ascending, q.query.Limit, q.query.Offset, total)
	return err
}

func (q *search) nameOf(jobID string) string {
	if j, ok := q.jobs.Get(jobID); ok {
		return j.Name
	}
	return ""
}

// named says of a job whether the text is in its name; each job is looked at
// once.
func (q *search) named() func(jobID string) bool {
	text, known := strings.ToLower(q.query.Query), map[string]bool{}
	return func(jobID string) bool {
		is, ok := known[jobID]
		if !ok {
			is = strings.Contains(strings.ToLower(q.nameOf(jobID)), text)
			known[jobID] = is
		}
		return is
	}
}

// countHistory goes on with the count of this start. Runs that end meanwhile are
// added by their turns, and retention waits for the end of it.
func (w *Worker) countHistory(tx *store.Tx, budget int) (err error) {
	s := &w.searches
	totals := w.st.totals
	if s.count == nil {
		if s.count, err = store.NewHistoryCount(tx); err != nil {
			return err
		}
		totals = newHistoryTotals() // what recovery recorded is among the rows
	}
	counted, err := s.count.Slice(tx, budget)
	if err != nil {
		s.count = nil // it begins anew: what this slice would have counted is not known
		return err
	}
	for jobID, rows := range counted {
		totals.add(jobID, rows)
	}
	if s.count.Done {
		totals.known, s.count = true, nil
	}
	w.st.totals = totals
	if totals.known {
		w.publishSnapshot()
	}
	return nil
}
