package worker

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// Bounds of one turn and of the command lane.
const (
	outcomesPerTurn = 256
	commandsPerTurn = 64
	commandLane     = 1024
	recheckMs       = 60_000 // the wall clock is read at least this often
)

// Options is what a worker needs. Store is required; the rest has defaults.
type Options struct {
	Store  *store.Store // the worker is its only user from New to the end of Run
	Clock  Clock
	Config Config // the zero value means DefaultConfig
	// BootID names this boot of the machine, Logged is what the launch log
	// knows, and LogID which log that is, the one that the launcher goes on
	// with. Recovery needs them: a run that is not in the log never started, if
	// it is the log of that time.
	BootID string
	Logged []Logged
	LogID  string
	PID    int
	// TwoSteps keeps request and activation in two commits, which is how crash
	// tests get between them. Otherwise a request that finds a place free is
	// activated in its own commit.
	TwoSteps bool
	Log      *slog.Logger // nil = slog.Default()
}

// Worker is the one owner of the database, of schedule decisions and of the
// run queue. Its methods may be called from any goroutine; everything they ask
// happens in the goroutine of Run.
type Worker struct {
	store *store.Store
	clock Clock
	log   *slog.Logger
	opt   Options
	id    identity

	commands *lane[*call]
	outcomes *lane[Outcome] // bounded by active runs
	orders   *lane[Order]   // bounded by active runs
	pushed   atomic.Pointer[Config]
	snapshot atomic.Pointer[Snapshot]
	feed     feed
	backup   atomic.Pointer[copyOrder] // the one that is made; nil = none

	poke     chan struct{} // buffered by one: configuration or stop
	ready    chan struct{} // closed when recovery is over
	stopping atomic.Bool
	done     chan struct{} // closed when Run has returned
	launcher chan struct{} // closed by Port.Done

	turns, committedTurns atomic.Int64
	saturation            saturation

	// What follows belongs to the goroutine of Run.
	st    state
	last  lastRan
	crowd int // armCrowd, but in tests
	// armLookMonoMs is when arming looks next, after a look that found nothing.
	armLookMonoMs   int64
	careful         bool // tests: every turn gives its messages savepoints, see turn.apply
	cfg             *Config
	stale           bool // cfg is installed and the jobs are not built by it yet
	seen            seenClock
	trouble         trouble
	unseen          int   // commits since the last look at the log
	pending         int   // frames that the file lacked then
	committedMonoMs int64 // when the last commit was made
	searches        searches
	// retainDueMonoMs is when retention looks next: monotonic, so that a wall
	// clock that steps back does not stop it.
	retainDueMonoMs int64
}

// call is one command and the place for its answer.
type call struct {
	command any
	reply   chan answer // buffered by one
	// givenUp is closed when nobody waits for the answer any more; nil is never.
	givenUp <-chan struct{}
}

// calls are used again once they are answered; one that was given up on is left to
// the worker.
var calls = sync.Pool{New: func() any { return &call{reply: make(chan answer, 1)} }}

type answer struct {
	value any
	err   error
}

