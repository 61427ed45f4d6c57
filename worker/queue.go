package worker

import (
	"strconv"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
	"github.com/rota-scheduler/rota/worker/job"
)

// perTurn bounds each duty of a turn; what is left makes the next turn start at once.
const perTurn = 256

// requestDue is the first duty: every deadline that has come becomes a request
// or a decision. It reports whether deadlines are left over.
func (t *turn) requestDue() (more bool, err error) {
	for spent := 0; spent < dueBudget; {
		key, _, ok := t.st.due.Min()
		if !ok || key.deadlineMs > t.now {
			return false, nil
		}
		j, _ := t.st.jobs.Get(key.job.ID)
		if a, armed := t.st.armed.Get(j.ID); armed {
			spent++
			if done, err := t.fire(j, a); done || err != nil {
				if err != nil {
					return false, err
				}
				continue
			}
		}
		spent += requestCost
		open, isOpen := t.st.open.Get(key.job.ID)
		if !isOpen {
			open = t.timedRun(j)
		}
		if err := t.duty(open, InSlotDue); err != nil {
			return false, err
		}
	}
	key, _, ok := t.st.due.Min()
	return ok && key.deadlineMs <= t.now, nil
}

// timedRun is the run that the job's deadline asks for, not yet in the ledger.
func (t *turn) timedRun(j *Job) *Run {
	slotMs, trigger := j.next().N, TriggerTimer
	if p, ok := j.nextPlan(); ok {
		slotMs, trigger = p.SlotMs, TriggerCatchUp
	}
	origin, attempt := int64(0), 1
	if retry, ok := j.attempting(); ok && trigger == TriggerTimer {
		trigger, origin, attempt = TriggerRetry, retry.OriginMs, retry.Attempt
	}
	again := ""
	if c := j.consumed(); c.Set && slotMs <= c.N && trigger == TriggerTimer && j.timedOneShot() {
		again = strconv.FormatInt(j.UpdatedMs, 10) // a one-shot deliberately opened again
	}
	id := store.SlotID(t.id.storeKey, j.ID, slotMs, again)
	return &Run{ReceiptID: id, RunID: id, JobID: j.ID, Trigger: trigger, SlotMs: slotMs, RequestedAtMs: t.now,
		OriginSlotMs: origin, Attempt: attempt,
		order: queueKey{slotMs, j.SortOrder, j.UpdatedMs, j.ID, id}}
}

// request puts a run into the ledger. For a timed run the deadline and the
// mark move in the same commit.
func (t *turn) request(r *Run) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return errNoJob("request", r.JobID)
	}
	requestRunID := ""
	if !r.timed() {
		requestRunID = r.RunID
	}
	revision := j.revision()
	err := store.InsertReceipt(t.tx, store.Receipt{ID: r.ReceiptID, JobID: j.ID, ConfigRevision: revision,
		AgentID: j.def().AgentID, RequestRunID: requestRunID, OwnerPID: t.id.pid, StartedAtMs: t.now})
	if store.Class(err) == store.Constraint && r.timed() {
		// The id exists all the same: an old ledger, or a mark that was lost.
		// Deadline and mark move past it so that nothing spins.
		if err := t.decide(j.ID, slotRange{r.SlotMs, r.SlotMs, 1}, RuleKnown, openRun{r.RunID}); err != nil {
			return err
		}
		if j, err = t.consume(j, r.SlotMs, RuleKnown, openRun{r.RunID}); err != nil {
			return err
		}
		if err := t.forgetPlan(r); err != nil || !j.timedOneShot() {
			return err
		}
		return t.turnOff(j) // its only slot is decided
	}
	if err != nil {
		return err
	}
	if j, err = t.editState(j, func(s *store.State) {
		s.QueuedAtMs = store.Some(t.now)
		// From its first run here on, what was decided of a job is told by the
		// mark, and no longer guessed from its last run.
		switch next := s.NextRunAtMs; {
		case s.RotaConsumedMs.Set:
		case next.Set:
			s.RotaConsumedMs = store.Some(min(t.now, next.N-1))
		case !j.timedOneShot():
			s.RotaConsumedMs = store.Some(t.now)
		}
	}); err != nil {
		return err
	}
	if r.timed() {
		if _, err = t.consume(j, r.SlotMs, RuleOverlap, openRun{r.RunID}); err != nil {
			return err
		}
	}
	r.Phase, r.revision = PhaseRequested, revision // nobody has it yet
	t.putRun(r)
	t.wrote, t.marks.requested = true, true
	return t.emit(Event{Kind: EventRequested, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Status: string(r.Trigger)})
}

