package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// trouble is what a failed turn leaves behind: how often in a row, until when
// nothing is tried, and whether only outcomes and reads are taken.
type trouble struct {
	attempts int
	untilMs  int64 // monotonic
	full     bool
}

// failed ends a turn that did not commit, or of which that is not known. What
// certainly rolled back is answered with the error and its outcomes wait for
// the next turn; what is unknown is read back from the file.
func (w *Worker) failed(b *batch, cause error, t *turn) error {
	if store.CommitUnknown(cause) && t != nil {
		there, err := w.readBack(t)
		if err != nil {
			for _, c := range b.calls {
				c.reply <- answer{err: errUnknown(err)}
			}
			return err
		}
		if there {
			w.committed(t, b)
			return nil
		}
	} else if store.CodeOf(cause) == store.CodeNeedsReopen {
		if _, err := w.readBack(nil); err != nil {
			return err
		}
	}
	w.outcomes.giveBack(b.outcomes)
	for _, c := range b.calls {
		c.reply <- answer{err: storageError(cause)}
	}
	w.trouble.attempts++
	w.trouble.full = store.Class(cause) == store.DiskFull
	w.trouble.untilMs = w.clock.MonoMs() + int64(min(5000, 20<<min(w.trouble.attempts, 8)))
	w.log.Error("a turn failed and was rolled back", "err", cause, "attempt", w.trouble.attempts)
	return nil
}

// reopenTries bounds how long a reopen is tried before the worker gives up: a
// restart then recovers by the usual rules.
const reopenTries = 60

// readBack reopens the file and asks whether the turn is in it.
func (w *Worker) readBack(t *turn) (there bool, err error) {
	for try := range reopenTries {
		if err = w.store.Reopen(); err == nil {
			break
		}
		w.log.Error("the database could not be reopened", "err", err, "attempt", try+1)
		if store.CodeOf(err) == store.CodeLockLost || w.stopping.Load() {
			break // waiting cannot help, or nobody waits any more
		}
		fired, release := w.clock.Timer(time.Second)
		<-fired
		release()
	}
	if err != nil {
		return false, fmt.Errorf("reopen after an unknown commit: %w", err)
	}
	if t == nil {
		return false, nil
	}
	tx, err := w.store.Begin()
	if err != nil {
		return false, err
	}
	seq, err := store.LastSeq(tx)
	return seq >= t.st.seq, errors.Join(err, tx.Rollback())
}

func errUnknown(err error) error {
	return &job.Error{Code: job.CodeUnknown, Op: "command", Message: "the database failed while this was written; it may or may not have been kept",
		Hint: "look before you repeat it", Err: err}
}
