package worker

import (
	"fmt"
	"strconv"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// runJob accepts one manual run, or says why there is none. The answer's run
// id is durable: it leaves only after the commit that holds its receipt.
func (t *turn) runJob(c RunJob) (RunAnswer, error) {
	if known, err := t.knownRequest(c); known.RunID != "" || err != nil {
		return known, err
	}
	j, err := t.find("cron.run", c.ID)
	if err != nil {
		return RunAnswer{}, err
	}
	if open, ok := t.st.open.Get(j.ID); ok {
		return RunAnswer{Reason: "already-running", OpenRunID: open.RunID}, nil
	}
	dueMs, hasNext := j.NextRunMs()
	due := hasNext && dueMs <= t.now && j.Enabled
	switch {
	case c.Mode == "due" && !due:
		return RunAnswer{Reason: "not-due"}, nil
	case c.Mode == "if-enabled" && !j.Enabled:
		return RunAnswer{Reason: "disabled"}, nil
	}
	r := t.manualRun(j, c)
	if retry, ok := j.attempting(); ok && c.Mode == "due" { // it is that attempt
		r.OriginSlotMs, r.Attempt = retry.OriginMs, retry.Attempt
	}
	if c.Given { // a key that was made for this call is in no receipt
		if rec, ok, err := store.ReceiptByID(t.tx, r.ReceiptID); err != nil || ok {
			return RunAnswer{RunID: rec.RequestRunID}, err // its key is forgotten, its receipt is not
		}
	}
	if err := t.disarm(j.ID); err != nil {
		return RunAnswer{}, err
	}
	j = t.atHand(j)
	if why := j.unrunnable(); why != "" {
		if j.SetAside != "" { // of its state only the count is ours to write
			if err := t.noteScheduleError(j); err != nil {
				return RunAnswer{}, err
			}
			return RunAnswer{Reason: "invalid-spec"}, t.record(r, entry{Status: StatusSkipped, CompletionStatus: "failed", Error: why, Reason: why}, t.now)
		}
		return RunAnswer{Reason: "invalid-spec"}, t.step(r, InUnrunnable, &circumstance{reason: why})
	}
	if err := t.step(r, InAsked, nil); err != nil {
		return RunAnswer{}, err
	}
	if c.Mode == "due" {
		if err := t.takeSlot(j.ID, dueMs, r.RunID); err != nil {
			return RunAnswer{}, err
		}
	}
	if c.Given {
		if err := store.InsertRequest(t.tx, j.ID, c.Key, store.Request{RunID: r.RunID, Mode: c.Mode}, t.now); err != nil {
			return RunAnswer{}, err
		}
	}
	return RunAnswer{RunID: r.RunID}, nil
}

// knownRequest answers a repeated key with the run it already has.
func (t *turn) knownRequest(c RunJob) (RunAnswer, error) {
	if !c.Given {
		return RunAnswer{}, nil
	}
	known, ok, err := store.RequestByKey(t.tx, c.ID, c.Key)
	if err != nil || !ok {
		return RunAnswer{}, err
	}
	if known.Mode != c.Mode {
		return RunAnswer{}, refuse(job.CodeConflict, "cron.run",
			fmt.Sprintf("request key %q already asked for a run in mode %s", c.Key, known.Mode), "use another request key")
	}
	return RunAnswer{RunID: known.RunID}, nil
}

// manualRun is the run a caller asks for, not yet in the ledger.
func (t *turn) manualRun(j *Job, c RunJob) *Run {
	t.st.runCount++
	id := store.ManualID(t.id.storeKey, j.ID, c.Mode, c.Key)
	return &Run{ReceiptID: id, RunID: manualRunID(j.ID, t.now, t.st.runCount),
		JobID: j.ID, Trigger: TriggerManual, Mode: c.Mode, RequestedAtMs: t.now,
		order: queueKey{t.now, j.SortOrder, j.UpdatedMs, j.ID, id}}
}

// manualRunID is the public id of a manual run. jobOfRun reads it.
func manualRunID(jobID string, nowMs, count int64) string {
	var room [128]byte
	b := append(append(append(room[:0], "manual:"...), jobID...), ':')
	b = append(strconv.AppendInt(b, nowMs, 10), ':')
	return string(strconv.AppendInt(b, count, 10))
}

// takeSlot lets a manual run in mode due stand for the slot that was due: one
// execution, not two.
func (t *turn) takeSlot(jobID string, dueMs int64, runID string) error {
	j, ok := t.st.jobs.Get(jobID)
	if !ok {
		return errNoJob("cron.run", jobID)
	}
	slotMs := dueMs
	p, planned := j.nextPlan()
	if planned {
		slotMs = p.SlotMs
	}
	if _, attempt := j.attempting(); !attempt || planned { // an attempt is no slot of the schedule
		if err := t.decide(jobID, slotRange{slotMs, slotMs, 1}, RuleManualDue, openRun{runID}); err != nil {
			return err
		}
	}
	j, err := t.consume(j, slotMs, RuleManualDue, openRun{runID})
	if err != nil || !planned {
		return err
	}
	return t.dropPlan(j, slotMs) // after the slot is consumed: what else is planned is the deadline
}

// stopRun aborts an active run or skips a queued one.
func (t *turn) stopRun(c StopRun) (struct{}, error) {
	r, ok := t.st.openRun(c.RunID)
	if !ok {
		return struct{}{}, refuse(job.CodeNotFound, "rota.stop", "no run "+c.RunID+" is open",
			"rota cron runs shows how it ended")
	}
	stop := Cancel{Reason: "stopped", Message: "stopped by an operator"}
	return struct{}{}, t.step(r, InStopped, &circumstance{reason: "stopped by an operator before it started", cancel: stop})
}
