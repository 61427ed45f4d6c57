package worker

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// flushSteps is how many steps of a backup (1 MiB) go by between two syncs of
// the copy. They are short enough that a commit which waits behind one is hardly
// late, and the disk is not left with all of it at the end.
const flushSteps = 4

// Backup asks for a copy of the database as it is at the end of the copying,
// everything in it that was acknowledged before. It is no command of a turn: its
// steps lie between turns, and messages and deadlines come first.
type Backup struct {
	Path string // absolute; nothing may be there yet
	// Nameless leaves the complete copy under Path + ".part", unchecked: the
	// caller makes it a backup with store.NamelessCopy, in a process where that
	// holds up no worker.
	Nameless bool
}

// BackedUp answers Backup.
type BackedUp struct {
	Path   string // real
	Pages  int
	Bytes  int64
	TookMs int64
}

// copyOrder is one backup between its caller and the loop. The loop copies; what
// waits for the disk the caller does.
type copyOrder struct {
	ctx     context.Context // of the caller: when it ends, so does the backup
	path    string
	reply   chan copied       // buffered by one
	flush   chan func() error // buffered by one
	flushed chan error        // buffered by one

	// What follows belongs to the goroutine of Run.
	backup   *store.Backup // nil before the first step
	steps    int
	flushing bool
	over     bool // answered
}

type copied struct {
	copy *store.Copy
	err  error
}

// Backup copies the database while it is served. One is made at a time. When it
// returns an error, also because ctx ended or the worker stopped, nothing of the
// copy is left.
func (w *Worker) Backup(ctx context.Context, c Backup) (BackedUp, error) {
	if !filepath.IsAbs(c.Path) {
		return BackedUp{}, refuse(job.CodeInvalid, "backup", fmt.Sprintf("the path of a backup is absolute, not %q", c.Path), "give the whole path")
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		return BackedUp{}, ctx.Err()
	case <-w.done:
	}
	if w.stopping.Load() {
		return BackedUp{}, errStopping()
	}
	o := &copyOrder{ctx: ctx, path: c.Path, reply: make(chan copied, 1), flush: make(chan func() error, 1), flushed: make(chan error, 1)}
	if !w.backup.CompareAndSwap(nil, o) {
		return BackedUp{}, refuse(job.CodeConflict, "backup", "another backup is being made", "wait for its end, or stop it by interrupting the command that asked for it")
	}
	defer w.backup.Store(nil)
	beganMs := w.clock.MonoMs()
	w.wake()
	made, err := w.awaitCopy(o)
	if err == nil && !c.Nameless {
		err = made.Publish(ctx, w.clock.WallMs())
	}
	if err != nil {
		return BackedUp{}, backupError(err)
	}
	return BackedUp{Path: made.Path, Pages: made.Pages, Bytes: made.Bytes, TookMs: w.clock.MonoMs() - beganMs}, nil
}

// awaitCopy waits for the loop, and syncs for it. The loop answers also an order
// whose caller is gone, so that nothing of it is left when this returns.
func (w *Worker) awaitCopy(o *copyOrder) (*store.Copy, error) {
	gone := o.ctx.Done()
	for {
		select {
		case a := <-o.reply:
			return a.copy, a.err
		case flush := <-o.flush:
			o.flushed <- flush()
			w.wake()
		case <-gone:
			gone = nil
			w.wake()
		case <-w.done:
			select {
			case a := <-o.reply:
				return a.copy, a.err
			default:
				return nil, errStopping()
			}
		}
	}
}

// stepBackup takes one step of the backup that is asked for and reports whether
// another follows at once.
func (w *Worker) stepBackup() (more bool) {
	o := w.backup.Load()
	if o == nil || o.over {
		return false
	}
	if err := o.ctx.Err(); err != nil {
		o.end(nil, err)
		return false
	}
	if w.stopping.Load() {
		o.end(nil, errStopping())
		return false
	}
	if o.flushing {
		select {
		case err := <-o.flushed:
			if o.flushing = false; err != nil {
				o.end(nil, err)
				return false
			}
		default:
			return false // it wakes the loop when it is done
		}
	}
	made, err := o.step(w.store)
	if made != nil || err != nil {
		o.end(made, err)
		return false
	}
	if o.steps%flushSteps == 0 {
		o.flushing = true
		o.flush <- o.backup.Flush()
	}
	return !o.flushing
}

func (o *copyOrder) step(s *store.Store) (made *store.Copy, err error) {
	if o.backup == nil {
		if o.backup, err = s.Idle().Backup(o.path); err != nil {
			return nil, err
		}
	}
	o.steps++
	return o.backup.Step()
}

// end answers the caller, once, after what is not complete is removed.
func (o *copyOrder) end(made *store.Copy, err error) {
	if o.over {
		return
	}
	if err != nil && o.backup != nil {
		o.backup.Abandon(err)
	}
	o.over = true
	o.reply <- copied{made, err}
}

// dropBackup ends a backup when nothing more is going to be served.
func (w *Worker) dropBackup() {
	if o := w.backup.Load(); o != nil {
		o.end(nil, errStopping())
	}
}

// backupError is a failure of a backup as callers see it.
func backupError(err error) error {
	code, hint := job.CodeStorage, store.HintOf(err)
	switch store.CodeOf(err) {
	case "", store.CodeInterrupt: // its caller is gone, or rota stops
		return err
	case store.CodeBackupExists:
		code = job.CodeConflict
	case store.CodeBackupPath:
		code = job.CodeInvalid
	}
	return &job.Error{Code: code, Op: "backup", Message: "no backup was made", Hint: hint, Plain: true, Err: err}
}
