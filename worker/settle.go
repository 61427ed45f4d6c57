package worker

import (
	"encoding/json"
	"strconv"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// refireGapMs is the least time between the end of a cron run and the next
// start of its job.
const refireGapMs = 2000

// settle records how a run ended, in one commit: receipt, history, the job's
// streaks and what becomes of its schedule. A second outcome finds the receipt
// terminal and the run gone, and never gets here.
func (t *turn) settle(r *Run, o *Outcome) error {
	e, receipt, err := entryOf(r, o)
	if err != nil {
		return err
	}
	if done, err := store.FinishReceipt(t.tx, r.ReceiptID, receipt, o.EndedAtMs, o.Error); err != nil || !done {
		return err
	}
	if t.deliveryOf(r).Mode == "webhook" { // and nothing is sent
		none := false
		e.Delivered, e.DeliveryStatus, e.SuppressionReason = &none, NotDelivered, suppression(o)
		if o.Interrupted != "" {
			e.DeliveryStatus, e.DeliveryError = DeliveryUnknown, o.Error
		}
	}
	e.CompletionStatus = completion(&e, false)
	return t.conclude(r, e, o.EndedAtMs, conclusion{interrupted: o.Interrupted != ""})
}

// entryOf is the history entry of an execution as far as it is known when it
// ends, and the receipt's terminal status.
func entryOf(r *Run, o *Outcome) (e entry, receipt string, err error) {
	status, receipt := o.Status, string(o.Status)
	if o.Interrupted != "" {
		status, receipt = StatusError, store.ReceiptInterrupted
	}
	e = entry{
		Status: status, Error: o.Error, ErrorReason: o.ErrorReason, Summary: o.Summary, RunAtMs: r.ActiveAtMs,
		StartedAtMs: o.StartedAtMs, DurationMs: o.DurationMs, Output: o.Output,
	}
	if e.Diagnostics, err = diagnosticsOf(o.Summary, o.Diagnostics); err != nil || o.Interrupted == "" {
		return e, receipt, err
	}
	e.Interrupted, err = interruption(o.Interrupted, o.Process, false)
	return e, receipt, err
}

// conclusion says how much of the usual rules an end follows.
type conclusion struct {
	interrupted bool // neither streak nor backoff: it was not the job's doing
	restored    bool // the history row exists already
}

// conclude is the part every end shares: the job's state, its one-shot rule
// and deadline, the run's departure, the history row.
func (t *turn) conclude(r *Run, e entry, endedAtMs int64, c conclusion) error {
	if r.Phase == PhaseDelivering {
		if err := store.DeleteOutbox(t.tx, r.ReceiptID); err != nil {
			return err
		}
	}
	spent := false
	if j, ok := t.st.jobs.Get(r.JobID); ok && r.Gone == nil && j.decoded {
		edited := j.state().RunningScheduleChangeID != ""
		j, err := t.editState(j, func(s *store.State) { applyEnd(s, &e, c, t.now) })
		if err != nil {
			return err
		}
		if spent, err = t.afterEnd(j, r, &e, endedAtMs, edited); err != nil {
			return err
		}
	}
	if err := t.forgetPlan(r); err != nil {
		return err
	}
	t.dropRun(r)
	t.orders = append(t.orders, Order{Settled: r.ReceiptID})
	if err := t.tell(r, e, endedAtMs, c); err != nil || !spent {
		return err
	}
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return nil
	}
	return t.deleteJob(j) // after its last run was told
}

// tell writes the history row of an end, or that a start found one.
func (t *turn) tell(r *Run, e entry, endedAtMs int64, c conclusion) error {
	if !c.restored {
		return t.record(r, e, endedAtMs)
	}
	t.wrote, t.marks.ended = true, true
	return t.emit(Event{Kind: EventRecovered, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Status: string(e.Status),
		Detail: json.RawMessage(`{"was":"active","becomes":"restored"}`)})
}