// New prepares a worker; nothing happens before Run.
func New(o Options) *Worker {
	if o.Config.Version == 0 {
		o.Config = DefaultConfig()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	cfg := o.Config
	w := &Worker{
		store: o.Store, clock: o.Clock.withDefaults(), log: o.Log, opt: o,
		id: identity{storeKey: o.Store.StoreKey(), made: o.Store.Made(), pid: int64(o.PID), bootID: o.BootID, logID: o.LogID, receiptsKept: receiptsKept(o.Store, &cfg)},

		commands: newLane[*call](commandLane),
		outcomes: newLane[Outcome](0),
		orders:   newLane[Order](0),
		poke:     make(chan struct{}, 1),
		ready:    make(chan struct{}),
		done:     make(chan struct{}),
		launcher: make(chan struct{}),
		st:       newState(),
		crowd:    armCrowd,
		searches: searches{rows: sliceRowsFirst},
		cfg:      forFile(&cfg, o.Store),
	}
	w.pushed.Store(&cfg)
	w.publishSnapshot()
	return w
}

// Snapshot is the latest committed state.
func (w *Worker) Snapshot() *Snapshot { return w.snapshot.Load() }

// Ready is closed when recovery is over and commands are taken.
func (w *Worker) Ready() <-chan struct{} { return w.ready }

// Stats counts what the worker has done since New.
type Stats struct {
	Turns   int64 // transactions begun, without those that only read history
	Commits int64 // of these, committed: what costs a sync each
	// Saturation is the share of the last ten to twenty seconds that the loop
	// worked and waited neither for messages nor for the disk, from 0 to 1. It rises
	// with the load; at the most a machine takes, what is missing to 1 is its disk.
	Saturation float64
}

// Stats is how busy the worker is.
func (w *Worker) Stats() Stats {
	return Stats{Turns: w.turns.Load(), Commits: w.committedTurns.Load(), Saturation: w.saturation.value(w.clock.MonoMs())}
}

// Fenced says why the file is shown and not written, "" when it is served.
func (w *Worker) Fenced() string { return w.store.Fenced() }

// Configure pushes a whole configuration. It is installed between turns; a
// version that is not above the installed one is ignored. It never waits.
func (w *Worker) Configure(c Config) {
	for {
		was := w.pushed.Load()
		if c.Version <= was.Version {
			return
		}
		if w.pushed.CompareAndSwap(was, &c) {
			break
		}
	}
	w.wake()
}

func (w *Worker) wake() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// Port is the launcher's side.
func (w *Worker) Port() Port {
	return Port{
		Ready:    w.orders.ready,
		Take:     func() []Order { return w.orders.take(0) },
		Live:     w.live,
		Report:   func(o Outcome) { w.outcomes.put(o) },
		Progress: w.progress,
		Done:     func() { close(w.launcher) },
	}
}

// live is the last look before a launch, from committed memory alone.
func (w *Worker) live(l *Launch) string {
	if w.stopping.Load() {
		return "stopping"
	}
	j, ok := w.snapshot.Load().Job(l.JobID)
	switch {
	case !ok:
		return "removed"
	case !j.Enabled && l.NeedsEnabled():
		return "disabled"
	}
	return ""
}

// progress tells watchers that a process exists. It is not kept: after a crash
// the launch log knows it.
func (w *Worker) progress(p Progress) {
	if r, ok := w.snapshot.Load().st.active.Get(p.ReceiptID); ok {
		w.feed.publish([]Event{{Kind: EventProcess, AtMs: p.StartedAtMs, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs}})
	}
}

// ask puts a command into the lane and waits for its answer, or for the
// caller's own deadline: a command given up on may still be applied, and a search
// ends.
func ask[T any](ctx context.Context, w *Worker, command any) (T, error) {
	var none T
	if w.stopping.Load() {
		return none, errStopping()
	}
	c := calls.Get().(*call)
	c.command, c.givenUp = command, ctx.Done()
	if !w.commands.put(c) {
		return none, &job.Error{Code: job.CodeOverloaded, Op: "command", Message: "too many commands are waiting", Hint: "try again in a moment"}
	}
	select {
	case a := <-c.reply:
		c.command, c.givenUp = nil, nil
		calls.Put(c) // the worker has answered, and is done with it
		return typed[T](a)
	case <-ctx.Done():
		return none, &job.Error{Code: job.CodeUnknown, Op: "command", Message: "gave up waiting for the answer; the command may still be applied",
			Hint: "look before you repeat it", Err: ctx.Err()}
	case <-w.done:
		select {
		case a := <-c.reply:
			return typed[T](a)
		default:
			return none, errStopping()
		}
	}
}

func typed[T any](a answer) (T, error) {
	v, _ := a.value.(T)
	return v, a.err
}

func errStopping() error {
	return &job.Error{Code: job.CodeStopping, Op: "command", Message: "rota is stopping and takes no more commands", Hint: "start it again: rota serve"}
}

// Run serves until ctx ends and the launcher has ended its runs. Recovery
// comes first and to its end; commands wait for it. Run returns an error only
// when the database can no longer be served.
func (w *Worker) Run(ctx context.Context) error {
	defer w.finish()
	w.saturation.turnTo(true, w.clock.MonoMs())
	if err := w.start(); err != nil {
		return err
	}
	close(w.ready)
	for {
		more, err := w.turn()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			w.stopping.Store(true)
			if w.st.armed.Len() > 0 && w.trouble.attempts == 0 {
				continue // the next turn puts them back; after a failure the next start does
			}
			if w.stopped() {
				return nil
			}
		}
		w.upkeep()
		if copying := w.stepBackup(); !more && !copying {
			w.saturation.turnTo(false, w.clock.MonoMs())
			w.sleep(ctx)
			w.saturation.turnTo(true, w.clock.MonoMs())
		}
	}
}

// finish answers whoever still waits.
func (w *Worker) finish() {
	w.stopping.Store(true)
	w.dropBackup()
	close(w.done)
	for _, c := range w.commands.take(0) {
		c.reply <- answer{err: errStopping()}
	}
	w.searches.end(errStopping())
	w.feed.close()
}

