package worker

import (
	"slices"

	"github.com/rota-scheduler/rota/store"
)

// Arming. Where many jobs come due in the same moment, and there are places for
// them, what the moment needs is committed ahead of it: receipt, mark, deadline
// and the markers of an active run. When the moment comes, only the events are
// left to write, and a thousand jobs start in a few milliseconds.
//
// Nobody sees an armed run: memory holds the job as it was, and the armed run
// beside it. A run is handed out after the commit that takes its row out of
// rota_armed, and never before its slot. So a row that a start still finds is of a
// run that nobody began, and is put back as if it had never been: whatever is
// missed then is missed as usual. The same is done for a job that anything else
// happens to before its moment.
//
// A job that is alone in its moment gains nothing by it and costs a commit, so it
// takes a crowd, and as many free places. Armed runs hold no place: whoever asks
// first gets it, and an armed run without one waits like any other.
const (
	armCrowd   = 32    // the least number of jobs that are worth it
	armAheadMs = 3_000 // how long before its moment a run is armed
	armLateMs  = 1_000 // later than this it is put back, and requested as usual
	armPerTurn = 64    // other slots come due meanwhile, and wait for one turn
	armLookMs  = 250   // between two looks that found nothing
)

// What one turn does of what has come due, in the cost of handing out an armed
// run; a request costs about as much as requestCost of them.
const (
	dueBudget   = 512
	requestCost = 2
	// outcomesAside is how many outcomes a turn takes while armed runs are to be
	// handed out: these are late with every one of them, and the outcomes are not.
	outcomesAside = 64
)

// armedRun is a run that is committed ahead of its moment.
type armedRun struct {
	n      int64 // of its row
	slotMs int64
	run    *Run // active, as of its slot
	job    *Job // as it is once the run is active
	launch *Launch
	// requested and started are what is told when it is handed out, in the places
	// where an unarmed run tells them.
	requested, started []Event
}

// firesNow reports whether armed runs are to be handed out.
func (w *Worker) firesNow(now instant) bool {
	key, _, ok := w.st.due.Min()
	return ok && w.st.armed.Len() > 0 && key.deadlineMs <= now.wallMs
}

// roomToArm is how many more runs may be armed.
func (w *Worker) roomToArm() int {
	return w.cfg.MaxConcurrent - w.st.active.Len() - w.st.queue.Len() - w.st.armed.Len()
}

// armAtMs is when the next crowd is to be armed, by the wall clock; ok is false
// where there is none.
func (w *Worker) armAtMs() (ms int64, ok bool) {
	if w.opt.TwoSteps || w.roomToArm() < w.crowd {
		return 0, false
	}
	key, ok := w.st.due.Nth(w.st.armed.Len() + w.crowd - 1)
	return key.deadlineMs - armAheadMs, ok
}

// armWaits reports whether a crowd is to be armed now.
func (w *Worker) armWaits(now instant) bool {
	atMs, ok := w.armAtMs()
	return ok && atMs <= now.wallMs && now.monoMs >= w.armLookMonoMs
}

// arm arms the next jobs that are due soon, in due order, up to room. more says
// that it stopped at the bound of a turn.
func (t *turn) arm(room int) (more bool, err error) {
	untilMs, left := t.now+armAheadMs, min(room, armPerTurn)
	from := dueKey{t.now + 1, &Job{}}
	if t.st.armed.Len() > 0 && compareDue(t.st.armedTo, from) > 0 {
		from = t.st.armedTo // what comes before is armed, or was not to be
	}
	t.edit = t.edit.next() // the walk goes over the deadlines as they are now
	for key := range t.st.due.From(from) {
		if key.deadlineMs > untilMs {
			return false, nil
		}
		j, ok := t.st.jobs.Get(key.job.ID)
		if !ok || !t.armable(j) {
			continue
		}
		if left == 0 {
			return true, nil
		}
		if err := t.armJob(j); err != nil {
			return false, err
		}
		t.st.armedTo = key
		left--
	}
	return false, nil
}

// armable reports whether a job's deadline is a natural slot that will be
// requested and find a place like any other, and is not armed yet.
func (t *turn) armable(j *Job) bool {
	if _, armed := t.st.armed.Get(j.ID); armed || j.timedOneShot() || j.SetAside != "" || j.says(factLate) || len(j.plan) > 0 || j.retry != nil {
		return false
	}
	if _, open := t.st.open.Get(j.ID); open || t.isTouch[j.ID] { // what this turn has changed, the next one arms
		return false
	}
	deadlineMs, _ := j.NextRunMs()
	if mark := j.consumed(); mark.Set && deadlineMs <= mark.N {
		return false
	}
	_, attempt := j.attempting()
	return !attempt && j.unrunnable() == ""
}

