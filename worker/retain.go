package worker

import "github.com/rota-scheduler/rota/store"

// Retention looks once a minute, and goes on turn by turn until nothing is past
// its bound. What it removes is counted in runs' worth: the rows that one run
// leaves behind, which are a receipt, a row of history and three events.
//
// A piece of it is small, so that a slot that comes due meanwhile waits for one
// piece and no more. Turns that have other work remove less, and busy ones
// nothing: their work comes first. That has an end, or a loop that is never
// quiet would fill the disk. A look that is older than retainPatienceMs removes
// in each turn half as much again as the turn adds, so rows exceed their bounds
// by what the time between two looks and the patience add, whatever the load.
const (
	retainEveryMs    = 60_000
	retainPauseMs    = 5 // between two pieces: other work, and a piece of the log
	retainPatienceMs = 10_000

	// pieceRuns is what a turn without other work removes, in runs' worth.
	pieceRuns = 8
	// eventsOfRun is how many events a run's worth is, and one for what is told
	// beside runs.
	eventsOfRun = 4
)

// retention is how far a look has come.
type retention struct {
	underWay    bool
	sinceMonoMs int64  // when the look under way began
	jobsFrom    string // the job trimmed last; behind the last comes the first
	// version is the configuration that the look follows, and everyJob says that
	// it has been round all jobs by it: those that do not run any more are looked
	// at after a start and after each change.
	version     int64
	everyJob    bool
	orphansFrom int64 // where to look on for receipts of removed jobs
}

// retain is the last duty: events, decisions, request keys and history rows
// past their time go, oldest first, and jobs that ran keep their newest rows.
// It never takes a row that an open run needs: those are receipts and markers,
// which end with their runs. more says that it is not done.
func (t *turn) retain() (more bool, err error) {
	look := &t.st.retention
	if !look.underWay {
		look.underWay, look.sinceMonoMs = true, t.monoMs
	}
	if look.version != t.cfg.Version {
		look.version, look.everyJob, look.jobsFrom = t.cfg.Version, false, ""
	}
	runs := t.piece()
	if runs == 0 {
		return true, nil
	}
	expires, err := t.expire(runs)
	if err != nil {
		return false, err
	}
	if err := t.trimJobs(runs); err != nil {
		return false, err
	}
	more = expires || t.st.grown.Len() > 0 || !look.everyJob
	look.underWay = more
	return more, nil
}

// piece is how many runs' worth this turn removes. Its events say how much else
// it does: each step of a run is one.
func (t *turn) piece() int {
	runs := max(0, pieceRuns-len(t.events)/3)
	if t.monoMs-t.st.retention.sinceMonoMs >= retainPatienceMs {
		runs = max(runs, len(t.events)/2)
	}
	return runs
}

// expire removes what is past its time, and the receipts of jobs that are gone.
func (t *turn) expire(runs int) (more bool, err error) {
	oldestMs := t.now - int64(t.cfg.DecisionDays)*dayMs
	removed, more, err := store.Expire(t.tx, store.Expiry{
		BeforeMs: oldestMs, KeepEvents: int64(t.cfg.Events), LastSeq: t.st.seq, Limit: eventsOfRun * runs,
	})
	if err != nil {
		return false, err
	}
	expired, by, err := store.ExpireHistory(t.tx, t.now, runs)
	if err != nil {
		return false, err
	}
	t.countRemoved(by)
	next, orphans, err := store.ExpireOrphans(t.tx, t.st.retention.orphansFrom, oldestMs, eventsOfRun*runs)
	if err != nil {
		return false, err
	}
	t.st.retention.orphansFrom = next
	t.trimmed = t.trimmed || removed+expired+orphans > 0
	t.wrote = t.wrote || t.trimmed
	return more || expired == int64(runs), nil
}

// trimJobs leaves jobs their newest receipts and history rows.
func (t *turn) trimJobs(runs int) error {
	receiptsLeft, rowsLeft := runs, runs
	for range runs {
		id, ok := t.nextToTrim()
		if !ok {
			return nil
		}
		keep := t.id.receiptsKept
		if _, open := t.st.open.Get(id); open {
			keep++
		}
		receipts, err := store.TrimReceipts(t.tx, id, t.now, keep, receiptsLeft)
		if err != nil {
			return err
		}
		over, rows := max(0, t.rowsOf(id)-t.cfg.HistoryRowsPerJob), int64(0)
		if over > 0 {
			var by store.HistoryTotals
			if rows, by, err = store.TrimHistory(t.tx, id, min(over, rowsLeft)); err != nil {
				return err
			}
			t.countRemoved(by)
		}
		t.trimmed = t.trimmed || receipts+rows > 0
		t.wrote = t.wrote || t.trimmed
		if int(receipts) >= receiptsLeft || over > rowsLeft { // the next piece goes on with it
			return nil
		}
		receiptsLeft, rowsLeft = receiptsLeft-int(receipts), rowsLeft-int(rows)
		t.st.grown, t.st.retention.jobsFrom = t.st.grown.Delete(t.edit, id), id
	}
	return nil
}

// nextToTrim goes round the jobs that ran, so that those that run all the time
// do not keep it from the others; and once round all of them.
func (t *turn) nextToTrim() (id string, ok bool) {
	look := &t.st.retention
	behind := look.jobsFrom + "\x00"
	if !look.everyJob {
		for id := range t.st.jobs.From(behind) {
			return id, true
		}
		look.everyJob, behind = true, ""
	}
	for id := range t.st.grown.From(behind) {
		return id, true
	}
	id, _, ok = t.st.grown.Min()
	return id, ok
}