// applyEnd moves a job's state over the end of one of its runs.
func applyEnd(s *store.State, e *entry, c conclusion, nowMs int64) {
	s.QueuedAtMs, s.RunningAtMs, s.RunningReceiptID, s.RunningScheduleChangeID = store.Int{}, store.Int{}, "", ""
	s.LastRunAtMs = store.Some(e.RunAtMs)
	if e.RunAtMs == 0 {
		s.LastRunAtMs = store.Some(nowMs)
	}
	s.LastRunStatus, s.LastStatus = string(e.Status), string(e.Status)
	s.LastError, s.LastErrorReason = e.Error, e.ErrorReason
	s.LastDiagnostics = e.Diagnostics
	s.LastDiagnosticSummary, _ = cutText(e.Summary, summaryChars)
	s.LastDurationMs = store.Some(e.DurationMs)
	s.LastDelivered, s.LastDeliveryStatus, s.LastDeliveryError = nil, string(e.DeliveryStatus), e.DeliveryError
	if s.LastDeliveryStatus == "" {
		s.LastDeliveryStatus = string(DeliveryNotRequested)
	}
	if e.Delivered != nil {
		s.LastDelivered = json.RawMessage(strconv.FormatBool(*e.Delivered))
	}
	s.LastSuppressionReason, s.LastRunInterruptionReason = e.SuppressionReason, ""
	switch {
	case c.interrupted:
		s.LastRunInterruptionReason = "gateway-restart"
	case e.Status == StatusError:
		s.ConsecutiveErrors, s.ConsecutiveSkipped = store.Some(s.ConsecutiveErrors.N+1), store.Some(0)
	case e.Status == StatusSkipped:
		s.ConsecutiveErrors, s.ConsecutiveSkipped = store.Some(0), store.Some(s.ConsecutiveSkipped.N+1)
	default:
		s.ConsecutiveErrors, s.ConsecutiveSkipped = store.Some(0), store.Some(0)
	}
}

// afterEnd decides what the end of a run means for the job's schedule. The
// deadline moved when the slot was requested; a newer edit stands as it is; a
// manual run changes nothing here, unless it stood for a slot. spent says that
// the job is a one-shot that asked to be removed.
func (t *turn) afterEnd(j *Job, r *Run, e *entry, endedAtMs int64, edited bool) (spent bool, err error) {
	if edited || !r.timed() && r.Mode != "due" {
		return false, nil
	}
	if j, err = t.forgetRetry(j); err != nil {
		return false, err
	}
	_, has := j.NextRunMs()
	endMs := min(endedAtMs, t.now)
	failed := e.Status == StatusError && j.state().LastRunInterruptionReason == ""
	switch {
	case j.timedOneShot() && !r.timed() && has:
		return false, nil // moved to another time since
	case j.timedOneShot() && failed:
		return false, t.failOnce(j, r, endMs)
	case j.timedOneShot() && j.def().DeleteAfterRun && e.CompletionStatus == "succeeded":
		return true, nil
	case j.timedOneShot():
		return false, t.turnOff(j) // kept; nothing runs it again by itself
	case !j.Enabled:
		return false, nil
	case failed:
		return false, t.fail(j, r, e, endMs)
	}
	return false, t.keepRefireGap(j, r, endMs+refireGapMs)
}

// keepRefireGap jumps over the slots of a cron job that come too soon after the
// end of its run.
func (t *turn) keepRefireGap(j *Job, r *Run, freeMs int64) error {
	nextMs, ok := j.NextRunMs()
	if !r.timed() || !ok || nextMs >= freeMs || j.def().Schedule.Kind != "cron" {
		return nil
	}
	markMs, err := t.pass(j, max(nextMs-1, j.consumed().N), freeMs-1, RuleRefireGap, openRun{r.RunID})
	if err != nil {
		return err
	}
	_, err = t.editState(j, func(s *store.State) {
		s.RotaConsumedMs = store.Some(max(markMs, s.RotaConsumedMs.N))
		s.NextRunAtMs = deadlineOf(j.timing.Next(s.RotaConsumedMs.N)) // not from now: the end may be told late
	})
	return err
}