// activateQueued is the second duty: requests become active while places are free.
func (t *turn) activateQueued() error {
	if err := t.handOutFired(); err != nil {
		return err
	}
	for range perTurn {
		if t.st.active.Len() >= t.cfg.MaxConcurrent {
			return nil
		}
		_, r, ok := t.st.queue.Min()
		if !ok {
			return nil
		}
		in := InPlaceFree
		if j, ok := t.st.jobs.Get(r.JobID); !ok || j.unrunnable() != "" {
			in = InUnrunnable
		}
		if err := t.duty(r, in); err != nil {
			return err
		}
	}
	return nil
}

// duty moves one run in its own savepoint, so that one broken job does not
// block its siblings: a refusal sets the job aside.
func (t *turn) duty(r *Run, in Input) error {
	_, refusal, fatal := t.apply(func(t *turn) (any, error) { return nil, t.step(r, in, nil) })
	if refusal == nil || fatal != nil {
		return fatal
	}
	if r.Phase == PhaseRequested { // it keeps its receipt and leaves the queue
		t.st.queue = t.st.queue.Delete(t.edit, r.order)
	}
	return t.setAside(r, in.String(), refusal)
}

// setAside keeps a job whose run was refused out of everything until someone
// edits it or rota starts again, and says so.
func (t *turn) setAside(r *Run, input string, refusal error) error {
	detail, err := rawjson.Encode(map[string]string{"reason": refusal.Error(), "input": input})
	if err != nil {
		return err
	}
	if j, ok := t.st.jobs.Get(r.JobID); ok {
		next := *j
		next.SetAside = refusal.Error()
		t.putJob(&next)
	}
	return t.emit(Event{Kind: EventWarning, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Detail: detail})
}

// activate gives a request its place: marker swap, receipt start, launch. The
// payload is frozen here; a later edit does not reach the run.
func (t *turn) activate(r *Run) error {
	j, ok := t.st.jobs.Get(r.JobID)
	if !ok {
		return errNoJob("activate", r.JobID)
	}
	if !t.saysSo(r, j) {
		if err := store.ActivateReceipt(t.tx, r.ReceiptID, j.revision(), t.id.pid, t.now); err != nil {
			return err
		}
	}
	j, err := t.editState(j, func(s *store.State) {
		s.QueuedAtMs, s.LastError = store.Int{}, ""
		s.RunningAtMs, s.RunningReceiptID = store.Some(t.now), r.ReceiptID
	})
	if err != nil {
		return err
	}
	next := *r
	next.Phase, next.ActiveAtMs = PhaseActive, t.now
	t.putRun(&next)
	launch := launchOf(j, &next)
	launch.Net = &t.cfg.Net
	t.orders = append(t.orders, Order{Launch: launch})
	t.wrote, t.marks.activated = true, true
	return t.emit(Event{Kind: EventStarted, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Status: string(r.Trigger)})
}

// saysSo reports whether the receipt says already what an activation would write:
// it was written at this very time, and the definition is older than that.
func (t *turn) saysSo(r *Run, j *Job) bool {
	return r.revision != "" && r.RequestedAtMs == t.now && r.order.updatedMs == j.UpdatedMs && j.UpdatedMs < t.now
}

// launchOf is what the launcher gets for an active run.
func launchOf(j *Job, r *Run) *Launch {
	return &Launch{ReceiptID: r.ReceiptID, RunID: r.RunID, JobID: j.ID, JobName: j.Name, Trigger: r.Trigger,
		SlotMs: r.SlotMs, RunAtMs: r.ActiveAtMs, Attempt: max(1, r.Attempt), Mode: r.Mode, Payload: j.def().Payload}
}

func errNoJob(op, id string) error {
	return refuse(job.CodeNotFound, op, "job "+id+" is gone", "")
}
