package worker

import (
	"errors"
	"fmt"

	"github.com/rota-scheduler/rota/worker/failpoint"
	"github.com/rota-scheduler/rota/worker/job"
)

// batch is what one turn took from the lanes.
type batch struct {
	outcomes []Outcome
	calls    []*call
	answers  []answer
	refused  []error // outcomes that the rules refused; told after the commit
}

// turn does what waits, and then a slice of the searches. more says that the
// next turn should start at once. The error is final.
func (w *Worker) turn() (more bool, err error) {
	if more, err = w.transact(); err != nil {
		return false, err
	}
	searching, err := w.slice()
	return more || searching, err
}

// transact takes what waits and does one transaction with it.
//
// After a failed turn nothing is tried until the hold is over. On a full disk
// reads go on meanwhile and writes are refused; when the hold is over, one turn
// with the outcomes, or with nothing but a note, finds out whether there is
// space again.
func (w *Worker) transact() (more bool, err error) {
	now := w.now()
	holding := now.monoMs < w.trouble.untilMs
	if holding && !w.trouble.full {
		return false, nil
	}
	probe := w.trouble.full && !holding
	w.install()
	var b batch
	if !holding {
		most := outcomesPerTurn
		if w.firesNow(now) {
			most = outcomesAside
		}
		b.outcomes = w.outcomes.take(most)
	}
	if !probe {
		b.calls = w.searches.accept(w.commands.take(commandsPerTurn))
	}
	duty := !w.trouble.full && w.dutyWaits(now)
	if len(b.outcomes) == 0 && len(b.calls) == 0 && !w.stale && !duty && !probe {
		if !w.trouble.full { // else a jump would be forgotten before a turn may act on it
			w.seen = w.seen.after(now, clockChange{})
		}
		return false, nil
	}
	err = w.commitTurn(now, &b, func(t *turn) error {
		t.wrote = probe
		if w.followsClock() {
			if err := t.followClock(t.clock); err != nil {
				return err
			}
		}
		if w.stale {
			if err := t.rebuild(); err != nil { // it puts back what is armed
				return err
			}
		}
		if err := w.applyBatch(t, &b); err != nil || w.trouble.full {
			return err
		}
		more, err = w.duties(t)
		return err
	})
	more = more || probe || w.outcomes.len() > 0 || w.commands.len() > 0
	return more && err == nil && w.trouble.attempts == 0, err
}

// install makes the newest pushed configuration current. Jobs are stale until
// a turn has rebuilt them by it.
func (w *Worker) install() {
	if c := w.pushed.Load(); c.Version > w.cfg.Version {
		w.cfg, w.stale = forFile(c, w.store), true
		w.id.receiptsKept = receiptsKept(w.store, c)
	}
}

// followsClock reports whether a turn may act on the clocks: not while the file
// is only shown, its disk is full, or nothing starts any more. What changes
// meanwhile is seen afterwards, or by the next start.
func (w *Worker) followsClock() bool {
	return !w.trouble.full && !w.stopping.Load() && w.store.Fenced() == ""
}

// dutyWaits reports whether the clock alone gives this turn something to do.
func (w *Worker) dutyWaits(now instant) bool {
	if w.store.Fenced() != "" {
		return false
	}
	if w.stopping.Load() {
		return w.st.armed.Len() > 0
	}
	if w.seen.change(now) != (clockChange{}) || len(w.st.late.ids) > 0 {
		return true
	}
	key, _, ok := w.st.due.Min()
	return ok && key.deadlineMs <= now.wallMs || w.placeFree() || w.armWaits(now) || w.retentionDue(now.monoMs)
}

// retentionDue: nothing is removed while it is being counted.
func (w *Worker) retentionDue(nowMonoMs int64) bool {
	return nowMonoMs >= w.retainDueMonoMs && w.st.totals.known
}

func (w *Worker) placeFree() bool {
	return w.st.queue.Len() > 0 && w.st.active.Len() < w.cfg.MaxConcurrent
}

