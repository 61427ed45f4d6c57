package worker

import (
	"encoding/json"
	"fmt"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// manualResumeMs is how long an accepted manual run may wait over a restart
// and still be run: later, nobody expects it any more.
const manualResumeMs = 10 * 60_000

// metaBoot is the key under which the file remembers the boot it was last
// served in.
const metaBoot = "boot_id"

// metaLaunchLog is the key under which it remembers its launch log.
const metaLaunchLog = "launch_log"

// found is one piece of the ledger that a start has to settle.
type found struct {
	receipt store.Receipt // zero for a marker without a receipt
	jobID   string
}

// recovery is what one start knows and counts.
type recovery struct {
	logged    map[string]Logged // launch log by receipt id
	logKnown  bool              // the launch log could be read
	sameBoot  bool              // the file was last served in this boot
	excluded  map[string]bool   // jobs that take no part in this start's catch-up
	restored  int
	resumed   int
	skipped   int
	interrupt int
}

// runOf rebuilds a run from its receipt, its job's marker and its kept result.
// marked says that the job or a result knows of it.
func (t *turn) runOf(rec store.Receipt, j *Job) (r *Run, marked bool, err error) {
	r, marked = t.runByMarker(rec, j)
	row, ok, err := store.OutboxByReceipt(t.tx, rec.ID)
	if err != nil || !ok {
		return r, marked, err
	}
	var k kept
	if err := json.Unmarshal(row.Result, &k); err != nil {
		return r, marked, err
	}
	r.Phase, r.ActiveAtMs = PhaseDelivering, k.Entry.RunAtMs
	if j == nil {
		r.Gone = &goneJob{name: k.JobName}
	}
	return r, true, nil
}

// runByMarker is the run as its receipt's key and its job's marker tell it.
func (t *turn) runByMarker(rec store.Receipt, j *Job) (r *Run, marked bool) {
	key := store.ParseRunKey(rec.ID)
	if key.StoreKey != t.id.storeKey || key.JobID != rec.JobID {
		key = store.RunKey{} // copied from elsewhere: an old id
	}
	r = &Run{ReceiptID: rec.ID, RunID: rec.RequestRunID, JobID: rec.JobID, Trigger: TriggerEvent,
		RequestedAtMs: rec.StartedAtMs, Phase: PhaseRequested, Canceled: rec.ErrorText != ""}
	if r.RunID == "" {
		r.RunID = rec.ID
	}
	orderMs := rec.StartedAtMs
	switch key.Kind {
	case "slot":
		r.Trigger, r.SlotMs, orderMs = TriggerTimer, key.SlotMs, key.SlotMs
		if j != nil && len(j.plan) > 0 && j.plan[0].SlotMs == key.SlotMs {
			r.Trigger = TriggerCatchUp
		}
		if j != nil && j.retry != nil && j.retry.DeadlineMs == key.SlotMs {
			r.Trigger, r.OriginSlotMs, r.Attempt = TriggerRetry, j.retry.OriginMs, j.retry.Attempt
		}
	case "manual":
		r.Trigger, r.Mode = TriggerManual, key.Mode
	default:
		if j != nil && j.state().RunningAtMs.Set {
			r.takeOneShot(j, j.state().RunningAtMs.N)
		}
	}
	r.order = queueKey{orderMs: orderMs, jobID: rec.JobID, receiptID: rec.ID}
	if j == nil {
		return r, false
	}
	r.order.sortOrder, r.order.updatedMs = j.SortOrder, j.UpdatedMs
	s := j.state()
	switch {
	case s.RunningReceiptID == rec.ID, s.RunningReceiptID == "" && s.RunningAtMs.Set && s.RunningAtMs.N == rec.StartedAtMs:
		r.Phase, r.ActiveAtMs = PhaseActive, rec.StartedAtMs
		if s.RunningAtMs.Set {
			r.ActiveAtMs = s.RunningAtMs.N
		}
		return r, true
	case s.QueuedAtMs.Set && !s.RunningAtMs.Set:
		return r, true
	}
	return r, false
}

// takeOneShot makes an active run under an old id the run of its job's only
// slot, when that had come: it is over with this run.
func (r *Run) takeOneShot(j *Job, activeAtMs int64) {
	if atMs, ok := j.timing.Next(minInstantMs); ok && j.timedOneShot() && atMs <= activeAtMs {
		r.Trigger, r.SlotMs = TriggerTimer, atMs
	}
}

// recoverRun settles one open receipt or marker that a start found. Restored
// history comes first, then what never started, then what may have.
func (t *turn) recoverRun(f found, rc *recovery) error {
	j, hasJob := t.st.jobs.Get(f.jobID)
	if f.receipt.ID == "" {
		return t.recoverMarker(j, rc)
	}
	if !hasJob {
		j = nil
	}
	r, marked, err := t.runOf(f.receipt, j)
	if err != nil {
		return err
	}
	t.putRun(r)
	if !marked {
		r.ActiveAtMs = f.receipt.StartedAtMs
	}
	row, finished, err := store.FinalizedHistory(t.tx, r.JobID, r.ActiveAtMs, r.ReceiptID)
	if err != nil {
		return err
	}
	logged, inLog := rc.logged[r.ReceiptID]
	switch {
	case finished:
		rc.restored++
		return t.step(r, InRestartFinalized, &circumstance{row: row})
	case r.Phase == PhaseDelivering:
		rc.restored++
		return t.recoverDelivery(r, f.receipt.ErrorText, logged, rc)
	case !marked:
		rc.interrupt++
		return t.step(r, InRestartOrphan, &circumstance{process: loggedOrNil(logged, inLog)})
	case r.Phase == PhaseActive && (inLog || !rc.logKnown || !rc.sameBoot):
		rc.interrupt++
		rc.excluded[r.JobID] = true
		return t.step(r, InRestartUncertain, &circumstance{process: loggedOrNil(logged, inLog)})
	case r.Phase == PhaseActive && r.Canceled: // it never started, and must not
		rc.skipped++
		return t.step(r, InRefused, &circumstance{reason: f.receipt.ErrorText})
	case r.Phase == PhaseActive:
		if err := t.step(r, InRestartUnstarted, nil); err != nil {
			return err
		}
		r, _ = t.st.open.Get(r.JobID)
		if r.timed() && j.state().RunningScheduleChangeID != "" { // its schedule was replaced before it started
			rc.skipped++
			return t.step(r, InRescheduled, nil)
		}
		if lost(r, j, t.now) == "" {
			rc.resumed++
			return nil // it waits again already
		}
	}
	return t.resume(r, j, rc)
}

func loggedOrNil(l Logged, ok bool) *Logged {
	if !ok {
		return nil
	}
	return &l
}

// recoverDelivery settles a run whose result was being delivered. It is sent
// again only where the daemon stopped in order between two sends, or the launch
// log of that time shows that every send so far was answered: anything else may
// have arrived.
func (t *turn) recoverDelivery(r *Run, stopped string, logged Logged, rc *recovery) error {
	row, _, err := store.OutboxByReceipt(t.tx, r.ReceiptID)
	if err != nil {
		return err
	}
	switch {
	case !row.Held && (!rc.logKnown || !rc.sameBoot || logged.Sends > row.Answered):
		return t.step(r, InRestartSent, nil)
	case stopped != "":
		end := DeliveryEnd{Status: NotDelivered, Error: stopped, Answered: row.Answered, EndedAtMs: t.now}
		return t.step(r, InDelivered, &circumstance{outcome: &Outcome{ReceiptID: r.ReceiptID, Delivery: &end}})
	}
	return t.step(r, InRestartUnsent, nil)
}

// resume keeps a waiting run that is still wanted, and skips any other.
func (t *turn) resume(r *Run, j *Job, rc *recovery) error {
	if why := lost(r, j, t.now); why != "" {
		rc.skipped++
		return t.step(r, InRestartLost, &circumstance{reason: why})
	}
	rc.resumed++
	return t.step(r, InRestartKeyed, nil)
}

// lost says why a run that waited over a restart must not be resumed, "" when
// it may be.
func lost(r *Run, j *Job, nowMs int64) string {
	switch {
	case r.Trigger == TriggerEvent:
		return "its launch context was lost at the restart"
	case r.Trigger == TriggerManual && nowMs-r.RequestedAtMs >= manualResumeMs:
		return "it waited over a restart for more than ten minutes"
	case r.Mode != "force" && !j.Enabled:
		return "its job was disabled before the restart"
	case r.timed() && j.def().CatchUp != nil && j.def().CatchUp.MaxLatenessMs > 0 && nowMs-r.SlotMs > j.def().CatchUp.MaxLatenessMs:
		return "it waited over a restart beyond its job's maxLatenessMs"
	}
	return ""
}

// recoverMarker settles a job whose marker no open receipt explains: an older
// file. A waiting marker just goes; a running one is an interrupted run.
func (t *turn) recoverMarker(j *Job, rc *recovery) error {
	s := j.state()
	if !s.RunningAtMs.Set {
		rc.skipped++
		_, err := t.editState(j, func(s *store.State) { s.QueuedAtMs = store.Int{} })
		return err
	}
	id := s.RunningReceiptID
	if id == "" {
		id = fmt.Sprintf("marker:%s:%d", j.ID, s.RunningAtMs.N)
	}
	r := &Run{ReceiptID: id, RunID: id, JobID: j.ID, Trigger: TriggerEvent, Phase: PhaseActive,
		RequestedAtMs: s.RunningAtMs.N, ActiveAtMs: s.RunningAtMs.N, order: queueKey{receiptID: id}}
	if k := store.ParseRunKey(id); k.Kind == "slot" && k.JobID == j.ID {
		r.Trigger, r.SlotMs = TriggerTimer, k.SlotMs
	} else {
		r.takeOneShot(j, s.RunningAtMs.N)
	}
	row, finished, err := store.FinalizedHistory(t.tx, j.ID, s.RunningAtMs.N, id)
	if err != nil {
		return err
	}
	rc.excluded[j.ID] = true
	if finished {
		rc.restored++
		return t.step(r, InRestartFinalized, &circumstance{row: row})
	}
	rc.interrupt++
	return t.step(r, InRestartUncertain, nil)
}

// restore takes a run's end from the history row that was written before the
// crash. Nothing is run, sent or recorded a second time.
func (t *turn) restore(r *Run, row store.HistoryRow) error {
	var e entry
	if err := json.Unmarshal(row.Detail, &e); err != nil {
		return t.interrupt(r, nil) // another program's entry that cannot be read says nothing
	}
	e.RunAtMs = row.StartedAtMs
	if _, err := store.FinishReceipt(t.tx, r.ReceiptID, string(e.Status), row.EndedAtMs, e.Error); err != nil {
		return err
	}
	if j, ok := t.st.jobs.Get(r.JobID); ok && !j.timedOneShot() && j.Enabled && j.SetAside == "" {
		if err := t.passRun(j, r); err != nil {
			return err
		}
	}
	return t.conclude(r, e, row.EndedAtMs, conclusion{restored: true, interrupted: e.Interrupted != nil})
}

// passRun moves a deadline that another program left at the slot of a finished
// run past that run: no slot up to its start comes again.
func (t *turn) passRun(j *Job, r *Run) error {
	deadlineMs, ok := j.NextRunMs()
	if _, planned := j.nextPlan(); planned || !ok || deadlineMs > r.ActiveAtMs {
		return nil
	}
	j, err := t.passWait(j)
	if err != nil {
		return err
	}
	passed := schedule.Due(j.timing, deadlineMs-1, r.ActiveAtMs, schedule.CatchUp{Policy: schedule.RunNone})
	markMs := max(deadlineMs, passed.LastMs, j.consumed().N)
	_, err = t.editState(j, func(s *store.State) {
		s.RotaConsumedMs = store.Some(markMs)
		s.NextRunAtMs = deadlineOf(j.timing.Next(markMs)) // not from now: what was missed since is caught up
	})
	return err
}

// interruptedText is the error of a run that a restart cut short.
const interruptedText = "cron: job interrupted by gateway restart"

// interrupt records a run that may have started and whose end nobody saw. It
// is never run again. The slots of the time it took with it are recorded, and
// neither streak nor backoff is spent on it.
func (t *turn) interrupt(r *Run, logged *Logged) error {
	if _, err := store.FinishReceipt(t.tx, r.ReceiptID, store.ReceiptInterrupted, t.now, interruptedText); err != nil {
		return err
	}
	var process *Process
	alive := false
	if logged != nil {
		process, alive = logged.Process, logged.Alive
	}
	account, err := interruption("restart", process, alive)
	if err != nil {
		return err
	}
	none := false
	e := entry{Status: StatusError, CompletionStatus: "failed", Error: interruptedText, RunAtMs: r.ActiveAtMs,
		DurationMs: max(0, t.now-r.ActiveAtMs), Interrupted: account,
		Delivered: &none, DeliveryStatus: DeliveryUnknown, DeliveryError: interruptedText}
	if j, ok := t.st.jobs.Get(r.JobID); ok && !j.timedOneShot() && j.Enabled && j.SetAside == "" {
		if err := t.passInterrupted(j, r); err != nil {
			return err
		}
	}
	return t.conclude(r, e, t.now, conclusion{interrupted: true})
}

// passInterrupted records the slots that came while nobody could run them: the
// job takes no part in this start's catch-up.
func (t *turn) passInterrupted(j *Job, r *Run) error {
	deadlineMs, ok := j.NextRunMs()
	if _, planned := j.nextPlan(); planned || !ok || deadlineMs > t.now {
		return nil // what an earlier start planned stands
	}
	j, err := t.passWait(j)
	if err != nil {
		return err
	}
	markMs, err := t.pass(j, max(deadlineMs-1, j.consumed().N), t.now, RuleInterrupted, openRun{r.RunID})
	if err != nil {
		return err
	}
	_, err = t.advance(j, markMs)
	return err
}
