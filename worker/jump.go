package worker

import (
	"encoding/json"
	"strconv"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Wall time that did not go on as usual. Ahead: the slots that passed were
// missed, and are caught up as at a start. Far behind: what was decided about a
// time that has not come is taken back, and slots between now and the old mark
// run when they come; the id of one that ran already is in the ledger, and
// request passes over it. Runs go on either way: their deadlines are monotonic.

// followClock acts on a change of wall time before anything else of the turn.
func (t *turn) followClock(c clockChange) error {
	t.followed = true
	if c.behindMs > 0 || c.aheadMs > 0 {
		if err := t.disarmAll(); err != nil {
			return err
		}
	}
	switch {
	case c.behindMs > 0:
		return t.correctClock(c)
	case c.aheadMs > 0:
		return t.wakeUp(c)
	}
	return nil
}

// wakeUp begins the catch-up after a sleep or a step forward.
func (t *turn) wakeUp(c clockChange) error {
	if t.cfg.Enabled {
		t.beginCatchUp(false, nil)
	}
	detail, err := json.Marshal(map[string]int64{"fromMs": c.fromMs, "toMs": c.toMs, "driftMs": c.aheadMs, "missedJobs": int64(len(t.st.late.ids))})
	if err != nil {
		return err
	}
	return t.emit(Event{Kind: EventClockJump, Detail: detail})
}

// lastWrittenMs is the wall time of the newest commit in the file, 0 when it
// keeps none.
func (t *turn) lastWrittenMs() (int64, error) {
	rows, err := store.EventsAfter(t.tx, t.st.seq-1, 1)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return rows[0].AtMs, nil
}

// changeSinceStop finds a correction that happened while rota was not running.
// The file's newest commit tells; where it keeps none, a mark that is further
// ahead than any deferral does.
func (t *turn) changeSinceStop() (clockChange, error) {
	wasMs, err := t.lastWrittenMs()
	if err != nil {
		return clockChange{}, err
	}
	farMs := t.now + correctionMs
	for _, delayMs := range t.cfg.ErrorBackoffMs {
		farMs = max(farMs, t.now+correctionMs+delayMs)
	}
	for j := range t.eachJob() {
		if m := j.consumed().N; m > farMs && !j.timedOneShot() {
			wasMs = max(wasMs, m)
		}
	}
	if wasMs-t.now <= correctionMs {
		return clockChange{fromMs: wasMs, toMs: t.now}, nil // steps back add up over a start, too
	}
	return clockChange{fromMs: wasMs, toMs: t.now, behindMs: wasMs - t.now}, nil
}

// correctClock recomputes from now what a wrong clock decided ahead. It walks
// all jobs in one turn: a job that kept its old mark would wait for years.
func (t *turn) correctClock(c clockChange) error {
	t.st.late = backlog{}
	moved := 0
	for j := range t.eachJob() {
		did, err := t.rebase(j, c)
		if err != nil {
			return err
		}
		if did {
			moved++
		}
	}
	if _, err := store.RebaseTimes(t.tx, t.now); err != nil {
		return err
	}
	detail, err := json.Marshal(map[string]int64{"fromMs": c.fromMs, "toMs": c.toMs, "driftMs": -c.behindMs, "jobs": int64(moved)})
	if err != nil {
		return err
	}
	return t.emit(Event{Kind: EventClockBack, Detail: detail})
}

// rebase brings one job's mark, activation, plan and natural deadline back to
// now. A one-shot keeps its time.
func (t *turn) rebase(j *Job, c clockChange) (moved bool, err error) {
	if !j.decoded {
		return false, nil
	}
	if j, err = t.rebaseAnchor(j, c); err != nil {
		return false, err
	}
	if err := t.rebaseDecisions(j); err != nil {
		return false, err
	}
	kept, err := t.rebasePlan(j)
	if err != nil {
		return false, err
	}
	droppedAll := len(j.plan) > 0 && len(kept) == 0
	next := *j
	next.plan = kept
	is := *j.state()
	if is.ScheduleActivatedAtMs.N > t.now {
		is.ScheduleActivatedAtMs = store.Some(t.now)
	}
	if is.RotaConsumedMs.N > t.now && (!j.timedOneShot() || droppedAll) {
		is.RotaConsumedMs = store.Int{}
		if slotMs, ok := j.timing.Prev(t.now + 1); ok && !j.timedOneShot() {
			is.RotaConsumedMs = store.Some(slotMs)
		}
	}
	is.NextRunAtMs, is.StartupCatchupAtMs = t.rebasedDeadline(&next, is, c)
	if is.NextRunAtMs != j.next() {
		is.PacedNextRunAtMs, is.ForcePreservedNextRunAtMs = store.Int{}, store.Int{}
	}
	if is.NextRunAtMs == j.next() && is.RotaConsumedMs == j.consumed() &&
		is.ScheduleActivatedAtMs == j.state().ScheduleActivatedAtMs && len(kept) == len(j.plan) {
		return false, nil
	}
	_, err = t.editState(&next, func(s *store.State) { *s = is })
	return true, err
}

// rebaseDecisions takes back what was decided about slots that are yet to come.
// A range that reaches over now ends with its last slot before it.
func (t *turn) rebaseDecisions(j *Job) error {
	dropped, err := store.DropSlotsAfter(t.tx, j.ID, t.now)
	if err != nil {
		return err
	}
	rows, err := store.SlotsAt(t.tx, j.ID, t.now+1)
	if err != nil {
		return err
	}
	for _, r := range rows {
		m := schedule.Due(j.timing, r.FromMs-1, t.now, schedule.CatchUp{Policy: schedule.RunNone})
		if err := store.CutSlots(t.tx, r.Seq, max(r.FromMs, m.LastMs), max(1, m.Slots)); err != nil {
			return err
		}
	}
	t.wrote = t.wrote || dropped > 0 || len(rows) > 0
	return nil
}

// rebasedDeadline is the deadline of a job whose plan and mark are rebased, and
// the mark of a late start. A deadline that has come stays.
func (t *turn) rebasedDeadline(j *Job, is store.State, c clockChange) (deadline, catchUp store.Int) {
	deadline, catchUp = is.NextRunAtMs, is.StartupCatchupAtMs
	planned := catchUp.Set && catchUp == deadline
	switch {
	case !j.Enabled || j.SetAside != "" || deadline.Set && deadline.N <= t.now:
		return deadline, catchUp
	case planned && len(j.plan) > 0:
		return store.Some(t.now), store.Some(t.now)
	case j.timedOneShot() && deadline.Set && !planned:
		if !j.slotAt(deadline.N) { // another attempt: what is left of its wait
			deadline = store.Some(t.now + max(0, deadline.N-c.fromMs))
		}
		return deadline, catchUp
	case j.timedOneShot() && !deadline.Set:
		return deadline, catchUp // its run is open
	}
	return deadlineOf(j.nextBehind(is.RotaConsumedMs, t.now)), store.Int{}
}

// slotAt reports whether an instant is one of the job's natural slots.
func (j *Job) slotAt(ms int64) bool {
	slotMs, ok := j.timing.Next(ms - 1)
	return ok && slotMs == ms
}

// rebasePlan keeps the late runs whose slots have passed by the corrected clock
// and lets them start; slots that are yet to come are not late any more.
func (t *turn) rebasePlan(j *Job) ([]store.PlanRow, error) {
	open, isOpen := t.st.open.Get(j.ID)
	var kept []store.PlanRow
	for _, p := range j.plan {
		if p.SlotMs > t.now && !(isOpen && open.SlotMs == p.SlotMs) {
			if err := store.DeletePlan(t.tx, j.ID, p.SlotMs); err != nil {
				return nil, err
			}
			if err := t.decide(j.ID, slotRange{p.SlotMs, p.SlotMs, 1}, RuleClock, nil); err != nil {
				return nil, err
			}
			continue
		}
		if p.RunAtMs > t.now {
			p.RunAtMs = t.now
			if err := store.InsertPlan(t.tx, p); err != nil {
				return nil, err
			}
			t.wrote = true
		}
		kept = append(kept, p)
	}
	return kept, nil
}

// rebaseAnchor moves the grid of an interval that began in the false time back
// by whole intervals, so that it is the same grid and has begun. An anchor that
// was ahead even then stays: somebody chose it.
func (t *turn) rebaseAnchor(j *Job, c clockChange) (*Job, error) {
	s := j.def().Schedule
	if s.Kind != "every" || j.SetAside != "" || !s.HasAnchor || s.AnchorMs <= t.now || s.AnchorMs > c.fromMs {
		return j, nil
	}
	intervals := (s.AnchorMs - t.now + s.EveryMs - 1) / s.EveryMs
	anchorMs := s.AnchorMs - intervals*s.EveryMs
	if anchorMs < 0 {
		return j, nil
	}
	anchored, err := rawjson.Set(rawjson.Get(j.Definition, "schedule"), rawjson.Member{Key: "anchorMs", Value: strconv.AppendInt(nil, anchorMs, 10)})
	if err != nil {
		return nil, err
	}
	definition, err := rawjson.Set(j.Definition, rawjson.Member{Key: "schedule", Value: anchored})
	if err != nil {
		return nil, err
	}
	row := j.row()
	row.Definition, row.UpdatedAtMs = definition, t.now
	next := newJob(row, t.cfg.DST, t.cfg.Zone)
	if next.SetAside != "" {
		return j, nil
	}
	next.plan, next.retry = j.plan, j.retry
	if err := store.UpdateDefinition(t.tx, next.row()); err != nil {
		return nil, err
	}
	t.putJob(next)
	return next, t.emit(Event{Kind: EventJobUpdated, JobID: j.ID})
}
