package worker

import (
	"encoding/json"
	"errors"

	"github.com/rota-scheduler/rota/store"
)

// start loads the model and settles what the last holder left, to the end.
func (w *Worker) start() error {
	if err := w.restoreArmed(); err != nil {
		return err
	}
	tx, err := w.store.Begin()
	if err != nil {
		return err
	}
	st, err := load(tx, w.cfg)
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	open, err := openRuns(tx, &st)
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	boot, err := store.Meta(tx, metaBoot)
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	log, err := store.Meta(tx, metaLaunchLog)
	if err := errors.Join(err, tx.Rollback()); err != nil {
		return err
	}
	if err := w.store.Trim(); err != nil {
		return err
	}
	w.st = st
	w.publishSnapshot()
	if w.store.Fenced() != "" {
		return nil
	}
	rc := &recovery{logged: map[string]Logged{}, logKnown: log != "" && log == w.opt.LogID, excluded: map[string]bool{},
		sameBoot: boot != "" && boot == w.id.bootID}
	for _, l := range w.opt.Logged {
		rc.logged[l.ReceiptID] = l
	}
	return w.recover(open, rc)
}

// restoreArmed puts back what was armed when the last holder ended.
func (w *Worker) restoreArmed() error {
	if w.store.Fenced() != "" {
		return nil
	}
	tx, err := w.store.Begin()
	if err != nil {
		return err
	}
	n, err := store.RestoreArmed(tx)
	if err != nil || n == 0 {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// recover settles the open runs and then catches up, in bounded turns.
func (w *Worker) recover(open []found, rc *recovery) error {
	for len(open) > 0 {
		n := min(perTurn, len(open))
		err := w.startTurn(func(t *turn) error {
			for _, f := range open[:n] {
				if err := t.recoverRun(f, rc); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		open = open[n:]
	}
	err := w.startTurn(func(t *turn) error { return t.prepare(rc) })
	for err == nil && len(w.st.late.ids) > 0 {
		err = w.startTurn((*turn).catchUpLate)
	}
	if err != nil {
		return err
	}
	w.retainDueMonoMs = w.clock.MonoMs() + retainEveryMs
	return nil
}

// prepare makes the deadlines of a settled file fit this clock, this
// configuration and these zone rules, and lists what was missed.
func (t *turn) prepare(rc *recovery) error {
	var err error
	t.st.firing = t.cfg.Enabled
	if t.clock, err = t.changeSinceStop(); err != nil {
		return err
	}
	if t.clock.behindMs > 0 {
		if err := t.correctClock(t.clock); err != nil {
			return err
		}
	}
	t.followed = true
	strays, err := store.DropStrays(t.tx)
	if err != nil {
		return err
	}
	t.wrote = t.wrote || strays > 0
	if err := t.noteBoot(); err != nil {
		return err
	}
	if err := t.retimeAtStart(); err != nil {
		return err
	}
	if err := t.fillDeadlines(); err != nil {
		return err
	}
	if t.cfg.Enabled {
		t.beginCatchUp(true, rc.excluded)
	}
	return t.noteRecovery(rc, len(t.st.late.ids))
}

// startTurn is a turn of recovery: it has no callers to answer, so an error is final.
func (w *Worker) startTurn(apply func(*turn) error) error {
	var failure error
	err := w.commitTurn(w.now(), &batch{}, func(t *turn) error {
		failure = apply(t)
		return failure
	})
	if err == nil && w.trouble.attempts > 0 {
		err = failure
		if err == nil {
			err = errors.New("recovery could not be committed")
		}
	}
	return err
}

// noteBoot remembers the boot and the launch log that the next start may trust.
// It comes after every open run is settled: until then the old ones count.
func (t *turn) noteBoot() error {
	for key, is := range map[string]string{metaBoot: t.id.bootID, metaLaunchLog: t.id.logID} {
		was, err := store.Meta(t.tx, key)
		if err != nil {
			return err
		}
		if was == is {
			continue
		}
		t.wrote = true
		if err := store.SetMeta(t.tx, key, is); err != nil {
			return err
		}
	}
	return nil
}

// noteRecovery tells what a start found, when it found anything.
func (t *turn) noteRecovery(rc *recovery, missed int) error {
	if rc.restored+rc.resumed+rc.skipped+rc.interrupt+missed == 0 {
		return nil
	}
	detail, err := json.Marshal(map[string]int{"restored": rc.restored, "resumed": rc.resumed, "skipped": rc.skipped,
		"interrupted": rc.interrupt, "missedJobs": missed})
	if err != nil {
		return err
	}
	return t.emit(Event{Kind: EventRecovered, Detail: detail})
}

// fillDeadlines gives every enabled job without a deadline its natural one, as
// after an upgrade or when schedules are turned on again.
func (t *turn) fillDeadlines() error {
	for j := range t.eachJob() {
		if err := t.noteScheduleError(j); err != nil {
			return err
		}
		if j.SetAside == "" && j.says(factErring) {
			var err error
			if j, err = t.editState(j, func(s *store.State) { s.ScheduleErrorCount = store.Some(0) }); err != nil {
				return err
			}
		}
		if _, has := j.NextRunMs(); has || !j.Enabled || j.SetAside != "" {
			continue
		}
		if _, open := t.st.open.Get(j.ID); open && j.timedOneShot() {
			continue
		}
		next := deadlineOf(j.naturalNext(t.now))
		if !next.Set {
			continue
		}
		if _, err := t.editState(j, func(s *store.State) { s.NextRunAtMs = next }); err != nil {
			return err
		}
	}
	return nil
}
