package worker

import (
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// circumstance is what an input carries beside its name; each input uses the
// fields it needs.
type circumstance struct {
	reason  string           // skip: the reason, as history shows it
	outcome *Outcome         // InOutcome, InRefused, InExecuted, InDelivered, InUnsent
	row     store.HistoryRow // InRestartFinalized
	process *Logged          // InRestartUncertain: what the launch log knows
	cancel  Cancel           // InStopped, InRemoved
}

// step moves a run by the table, and only by the table.
func (t *turn) step(r *Run, in Input, c *circumstance) error {
	if c == nil {
		c = &circumstance{}
	}
	cell := life[r.Phase][in]
	switch cell.Effect {
	case DoRequest:
		j, ok := t.st.jobs.Get(r.JobID)
		if !ok {
			return errNoJob("request", r.JobID)
		}
		if why := t.atHand(j).unrunnable(); why != "" {
			return t.step(r, InUnrunnable, &circumstance{reason: why})
		}
		return t.request(r)
	case DoOverlap:
		return t.overlap(r)
	case DoActivate:
		return t.activate(r)
	case DoSkip:
		return t.skip(r, cell, c)
	case DoCancel:
		return t.cancel(r, c.cancel)
	case DoMarkEdit:
		return t.markEdit(r)
	case DoSettle:
		return t.settle(r, c.outcome)
	case DoRestore:
		return t.restore(r, c.row)
	case DoRequeue:
		return t.requeue(r)
	case DoKeep:
		return t.keep(r)
	case DoInterrupt:
		return t.interrupt(r, c.process)
	case DoDeliver:
		return t.deliver(r, c.outcome)
	case DoResume:
		return t.resend(r)
	case DoHold:
		return t.hold(r, c.outcome.Delivery)
	case DoConclude:
		if in == InRestartSent {
			return t.concludeDelivery(r, sentUnanswered())
		}
		return t.concludeDelivery(r, c.outcome.Delivery)
	case DoRefuse:
		return refuse(job.CodeConflict, "run", cell.Why, "")
	}
	return nil
}

// unrunnable says why the run's job could not start now, "" when it could.
func (t *turn) unrunnable(r *Run) string {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return "the job is gone"
	}
	return j.unrunnable()
}

// cancel asks the launcher to end an active run, once.
func (t *turn) cancel(r *Run, c Cancel) error {
	if r.Canceled {
		return nil
	}
	next := *r
	next.Canceled = true
	t.putRun(&next)
	c.ReceiptID = r.ReceiptID
	if err := store.NoteReceipt(t.tx, r.ReceiptID, c.Message); err != nil {
		return err
	}
	t.wrote = true
	t.orders = append(t.orders, Order{Cancel: &c})
	return nil
}

// markEdit notes in the job that its schedule changed during the run, so that
// the run's end does not decide the job's future. The note survives a crash.
func (t *turn) markEdit(r *Run) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return nil
	}
	_, err := t.editState(j, func(s *store.State) { s.RunningScheduleChangeID = editNonce(t.st.seq + 1) })
	return err
}

// requeue takes an activation back: the launch log knows nothing of the run,
// so nothing of it ever started.
func (t *turn) requeue(r *Run) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return errNoJob("requeue", r.JobID)
	}
	if err := store.RequeueReceipt(t.tx, r.ReceiptID, r.RequestedAtMs); err != nil {
		return err
	}
	if _, err := t.editState(j, func(s *store.State) {
		s.QueuedAtMs = store.Some(r.RequestedAtMs)
		s.RunningAtMs, s.RunningReceiptID = store.Int{}, ""
	}); err != nil {
		return err
	}
	return t.keep(r)
}

// keep puts a run found in the ledger back into the queue under its own id.
func (t *turn) keep(r *Run) error {
	next := *r
	next.Phase, next.ActiveAtMs = PhaseRequested, 0
	t.putRun(&next)
	t.marks.requested = true
	return t.emit(Event{Kind: EventRequested, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Status: "resumed"})
}