// stopped reports whether nothing is left to wait for: every active run is
// settled, or the launcher says that it reports no more.
func (w *Worker) stopped() bool {
	if w.outcomes.len() > 0 && w.trouble.attempts < 3 {
		return false
	}
	select {
	case <-w.launcher:
		return !w.takeBack()
	default:
		return w.st.active.Len() == 0 && w.st.sent.Len() == 0 && w.orders.len() == 0
	}
}

// takeBack answers the launches and deliveries that were committed after the
// launcher's last look, as the launcher would have: they never started, and wait
// again.
func (w *Worker) takeBack() (any bool) {
	for _, o := range w.orders.take(0) {
		if o.Launch != nil {
			w.outcomes.put(Outcome{ReceiptID: o.Launch.ReceiptID, Status: StatusError, Kind: KindRefused, Interrupted: KindShutdown})
			any = true
		}
		if d := o.Deliver; d != nil {
			w.outcomes.put(Outcome{ReceiptID: d.ReceiptID, Delivery: &DeliveryEnd{Stopped: true, Answered: d.Answered}})
			any = true
		}
	}
	return any
}

// sleep waits for a message, the next deadline, or the recheck of the wall
// clock, whichever comes first.
func (w *Worker) sleep(ctx context.Context) {
	waitMs := int64(recheckMs)
	// While nothing may fire, a deadline that has passed is no reason to wake.
	if now := w.now(); !w.stopping.Load() && w.store.Fenced() == "" {
		if deadlineMs, ok := w.deadlineMs(now); ok {
			waitMs = min(waitMs, max(0, deadlineMs-now.wallMs))
		}
	}
	if w.st.retention.underWay && w.trouble.attempts == 0 && !w.stopping.Load() && w.store.Fenced() == "" {
		waitMs = min(waitMs, max(0, w.retainDueMonoMs-w.clock.MonoMs()))
	}
	if w.pending >= quietFrames {
		waitMs = min(waitMs, max(0, w.quietMonoMs()-w.clock.MonoMs()))
	}
	commands, outcomes := w.commands.ready, w.outcomes.ready
	if holdMs := w.trouble.untilMs - w.clock.MonoMs(); holdMs > 0 {
		// After a failed turn nothing is tried before the hold is over, or the
		// loop would spin on a broken disk. Commands wait, bounded by their
		// lane, except that a full disk is told at once.
		waitMs, outcomes = holdMs, nil
		if !w.trouble.full {
			commands = nil
		}
	}
	stop := ctx.Done()
	if w.stopping.Load() {
		stop = nil // seen; what is awaited now is the launcher
	}
	fired, release := w.clock.Timer(time.Duration(waitMs) * time.Millisecond)
	defer release()
	select {
	case <-commands:
	case <-outcomes:
	case <-w.poke:
	case <-w.launcherDone():
	case <-fired:
	case <-stop:
	}
}

// deadlineMs is the wall time at which the clock alone gives the next turn
// something to do; ok is false where nothing is scheduled.
func (w *Worker) deadlineMs(now instant) (ms int64, ok bool) {
	key, _, ok := w.st.due.Min()
	ms = key.deadlineMs
	if atMs, crowd := w.armAtMs(); crowd {
		ms = min(ms, max(atMs, now.wallMs+w.armLookMonoMs-now.monoMs))
	}
	return ms, ok
}

// launcherDone is Port.Done's signal while the worker is stopping; before
// that, a launcher that has gone is no reason to wake.
func (w *Worker) launcherDone() <-chan struct{} {
	if w.stopping.Load() {
		return w.launcher
	}
	return nil
}

// errFenced is the refusal of every write on a file that is only shown.
func (w *Worker) errFenced() error {
	return &job.Error{Code: job.CodeConflict, Op: "command", Message: "this file is shown, not written: " + w.store.Fenced(),
		Hint: "take it over with rota serve --adopt"}
}

// storageError is a storage failure as callers see it.
func storageError(err error) error {
	e := &job.Error{Code: job.CodeStorage, Op: "commit", Message: "the database could not be written; nothing of this command was kept", Hint: "the daemon's log has the reason; it tries again by itself", Err: err}
	if store.Class(err) == store.DiskFull {
		e.Code, e.Message, e.Hint = job.CodeStorageFull, "the disk is full; nothing of this command was kept", "free some space; rota goes on by itself"
	}
	var refusal *job.Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return e
}