// duties are what a turn does after its messages, in fixed order, each bounded.
func (w *Worker) duties(t *turn) (more bool, err error) {
	if w.store.Fenced() != "" {
		return false, nil
	}
	if w.stopping.Load() {
		return false, t.disarmAll()
	}
	if err = t.catchUpLate(); err != nil {
		return false, err
	}
	if more = len(t.st.late.ids) > 0; !more {
		if more, err = t.requestDue(); err != nil {
			return false, err
		}
	}
	if w.opt.TwoSteps && t.marks.requested {
		return true, nil
	}
	if err := t.activateQueued(); err != nil {
		return false, err
	}
	if w.armWaits(instant{t.now, t.monoMs}) {
		was := t.st.armCount
		crowd, err := t.arm(w.roomToArm())
		if err != nil {
			return false, err
		}
		if more = more || crowd; t.st.armCount == was {
			w.armLookMonoMs = t.monoMs + armLookMs
		}
	}
	if !w.retentionDue(t.monoMs) {
		return more, nil
	}
	trims, err := t.retain()
	w.retainDueMonoMs = t.monoMs + retainEveryMs
	if trims {
		w.retainDueMonoMs = t.monoMs + retainPauseMs
	}
	return more, err
}

// applyBatch applies the messages in order and keeps their answers. Its error
// ends the turn.
func (w *Worker) applyBatch(t *turn, b *batch) error {
	b.refused = nil
	for i := range b.outcomes {
		o := &b.outcomes[i]
		_, refusal, fatal := t.apply(func(t *turn) (any, error) { return nil, t.takeOutcome(o) })
		if fatal != nil {
			return fatal
		}
		if refusal != nil {
			b.refused = append(b.refused, fmt.Errorf("outcome of %s: %w", o.ReceiptID, refusal))
		}
	}
	b.answers = make([]answer, len(b.calls))
	for i, c := range b.calls {
		if err := w.closedTo(c.command); err != nil {
			b.answers[i].err = err
			continue
		}
		value, refusal, fatal := t.apply(func(t *turn) (any, error) { return t.handle(c.command) })
		if fatal != nil {
			return fatal
		}
		b.answers[i] = answer{value, refusal}
	}
	return nil
}

// closedTo refuses a command that may not be tried now.
func (w *Worker) closedTo(command any) error {
	switch {
	case isRead(command):
		return nil
	case w.store.Fenced() != "":
		return w.errFenced()
	case w.trouble.full:
		return refuse(job.CodeStorageFull, "command", "the disk is full; nothing can be written", "free some space; rota goes on by itself")
	case w.stopping.Load():
		return errStopping()
	}
	return nil
}

// takeOutcome finds the run an outcome is about. A run that is not open has
// ended: a late message is ignored by id.
func (t *turn) takeOutcome(o *Outcome) error {
	r, ok := t.st.active.Get(o.ReceiptID)
	if o.Delivery != nil {
		r, ok = t.st.sent.Get(o.ReceiptID)
	}
	if !ok {
		return nil
	}
	in := InOutcome
	switch {
	case o.Delivery != nil && o.Delivery.Stopped:
		in = InUnsent
	case o.Delivery != nil:
		in = InDelivered
	case o.Kind != KindRefused && t.sends(r, o):
		in = InExecuted
	case o.Kind == KindRefused && o.Interrupted != "" && !r.Canceled:
		in = InUnlaunched
	case o.Kind == KindRefused:
		in = InRefused
	}
	return t.step(r, in, &circumstance{outcome: o})
}