// armJob plays the request and the activation of a job's slot at the time of the
// slot, keeps the rows, and takes the memory back.
func (t *turn) armJob(j *Job) error {
	nowMs, slotMs := t.now, j.nextMs
	t.edit = t.edit.next()
	before := t.stage()
	if err := t.tx.Savepoint(); err != nil {
		return err
	}
	t.now = slotMs
	armed, err := t.playSlot(j)
	t.now = nowMs
	t.unstage(before)
	t.edit = t.edit.next()
	switch {
	case err != nil && store.EndsTurn(err):
		return err
	case err != nil || armed == nil: // it is requested in its time, and refused in its time
		return t.tx.RollbackTo()
	}
	t.st.armCount++
	armed.n = t.st.armCount
	if err := store.UpdateState(t.tx, j.rowID, armed.job.State, armed.job.RuntimeMs); err != nil {
		return err
	}
	if err := store.InsertArmed(t.tx, store.ArmedRow{N: armed.n, JobID: j.ID, ReceiptID: armed.run.ReceiptID, State: j.State, RuntimeMs: j.RuntimeMs}); err != nil {
		return err
	}
	t.st.armed = t.st.armed.Put(t.edit, j.ID, armed)
	t.wrote = true
	return t.tx.Release()
}

// playSlot is nil where the slot did not end in an active run.
func (t *turn) playSlot(j *Job) (*armedRun, error) {
	orders, events := len(t.orders), len(t.events)
	if err := t.step(t.timedRun(j), InSlotDue, nil); err != nil {
		return nil, err
	}
	requested := slices.Clone(t.events[events:])
	events = len(t.events)
	r, ok := t.st.open.Get(j.ID)
	if !ok {
		return nil, nil
	}
	if err := t.step(r, InPlaceFree, nil); err != nil {
		return nil, err
	}
	if r, ok = t.st.open.Get(j.ID); !ok || r.Phase != PhaseActive || len(t.orders) != orders+1 {
		return nil, nil
	}
	is, _ := t.st.jobs.Get(j.ID)
	return &armedRun{slotMs: r.SlotMs, run: r, job: is, launch: t.orders[orders].Launch,
		requested: requested, started: slices.Clone(t.events[events:])}, nil
}

// fire takes an armed run whose slot has come for requested: it is handed out with
// the activations of this turn. done is false where it is put back instead: it is
// late, or there is no place.
func (t *turn) fire(j *Job, a *armedRun) (done bool, err error) {
	if t.now-a.slotMs > armLateMs || t.st.active.Len()+t.st.queue.Len() >= t.cfg.MaxConcurrent {
		return false, t.disarm(j.ID)
	}
	t.st.armed = t.st.armed.Delete(t.edit, j.ID)
	t.fired = append(t.fired, a.n)
	next := *a.job
	t.putJob(&next)
	t.putRun(a.run)
	t.handOut = append(t.handOut, a)
	t.wrote, t.marks.requested, t.marks.activated = true, true, true
	return true, t.emitAll(a.requested)
}

// handOutFired lets the fired runs of this turn go.
func (t *turn) handOutFired() error {
	for _, a := range t.handOut {
		t.orders = append(t.orders, Order{Launch: a.launch})
		if err := t.emitAll(a.started); err != nil {
			return err
		}
	}
	t.handOut = nil
	return nil
}

// emitAll tells what was told before the time, now.
func (t *turn) emitAll(events []Event) error {
	for _, e := range events {
		e.Job = nil
		if err := t.emit(e); err != nil {
			return err
		}
	}
	return nil
}

// disarm puts a job back, if it is armed. Whoever is about to change it, or to ask
// for a run of it, comes here first.
func (t *turn) disarm(jobID string) error {
	a, ok := t.st.armed.Get(jobID)
	if !ok {
		return nil
	}
	t.st.armed = t.st.armed.Delete(t.edit, jobID)
	t.touch(jobID) // its row gets the state that memory holds
	t.fired = append(t.fired, a.n)
	return store.WithdrawReceipt(t.tx, a.run.ReceiptID)
}

// disarmAll is disarm for everything that acts on all jobs.
func (t *turn) disarmAll() error {
	t.edit = t.edit.next()
	for id := range t.st.armed.All() {
		if err := t.disarm(id); err != nil {
			return err
		}
	}
	return nil
}
