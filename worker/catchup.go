package worker

import (
	"sort"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// missedJob is a job whose deadline passed while rota was not running.
type missedJob struct {
	jobID  string
	missed schedule.Missed
}

// missedJobs finds, oldest deadline first, the jobs with missed slots. Jobs in
// except had a run interrupted and take no part. A deferral that an earlier
// start planned and that has not come yet stays as it is.
func (t *turn) missedJobs(except map[string]bool) []missedJob {
	var found []missedJob
	order := map[string]int64{}
	for j := range t.st.jobs.Values() {
		deadlineMs, ok := j.NextRunMs()
		if !ok || !j.Enabled || j.SetAside != "" || except[j.ID] {
			continue
		}
		if _, open := t.st.open.Get(j.ID); open {
			continue
		}
		if _, planned := j.nextPlan(); planned {
			continue // due or not, the plan stands
		}
		cursorMs, any := j.missedAfter(deadlineMs, t.now)
		if !any {
			continue
		}
		m := schedule.Due(j.timing, cursorMs, t.now, t.catchUpOf(j))
		if m.Slots == 0 {
			continue
		}
		order[j.ID] = deadlineMs
		found = append(found, missedJob{j.ID, m})
	}
	sort.SliceStable(found, func(a, b int) bool { return order[found[a].jobID] < order[found[b].jobID] })
	return found
}

// missedAfter is the instant after which the job's slots count as missed.
// Normally that is just before the persisted deadline. A file without rota's
// mark is read by its last run instead, and a cron job that never ran there
// never missed anything.
func (j *Job) missedAfter(deadlineMs, nowMs int64) (cursorMs int64, any bool) {
	if j.state.RotaConsumedMs.Set || j.def.Schedule.Kind != "cron" || !j.state.LastRunAtMs.Set {
		return deadlineMs - 1, deadlineMs <= nowMs
	}
	cursorMs = j.state.LastRunAtMs.N
	if a := j.state.ScheduleActivatedAtMs; a.Set {
		cursorMs = max(cursorMs, a.N-1)
	}
	if deadlineMs <= nowMs && j.state.LastOutcome() == "error" {
		cursorMs = min(cursorMs, deadlineMs-1)
	}
	return cursorMs, true
}

// catchUpOf is the policy for a job: its own, else the configuration's. A
// one-shot that was missed always runs, unless the job itself says skip.
func (t *turn) catchUpOf(j *Job) schedule.CatchUp {
	if j.def.CatchUp != nil {
		return *j.def.CatchUp
	}
	if t.cfg.SkipMissed && !j.timedOneShot() {
		return schedule.CatchUp{Policy: schedule.RunNone}
	}
	return schedule.CatchUp{Policy: schedule.RunOne}
}

// catchUp turns one job's missed slots into late runs and a decision. order is
// how many jobs of this start came before it: the first few may run at once,
// each further one waits a little more.
func (t *turn) catchUp(m missedJob, order int) error {
	j, ok := t.st.jobs.Get(m.jobID)
	if !ok {
		return nil
	}
	if m.missed.Skipped > 0 {
		err := t.decide(j.ID, slotRange{m.missed.SkippedFirstMs, m.missed.SkippedLastMs, m.missed.Skipped}, RuleMissed, nil)
		if err != nil {
			return err
		}
	}
	j, err := t.advance(j, m.missed.LastMs)
	if err != nil {
		return err
	}
	if len(m.missed.RunSlotsMs) == 0 {
		if j.timedOneShot() {
			return t.setEnabled(j, false)
		}
		return nil
	}
	runAtMs := t.now
	if late := order - t.cfg.CatchUpMaxImmediate + 1; late > 0 {
		runAtMs += int64(late) * t.cfg.CatchUpStaggerMs
	}
	return t.planRuns(j, m.missed.RunSlotsMs, runAtMs)
}

// planRuns makes missed slots the job's next runs, oldest first.
func (t *turn) planRuns(j *Job, slotsMs []int64, runAtMs int64) error {
	if natural := j.state.NextRunAtMs; natural.Set && natural.N < runAtMs {
		runAtMs = natural.N // a late run never waits over a slot of its own job
	}
	next := *j
	next.plan = append([]store.PlanRow(nil), j.plan...)
	for _, slotMs := range slotsMs {
		p := store.PlanRow{JobID: j.ID, SlotMs: slotMs, RunAtMs: runAtMs}
		if err := store.InsertPlan(t.tx, p); err != nil {
			return err
		}
		next.plan = append(next.plan, p)
	}
	t.wrote = true
	_, err := t.editState(&next, func(s *store.State) {
		s.NextRunAtMs, s.StartupCatchupAtMs = store.Some(runAtMs), store.Some(runAtMs)
	})
	return err
}

// forgetPlan ends the plan of a late run that is over, and makes the job's
// next planned slot, if there is one, its deadline.
func (t *turn) forgetPlan(r *Run) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok || len(j.plan) == 0 || j.plan[0].SlotMs != r.SlotMs {
		return nil
	}
	return t.dropPlan(j, r.SlotMs)
}

func (t *turn) dropPlan(j *Job, slotMs int64) error {
	if err := store.DeletePlan(t.tx, j.ID, slotMs); err != nil {
		return err
	}
	t.wrote = true
	next := *j
	next.plan = j.plan[1:]
	if len(next.plan) == 0 || !j.Enabled {
		t.putJob(&next)
		return nil
	}
	runAtMs := max(t.now, next.plan[0].RunAtMs, t.restsUntil(j)) // also after a failure
	_, err := t.editState(&next, func(s *store.State) {
		s.NextRunAtMs, s.StartupCatchupAtMs = store.Some(runAtMs), store.Some(runAtMs)
	})
	return err
}
