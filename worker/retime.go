package worker

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// Deadlines after a change that is not the operator's edit of the job: another
// zone or daylight-saving rule in the configuration, other zone data in the
// program, a deadline that another program left off its schedule. Only natural
// deadlines ahead move. What has come, what is planned, and an attempt that
// waits stay.

// metaTimeRules is the key under which the file remembers the rules its
// deadlines were computed by.
const metaTimeRules = "time_rules"

// timeRules names what turns a cron expression into instants, beside the job.
func (t *turn) timeRules() string {
	return schedule.ZoneDataVersion() + " " + t.cfg.Zone + " " + t.cfg.DST.String()
}

// noteTimeRules remembers the rules and gives those of before.
func (t *turn) noteTimeRules() (was string, err error) {
	is := t.timeRules()
	if was, err = store.Meta(t.tx, metaTimeRules); err != nil || was == is {
		return was, err
	}
	t.wrote = true
	return was, store.SetMeta(t.tx, metaTimeRules, is)
}

// rebuild lets a new configuration act on every job: its zone, its
// daylight-saving rule, and whether schedules fire at all. Turning them on is a
// start: what passed meanwhile was missed.
func (t *turn) rebuild() error {
	if err := t.disarmAll(); err != nil {
		return err
	}
	moved := 0
	c := job.Compiler{DST: t.cfg.DST, Zone: t.cfg.Zone, Expressions: schedule.Expressions{}}
	for j := range t.eachJob() {
		next := readJob(store.JobRow{RowID: j.rowID, JobID: j.ID, Definition: j.Definition, State: j.State, SortOrder: j.SortOrder,
			UpdatedAtMs: j.UpdatedMs, RuntimeUpdatedMs: j.RuntimeMs,
			DefinitionColumns: store.DefinitionColumns{Name: j.Name, Enabled: j.Enabled}}, &c)
		next.plan, next.retry = j.plan, j.retry
		t.putJob(next)
		deadlineMs, has := j.NextRunMs()
		if next.timing == j.timing || has && !j.slotAt(deadlineMs) {
			continue
		}
		did, err := t.retime(next)
		if err != nil {
			return err
		}
		if did {
			moved++
		}
	}
	was, err := t.noteTimeRules()
	if err != nil {
		return err
	}
	if err := t.noteRetimed(was, moved); err != nil {
		return err
	}
	switch {
	case !t.cfg.Enabled:
		t.st.late = backlog{}
	case !t.st.firing:
		t.beginCatchUp(true, nil)
	}
	t.st.firing, t.rebuilt = t.cfg.Enabled, true
	return nil
}

// noteRetimed tells that deadlines moved, and by which rules.
func (t *turn) noteRetimed(was string, moved int) error {
	if moved == 0 {
		return nil
	}
	told := map[string]any{"from": was, "to": t.timeRules(), "jobs": moved}
	if was == t.timeRules() {
		told = map[string]any{"reason": "deadlines of another program that its schedules do not have", "jobs": moved}
	}
	detail, err := json.Marshal(told)
	if err != nil {
		return err
	}
	return t.emit(Event{Kind: EventRetimed, Detail: detail})
}

// retime gives a job its natural deadline, where the one it has is a natural
// one ahead or where it has none.
func (t *turn) retime(j *Job) (moved bool, err error) {
	deadlineMs, has := j.NextRunMs()
	if !j.Enabled || j.SetAside != "" || j.timedOneShot() || has && (deadlineMs <= t.now || j.held()) {
		return false, nil
	}
	is := deadlineOf(j.naturalNext(t.now))
	if is == j.next() {
		return false, nil
	}
	_, err = t.editState(j, func(s *store.State) { s.NextRunAtMs = is })
	return true, err
}

// held reports whether the deadline is marked as a late start, as paced, or as
// kept by a forced run.
func (j *Job) held() bool {
	s := j.state()
	next := s.NextRunAtMs
	return s.StartupCatchupAtMs == next || s.PacedNextRunAtMs == next || s.ForcePreservedNextRunAtMs == next
}

// afterFailure reports whether a deadline may be what a failure led to.
func (j *Job) afterFailure(cfg *Config) bool {
	s := j.state()
	if s.LastOutcome() != "error" || !s.LastRunAtMs.Set {
		return false
	}
	longestMs := int64(0)
	for _, delays := range [][]int64{cfg.ErrorBackoffMs, cfg.RetryBackoffMs} {
		for _, delayMs := range delays {
			longestMs = max(longestMs, delayMs)
		}
	}
	return s.NextRunAtMs.N <= s.LastRunAtMs.N+max(s.LastDurationMs.N, 0)+longestMs
}

// retimeAtStart recomputes deadlines ahead when the rules are not those of the
// last start, and in a file that rota only opened repairs what is off its
// schedule.
func (t *turn) retimeAtStart() error {
	was, err := t.noteTimeRules()
	if err != nil {
		return err
	}
	changed, moved := was != "" && was != t.timeRules(), 0
	if !changed && t.id.made {
		return nil
	}
	for j := range t.eachJob() {
		_, open := t.st.open.Get(j.ID)
		if open || j.def().Schedule.Kind != "cron" || j.afterFailure(t.cfg) || !changed && !j.offSchedule(t.now) {
			continue
		}
		did, err := t.retime(j)
		if err != nil {
			return err
		}
		if did {
			moved++
		}
	}
	return t.noteRetimed(was, moved)
}

// offSchedule reports whether a deadline ahead cannot come from the schedule: it
// is before the next slot, or more than a whole interval behind the one after.
func (j *Job) offSchedule(nowMs int64) bool {
	deadlineMs, has := j.NextRunMs()
	nextMs, ok := j.naturalNext(nowMs)
	if !has || !ok || deadlineMs <= nowMs {
		return false
	}
	if deadlineMs < nextMs {
		return j.def().PayloadKind != "agentTurn"
	}
	followingMs, ok := j.timing.Next(nextMs)
	return ok && deadlineMs >= followingMs+(followingMs-nextMs)
}