// commitTurn runs one transaction: apply, flush, commit, and only then
// everything that leaves. A transaction that wrote nothing is rolled back.
func (w *Worker) commitTurn(now instant, b *batch, apply func(*turn) error) error {
	w.turns.Add(1)
	t, err := w.attempt(now, w.careful, apply)
	if errors.Is(err, errApart) {
		t, err = w.attempt(now, true, apply)
	}
	if err != nil {
		return w.failed(b, err, nil)
	}
	if !t.dirty() {
		if err := t.tx.Rollback(); err != nil {
			return w.failed(b, err, nil)
		}
		w.leave(t, b)
		return nil
	}
	if err := t.close(w.st.seq); err != nil {
		return w.failed(b, errors.Join(err, t.tx.Rollback()), nil)
	}
	w.saturation.turnTo(false, w.clock.MonoMs()) // what waits for the disk is no work
	err = t.tx.Commit()
	w.saturation.turnTo(true, w.clock.MonoMs())
	if err != nil {
		return w.failed(b, err, t)
	}
	w.committed(t, b)
	return nil
}

// attempt begins a transaction and applies a turn to it. After an error nothing
// of it is left.
func (w *Worker) attempt(now instant, careful bool, apply func(*turn) error) (*turn, error) {
	tx, err := w.store.Begin()
	if err != nil {
		return nil, err
	}
	t := &turn{tx: tx, now: now.wallMs, monoMs: now.monoMs, clock: w.seen.change(now), careful: careful, cfg: w.cfg, id: &w.id, st: w.st, edit: new(edit)}
	if err := apply(t); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return t, nil
}

// close writes what was staged. Every commit takes at least one sequence
// number: it is how a commit whose answer was lost is recognised.
func (t *turn) close(seq int64) error {
	if err := t.flush(); err != nil {
		return err
	}
	if t.st.seq == seq {
		if err := t.emit(Event{Kind: EventNoted}); err != nil {
			return err
		}
	}
	return t.keepEvents()
}

// committed makes the staged memory the truth and lets everything leave.
func (w *Worker) committed(t *turn, b *batch) {
	w.trouble = trouble{}
	if w.unseen++; t.trimmed {
		w.unseen = lookCommits // it touched many pages
	}
	w.committedMonoMs = w.clock.MonoMs()
	w.committedTurns.Add(1)
	t.marks.hit()
	w.leave(t, b)
}

// leave is what happens after a commit and never before: snapshot, launches,
// answers, events, in this order.
func (w *Worker) leave(t *turn, b *batch) {
	t.letGo(&w.last)
	w.st = t.st
	for _, c := range t.counts {
		w.st.totals.add(c.jobID, c.rows)
	}
	w.stale = w.stale && !t.rebuilt
	if t.followed {
		w.seen = w.seen.after(instant{t.now, t.monoMs}, t.clock)
	}
	w.publishSnapshot()
	for _, o := range t.orders {
		w.orders.put(o)
	}
	for i, c := range b.calls {
		c.reply <- b.answers[i]
	}
	w.feed.publish(t.events)
	w.warn(t.events)
	for _, err := range b.refused {
		w.log.Error("an outcome was refused and is lost", "err", err)
	}
}

// warn logs the events that an operator should see without asking.
func (w *Worker) warn(events []Event) {
	for _, e := range events {
		switch e.Kind {
		case EventClockBack:
			w.log.Warn("the clock was wrong before: marks and deadlines are recomputed from now", "detail", string(e.Detail))
		case EventClockJump:
			w.log.Warn("the clock ran ahead, or the machine slept: missed slots are caught up", "detail", string(e.Detail))
		case EventWarning:
			what := "a job was set aside"
			if e.Status == "auto-disabled" {
				what = "a job was turned off"
			}
			w.log.Warn(what, "job", e.JobID, "detail", string(e.Detail))
		}
	}
}

func (w *Worker) publishSnapshot() {
	st := w.st
	w.snapshot.Store(&Snapshot{st: &st, Version: st.seq, Cron: w.cfg.Enabled, Config: w.cfg})
}

// hit passes the crash points that lie between a commit and what leaves.
func (m marks) hit() {
	if m.requested {
		failpoint.Hit("request-committed")
	}
	if m.activated {
		failpoint.Hit("active-committed")
	}
	if m.executed {
		failpoint.Hit("executed-committed")
	}
	if m.ended {
		failpoint.Hit("result-committed")
	}
}
