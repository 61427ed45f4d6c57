package worker

import (
	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// Deciding about slots, from the smallest piece up: turn.decide writes the row
// of one range, pass finds the range and decides it, consume also raises the
// mark and moves the deadline (advance), overlap does that for a slot that met
// an open run.

// openRun is the detail of a decision that another run explains.
type openRun struct {
	RunID string `json:"runId"`
}

// consume advances a job past a decided slot: the mark rises to it and over
// every later slot that has passed too, which are recorded under rule, and the
// deadline becomes the next slot.
func (t *turn) consume(j *Job, slotMs int64, rule Rule, detail any) (*Job, error) {
	j, err := t.passWait(j)
	if err != nil {
		return nil, err
	}
	markMs, err := t.pass(j, max(slotMs, j.consumed().N), t.now, rule, detail)
	if err != nil {
		return nil, err
	}
	return t.advance(j, markMs)
}

// advance raises the mark and sets the natural deadline behind it.
func (t *turn) advance(j *Job, markMs int64) (*Job, error) {
	return t.editState(j, func(s *store.State) {
		s.RotaConsumedMs = store.Some(max(markMs, s.RotaConsumedMs.N))
		s.StartupCatchupAtMs, s.PacedNextRunAtMs, s.ForcePreservedNextRunAtMs = store.Int{}, store.Int{}, store.Int{}
		s.NextRunAtMs = t.deadlineAfter(j, s.RotaConsumedMs.N)
	})
}

// pass records the natural slots in (afterMs, untilMs] as decided under one
// rule, as one row, and gives the last of them, or afterMs where there is none.
func (t *turn) pass(j *Job, afterMs, untilMs int64, rule Rule, detail any) (lastMs int64, err error) {
	passed := schedule.Due(j.timing, afterMs, untilMs, schedule.CatchUp{Policy: schedule.RunNone})
	if passed.Slots == 0 {
		return afterMs, nil
	}
	return passed.LastMs, t.decide(j.ID, slotRange{passed.FirstMs, passed.LastMs, passed.Slots}, rule, detail)
}

// deadlineAfter is the job's natural deadline once everything up to markMs is
// decided, and unset where there is none.
func (t *turn) deadlineAfter(j *Job, markMs int64) store.Int {
	return deadlineOf(j.nextBehind(store.Some(markMs), t.now))
}

// overlap records that a due slot found the job's timed run still open.
func (t *turn) overlap(r *Run) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return nil
	}
	j, err := t.passWait(j)
	if err != nil {
		return err
	}
	slotMs := j.next().N
	markMs, err := t.pass(j, slotMs-1, t.now, RuleOverlap, openRun{r.RunID})
	if err != nil {
		return err
	}
	_, err = t.advance(j, max(slotMs, markMs))
	return err
}
