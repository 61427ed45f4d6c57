package worker

import (
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Late runs and their starts. A planned run keeps its natural slot for its id
// and its process; the plan says only when it may start. The job's oldest
// planned run is its deadline (nextPlan), except behind a timed run that is
// open: then the natural deadline stands, and the plan waits for that run's end.

// maxInstantMs is the largest date that rows can hold.
const maxInstantMs = 8_640_000_000_000_000

// pace gives late jobs their starts: the first few at once, each further one a
// little later than the one before, agent work after a delay of its own and
// beside the first few.
type pace struct {
	staggerMs int64
	agentMs   int64 // delay of agent work; 0 treats it as any other
	atOnce    int   // jobs that may still start at once
	offsetMs  int64 // of the next job that may not, from now
}

// paceOf is the configuration's pace, less what earlier plans use of it: a
// second crash must not start everything at once.
func (t *turn) paceOf(atStart bool) pace {
	p := pace{staggerMs: t.cfg.CatchUpStaggerMs, atOnce: t.cfg.CatchUpMaxImmediate, offsetMs: t.cfg.CatchUpStaggerMs}
	if atStart {
		p.agentMs = t.cfg.AgentDelayMs
	}
	for j := range t.eachJob() {
		if len(j.plan) > 0 {
			p.take(t.now, j.plan[0].RunAtMs, j.agentWork())
		}
	}
	return p
}

// take counts a run that is planned already.
func (p *pace) take(nowMs, runAtMs int64, agent bool) {
	switch waitMs := runAtMs - nowMs; {
	case agent && p.agentMs > 0:
		if waitMs >= p.agentMs {
			p.offsetMs = max(p.offsetMs, waitMs-p.agentMs+2*p.staggerMs)
		}
	case waitMs > 0:
		p.offsetMs = max(p.offsetMs, waitMs+p.staggerMs)
	default:
		p.atOnce--
	}
}

// next is when the next late job starts.
func (p *pace) next(nowMs int64, agent bool) int64 {
	startMs := nowMs + p.offsetMs
	switch {
	case agent && p.agentMs > 0:
		startMs += p.agentMs - p.staggerMs
	case p.atOnce > 0:
		p.atOnce--
		return nowMs
	}
	p.offsetMs += p.staggerMs
	return startMs
}

// agentWork reports whether the job's payload is a turn of an agent, which at a
// start waits for the rest to come up.
func (j *Job) agentWork() bool {
	switch j.def().PayloadKind {
	case "agentTurn", "heartbeat":
		return true
	case "systemEvent": // into the main session, and to be acted on now
		target, wake := rawjson.Get(j.Definition, "sessionTarget"), rawjson.Get(j.Definition, "wakeMode")
		return (target == nil || string(target) == `"main"`) && (wake == nil || string(wake) == `"now"`)
	}
	return false
}

// nextPlan is the planned late run that the deadline stands for.
func (j *Job) nextPlan() (store.PlanRow, bool) {
	if len(j.plan) == 0 || !j.says(factLate) {
		return store.PlanRow{}, false
	}
	return j.plan[0], true
}

// planGoesOn reports whether the job has planned slots beside the run's own.
func (j *Job) planGoesOn(r *Run) bool {
	return len(j.plan) > 1 || len(j.plan) == 1 && j.plan[0].SlotMs != r.SlotMs
}

// planRuns makes missed slots the job's next runs, oldest first. more says that
// it has planned runs already: these come behind them. A start beyond the
// largest date turns the job off: it would never come.
func (t *turn) planRuns(j *Job, slotsMs []int64, more bool) error {
	var runAtMs int64
	if more = more || len(j.plan) > 0; more {
		runAtMs = j.plan[len(j.plan)-1].RunAtMs
	} else {
		runAtMs = t.st.late.pace.next(t.now, j.agentWork())
	}
	if runAtMs > maxInstantMs {
		return t.giveUp(j, slotsMs)
	}
	if natural := j.next(); !more && natural.Set && natural.N < runAtMs {
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
	if open, ok := t.st.open.Get(j.ID); ok && open.timed() {
		t.putJob(&next)
		return nil
	}
	runAtMs = next.plan[0].RunAtMs
	if more { // it may be resting after a failed one
		runAtMs = max(runAtMs, t.restsUntil(j))
	}
	_, err := t.startAt(&next, runAtMs)
	return err
}

// startAt makes the start of the job's oldest planned run its deadline.
func (t *turn) startAt(j *Job, runAtMs int64) (*Job, error) {
	return t.editState(j, func(s *store.State) {
		s.NextRunAtMs, s.StartupCatchupAtMs = store.Some(runAtMs), store.Some(runAtMs)
	})
}

// giveUp turns a job off whose late run could never start.
func (t *turn) giveUp(j *Job, slotsMs []int64) error {
	r := slotRange{slotsMs[0], slotsMs[len(slotsMs)-1], int64(len(slotsMs))}
	if err := t.decideMissed(j.ID, r, missedDetail{Reason: "its late start lies beyond the largest date"}); err != nil {
		return err
	}
	return t.autoDisable(j, "schedule-errors", 1)
}

// forgetPlan ends the plan of a late run that is over, and makes the job's
// next planned slot, if there is one, its deadline. The end of any other timed
// run lets a plan that waited for it begin.
func (t *turn) forgetPlan(r *Run) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok || len(j.plan) == 0 {
		return nil
	}
	if j.plan[0].SlotMs == r.SlotMs {
		return t.dropPlan(j, r.SlotMs)
	}
	if _, stands := j.nextPlan(); stands || !r.timed() || !j.Enabled {
		return nil
	}
	_, err := t.startAt(j, max(t.now, j.plan[0].RunAtMs, t.restsUntil(j)))
	return err
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
	_, err := t.startAt(&next, max(t.now, next.plan[0].RunAtMs, t.restsUntil(j)))
	return err
}
