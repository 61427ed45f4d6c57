package worker

import (
	"sort"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// What becomes of slots that passed while nobody looked: at a start, when
// schedules are turned on again, and when wall time jumped. beginCatchUp lists
// the jobs, catchUpLate decides about them a bounded number a turn, and plan.go
// gives late runs their starts. Until a job on the list is decided about,
// nothing is requested as plain due; a crash in the middle leaves deadlines that
// have passed, which the next start finds.

// backlog are the jobs that wait for a decision about missed slots, oldest
// deadline first, and the pace of their late runs. It is immutable, like all of
// state.
type backlog struct {
	ids  []string
	pace pace
}

// beginCatchUp lists the jobs with missed slots. Jobs in except had a run
// interrupted and take no part. Agent work waits longer atStart.
func (t *turn) beginCatchUp(atStart bool, except map[string]bool) {
	late := backlog{pace: t.paceOf(atStart)}
	order := map[string]int64{}
	for j := range t.eachJob() {
		if !j.Enabled || j.SetAside != "" || except[j.ID] {
			continue
		}
		if fromMs, any := j.missedFrom(t.now); any {
			order[j.ID] = fromMs
			late.ids = append(late.ids, j.ID)
		}
	}
	sort.SliceStable(late.ids, func(a, b int) bool { return order[late.ids[a]] < order[late.ids[b]] })
	t.st.late = late
}

// missedFrom says from when on a job has something that passed, and whether
// there is anything. It is the cheap question before missedAfter's.
func (j *Job) missedFrom(nowMs int64) (fromMs int64, any bool) {
	deadlineMs, has := j.NextRunMs()
	if !has {
		return 0, false
	}
	if mark := j.consumed(); j.timedOneShot() && mark.Set && mark.N >= deadlineMs {
		return 0, false // deliberately opened again, or another attempt: due, and not missed
	}
	if j.foreignDeferral() && deadlineMs > nowMs {
		return 0, false // another program has planned its late run, and that stands
	}
	afterMs := j.missedAfter(deadlineMs)
	if _, planned := j.nextPlan(); !planned && deadlineMs <= nowMs {
		return deadlineMs, true // a slot, or what another program left there
	}
	slotMs, ok := j.timing.Next(afterMs)
	return min(slotMs, deadlineMs), ok && slotMs <= nowMs
}

// foreignDeferral reports whether the deadline is a late start that another
// program planned: it has the mark and no row of ours.
func (j *Job) foreignDeferral() bool {
	return j.says(factLate) && len(j.plan) == 0
}

// missedAfter is the instant after which the job's slots count as missed.
// Normally that is just before the persisted deadline, or the mark where a
// planned start stands for it. A file without rota's mark is read by its last
// run instead, and a cron job that never ran there never missed anything.
func (j *Job) missedAfter(deadlineMs int64) (cursorMs int64) {
	if _, planned := j.nextPlan(); planned {
		return j.consumed().N
	}
	if mark := j.consumed(); mark.Set && !j.timedOneShot() {
		return max(deadlineMs-1, mark.N) // an attempt may lie before the mark, where the clock was set back
	}
	s := j.state()
	if j.consumed().Set || !s.LastRunAtMs.Set {
		return deadlineMs - 1
	}
	cursorMs = s.LastRunAtMs.N
	if j.def().Schedule.Kind != "cron" {
		if s.LastOutcome() == "error" {
			return deadlineMs - 1
		}
		return max(deadlineMs-1, cursorMs)
	}
	if a := s.ScheduleActivatedAtMs; a.Set {
		cursorMs = max(cursorMs, a.N-1)
	}
	if s.LastOutcome() == "error" { // the deadline may be the retry of a slot before that run
		cursorMs = min(cursorMs, deadlineMs-1)
	}
	return cursorMs
}

// catchUpLate decides about listed jobs until the turn's bound is reached; what
// is left starts the next turn.
func (t *turn) catchUpLate() error {
	for range perTurn {
		if len(t.st.late.ids) == 0 {
			return nil
		}
		id := t.st.late.ids[0]
		t.st.late.ids = t.st.late.ids[1:]
		_, refusal, fatal := t.apply(func(t *turn) (any, error) { return nil, t.catchUp(id) })
		if fatal != nil {
			return fatal
		}
		if refusal == nil {
			continue
		}
		if err := t.setAside(&Run{JobID: id}, "catch-up", refusal); err != nil {
			return err
		}
	}
	return nil
}

// catchUpOf is the policy for a job: its own, else the configuration's. A
// one-shot that was missed always runs, unless the job itself says skip.
func (t *turn) catchUpOf(j *Job) schedule.CatchUp {
	if own := j.def().CatchUp; own != nil {
		return *own
	}
	if t.cfg.SkipMissed && !j.timedOneShot() {
		return schedule.CatchUp{Policy: schedule.RunNone}
	}
	return schedule.CatchUp{Policy: schedule.RunOne}
}

// catchUp turns one job's missed slots into late runs and decisions.
func (t *turn) catchUp(id string) error {
	j, ok := t.st.jobs.Get(id)
	if !ok || !j.Enabled || j.SetAside != "" {
		return nil
	}
	if _, any := j.missedFrom(t.now); !any {
		return nil // a message of this turn moved it
	}
	policy := t.catchUpOf(j)
	if open, ok := t.st.open.Get(id); ok && open.timed() && (policy.Policy != schedule.RunAll || j.timedOneShot()) {
		return nil // they overlap that run, and are recorded as that
	}
	deadlineMs, _ := j.NextRunMs()
	afterMs := j.missedAfter(deadlineMs)
	if restMs := t.restsUntil(j); restMs > t.now && !j.timedOneShot() && !j.consumed().Set {
		return t.waitBackoff(j, afterMs, restMs)
	}
	_, planned := j.nextPlan()
	m := schedule.Due(j.timing, afterMs, t.now, leaving(policy, len(j.plan)))
	switch {
	case m.Slots == 0 && planned:
		return nil
	case m.Slots == 0:
		return t.catchUpOffSlot(j, deadlineMs, policy)
	}
	return t.planMissed(j, m, planned)
}

// leaving is a policy for slots missed behind late runs that are planned
// already: those stand, and count.
func leaving(c schedule.CatchUp, planned int) schedule.CatchUp {
	if planned == 0 {
		return c
	}
	if c.Limit <= 0 {
		c.Limit = schedule.DefaultCatchUpLimit
	}
	if c.Limit = min(c.Limit, schedule.MaxCatchUpLimit) - planned; c.Policy != schedule.RunAll || c.Limit <= 0 {
		c.Policy = schedule.RunNone
	}
	return c
}

// missedDetail is the detail of a decision about missed slots.
type missedDetail struct {
	// AtLeast says that there were more slots than are worth counting.
	AtLeast bool `json:"atLeast,omitempty"`
	// PlannedSlotMs is the late run that stands for them.
	PlannedSlotMs int64 `json:"plannedSlotMs,omitempty"`
	// Reason is what kept a slot from running late, beside the policy.
	Reason string `json:"reason,omitempty"`
}

// planMissed records the slots that do not run and plans those that do. A plan
// that stands keeps its start: the natural deadline moves behind it.
func (t *turn) planMissed(j *Job, m schedule.Missed, planned bool) error {
	if m.Skipped > 0 {
		detail := missedDetail{AtLeast: !m.Exact}
		if planned {
			detail.PlannedSlotMs = j.plan[0].SlotMs
		}
		if err := t.decideMissed(j.ID, slotRange{m.SkippedFirstMs, m.SkippedLastMs, m.Skipped}, detail); err != nil {
			return err
		}
	}
	startMs := j.next().N
	var err error
	if !planned { // what is missed behind a plan begins at the mark already
		if j, err = t.passWait(j); err != nil {
			return err
		}
	}
	j, err = t.advance(j, m.LastMs)
	switch {
	case err != nil:
		return err
	case len(m.RunSlotsMs) > 0:
		return t.planRuns(j, m.RunSlotsMs, planned)
	case planned:
		_, err = t.startAt(j, startMs)
	case j.timedOneShot():
		err = t.turnOff(j)
	}
	return err
}

// decideMissed records missed slots. A detail that says nothing is none, so
// that ranges join.
func (t *turn) decideMissed(jobID string, r slotRange, d missedDetail) error {
	if d == (missedDetail{}) {
		return t.decide(jobID, r, RuleMissed, nil)
	}
	return t.decide(jobID, r, RuleMissed, d)
}

// catchUpOffSlot is for a deadline that has passed and is none of the
// schedule's slots. One that rota set is an attempt of its own and stays due.
// Another program's is a missed slot like any, unless its run is over.
func (t *turn) catchUpOffSlot(j *Job, deadlineMs int64, policy schedule.CatchUp) error {
	if j.consumed().Set {
		return nil
	}
	if last := j.state().LastRunAtMs; last.Set && last.N >= deadlineMs && j.state().LastOutcome() != "error" {
		_, err := t.advance(j, deadlineMs)
		return err
	}
	m := schedule.Due(schedule.At(deadlineMs), deadlineMs-1, t.now, policy)
	return t.planMissed(j, m, false)
}

// waitBackoff keeps a job back that another program left failed: its next
// deadline is another attempt, when the wait is over.
func (t *turn) waitBackoff(j *Job, afterMs, untilMs int64) error {
	j, err := t.editState(j, func(s *store.State) {
		s.RotaConsumedMs = store.Some(max(afterMs, s.RotaConsumedMs.N))
	})
	if err != nil {
		return err
	}
	return t.retryAt(j, &Run{JobID: j.ID, Attempt: max(1, int(j.state().ConsecutiveErrors.N))}, untilMs)
}
