package worker

import (
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// reschedule gives a job whose scheduling inputs changed its new deadline. A
// deadline that had come and was not requested yet is recorded, not lost.
func (t *turn) reschedule(was, j *Job, change job.Change) (*Job, error) {
	passedMs := int64(0)
	if dueMs, ok := was.NextRunMs(); ok && was.Enabled && dueMs <= t.now && (change.Schedule || change.Disabled) {
		markMs, err := t.pass(was, max(dueMs-1, was.consumed().N), t.now, ruleOf(change), nil)
		if err != nil {
			return nil, err
		}
		passedMs = markMs
	}
	if change.Enabled && !was.Enabled {
		var err error
		if passedMs, err = t.passDisabled(was); err != nil {
			return nil, err
		}
	}
	if _, planned := was.nextPlan(); planned && was.Enabled && j.Enabled && !change.Schedule {
		return t.restamped(j, change) // what is planned stays planned
	}
	if err := t.abandonPlan(was, change); err != nil {
		return nil, err
	}
	if len(j.plan) > 0 {
		if err := store.DeletePlan(t.tx, j.ID, 0); err != nil {
			return nil, err
		}
		j.plan = nil
	}
	is := *j.state()
	is.ScheduleActivatedAtMs = store.Some(t.now)
	is.NextRunAtMs, is.StartupCatchupAtMs, is.PacedNextRunAtMs, is.ForcePreservedNextRunAtMs = store.Int{}, store.Int{}, store.Int{}, store.Int{}
	if change.Enabled {
		is.AutoDisabled, is.ConsecutiveErrors, is.ScheduleErrorCount = nil, store.Some(0), store.Some(0)
	}
	if passedMs > is.RotaConsumedMs.N { // decided just now
		is.RotaConsumedMs = store.Some(passedMs)
	}
	if j.Enabled {
		is.NextRunAtMs = t.deadlineAfterEdit(was, j, is.RotaConsumedMs, change)
	}
	return j.withState(is)
}

// passDisabled records the slots of the time a job was off, when it is turned on
// again: they were not missed, and are not caught up.
func (t *turn) passDisabled(was *Job) (markMs int64, err error) {
	if was.timedOneShot() || was.SetAside != "" {
		return 0, nil
	}
	afterMs := max(was.consumed().N, was.state().ScheduleActivatedAtMs.N, was.def().CreatedAtMs)
	var detail any
	if was.def().DisabledReason != "" {
		detail = map[string]string{"reason": was.def().DisabledReason}
	}
	markMs, err = t.pass(was, afterMs, t.now, RuleDisabled, detail)
	if markMs == afterMs {
		return 0, err
	}
	return markMs, err
}

// restamped notes an edit that leaves the deadline alone.
func (t *turn) restamped(j *Job, change job.Change) (*Job, error) {
	is := *j.state()
	is.ScheduleActivatedAtMs = store.Some(t.now)
	if change.Enabled {
		is.AutoDisabled, is.ConsecutiveErrors, is.ScheduleErrorCount = nil, store.Some(0), store.Some(0)
	}
	return j.withState(is)
}

// ruleOf is what takes a slot away that had come or was planned.
func ruleOf(change job.Change) Rule {
	if change.Disabled && !change.Schedule {
		return RuleDisabled
	}
	return RuleRescheduled
}

// abandonPlan records the planned slots that an edit takes away.
func (t *turn) abandonPlan(was *Job, change job.Change) error {
	rule := ruleOf(change)
	open, isOpen := t.st.open.Get(was.ID)
	for _, p := range was.plan {
		if isOpen && open.SlotMs == p.SlotMs {
			continue // its own run says what becomes of it
		}
		if err := t.decide(was.ID, slotRange{p.SlotMs, p.SlotMs, 1}, rule, nil); err != nil {
			return err
		}
	}
	return nil
}

// deadlineAfterEdit is the natural deadline of the new schedule behind a mark. Three cases are
// not the plain one: a one-shot that keeps its time keeps what it waits for, enabling a job that is enabled keeps a deadline that has
// come, and enabling a failed one-shot again opens its slot again.
func (t *turn) deadlineAfterEdit(was, j *Job, consumed store.Int, change job.Change) store.Int {
	if dueMs, ok := was.NextRunMs(); ok && was.Enabled && !change.Schedule && dueMs <= t.now {
		return store.Some(dueMs)
	}
	if j.timedOneShot() && was.Enabled && !change.Schedule {
		return was.next() // its time is absolute: nothing else moves it, or the attempt it waits for
	}
	if next := deadlineOf(j.nextBehind(consumed, t.now)); next.Set {
		return next
	}
	atMs, ok := j.timing.Next(minInstantMs)
	if j.timedOneShot() && ok && (change.Schedule || change.Enabled && !was.Enabled && j.state().LastOutcome() != "ok") {
		return store.Some(atMs)
	}
	return store.Int{}
}