// skip ends a run that never started. A run that reached the ledger gets its
// receipt finished; one that did not gets only the history row and, for a
// slot, the mark.
func (t *turn) skip(r *Run, cell Transition, c *circumstance) error {
	reason := c.reason
	if c.outcome != nil {
		reason = c.outcome.Error
	}
	if reason == "" {
		reason = t.unrunnable(r)
	}
	if reason == "" {
		reason = cell.Why
	}
	e := entry{Status: StatusSkipped, CompletionStatus: "failed", Error: reason, Reason: reason, RunAtMs: r.ActiveAtMs}
	if cell.Receipt == "" {
		return t.skipUnrequested(r, e)
	}
	if done, err := store.FinishReceipt(t.tx, r.ReceiptID, cell.Receipt, t.now, reason); err != nil || !done {
		return err
	}
	return t.concludeSkip(r, e)
}

// concludeSkip ends a requested or refused run: the job's last run stays what
// it was, for nothing ran; only its markers go.
func (t *turn) concludeSkip(r *Run, e entry) error {
	if j, ok := t.st.jobs.Get(r.JobID); ok && r.Gone == nil && j.decoded {
		j, err := t.editState(j, func(s *store.State) {
			s.QueuedAtMs, s.RunningAtMs, s.RunningReceiptID, s.RunningScheduleChangeID = store.Int{}, store.Int{}, "", ""
		})
		if err != nil {
			return err
		}
		if _, hasNext := j.NextRunMs(); (r.timed() || r.Mode == "due") && j.timedOneShot() && j.Enabled && !hasNext {
			if err := t.turnOff(j); err != nil { // its only slot is spent
				return err
			}
		}
	}
	if err := t.forgetPlan(r); err != nil {
		return err
	}
	done := *r
	done.Phase = PhaseDone
	t.putRun(&done)
	if r.Phase == PhaseActive {
		t.orders = append(t.orders, Order{Settled: r.ReceiptID})
	}
	return t.record(r, e, t.now)
}

// skipUnrequested records an attempt that may not even become a request: the
// job says so, its siblings go on, and a slot is consumed.
func (t *turn) skipUnrequested(r *Run, e entry) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return nil
	}
	j, err := t.editState(j, func(s *store.State) {
		s.LastRunAtMs, s.LastRunStatus, s.LastStatus = store.Some(t.now), string(StatusSkipped), string(StatusSkipped)
		s.LastError = e.Error
		s.ConsecutiveSkipped = store.Some(s.ConsecutiveSkipped.N + 1)
	})
	if err != nil {
		return err
	}
	if r.timed() {
		if err := t.decide(j.ID, slotRange{r.SlotMs, r.SlotMs, 1}, RuleUnrunnable, map[string]string{"reason": e.Error}); err != nil {
			return err
		}
		if _, err = t.consume(j, r.SlotMs, RuleUnrunnable, map[string]string{"reason": e.Error}); err != nil {
			return err
		}
		if err := t.forgetPlan(r); err != nil {
			return err
		}
		if j, ok = t.st.jobs.Get(r.JobID); !ok {
			return nil
		}
		if j.timedOneShot() {
			if err := t.turnOff(j); err != nil {
				return err
			}
		}
	}
	return t.record(r, e, t.now)
}

// interruption is the entry's account of a run that was cut short.
func interruption(reason string, p *Process, alive bool) (json.RawMessage, error) {
	type process struct {
		Process
		Alive bool `json:"alive"`
	}
	var seen *process
	if p != nil {
		seen = &process{*p, alive}
	}
	return rawjson.Encode(struct {
		Reason  string   `json:"reason"`
		Process *process `json:"process"`
	}{reason, seen})
}
