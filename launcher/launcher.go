package launcher

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// Options is all a launcher needs. Only Port must be set.
type Options struct {
	// Port is the worker's side.
	Port worker.Port
	// LogPath is the launch log. Empty: none is kept, and a crash cannot tell
	// what had started; for measurements only.
	LogPath string
	// BootID is written with each launch. Defaults to BootID().
	BootID string
	// Home is where commands run that name no directory. Defaults to the user's
	// home directory.
	Home string
	// Environ is the daemon's environment ("NAME=value"); commands inherit it
	// without ROTA_TOKEN, ROTA_URL and NOTIFY_SOCKET.
	Environ []string
	// Executors performs payloads, by payload kind. Nil: commands and http.
	Executors map[string]Executor
	// Version is the program's, for the User-Agent of requests. Defaults to
	// "devel".
	Version string
	// Echo answers http payloads that name ${ROTA_ECHO}. Nil: there is none.
	// The launcher serves it in Run, and closes it when nothing is active.
	Echo *Echo
	// CleanupGraceMs passes between TERM and KILL. Defaults to 20,000.
	CleanupGraceMs int64
	// ShutdownGraceMs is how long active runs and deliveries may go on when the
	// launcher stops; then processes get TERM, and KILL two seconds later, and
	// requests are cut. Defaults to 10,000.
	ShutdownGraceMs int64
	// Now is the wall clock in Unix ms: for what is shown, never for a deadline.
	Now func() int64
	// Mono is monotonic time in ms, for durations.
	Mono func() int64
	// Log defaults to slog.Default().
	Log *slog.Logger
}

// Bounds and defaults. Times are milliseconds.
const (
	defaultCleanupGraceMs  = 20_000
	defaultShutdownGraceMs = 10_000
	hurriedGraceMs         = 2_000 // TERM to KILL once the shutdown waits no longer
	defaultUnheardMs       = 1_000
)

// interruptedByShutdown is the ledger's word for a run that the daemon's stop
// cut short or kept from starting.
const interruptedByShutdown = "shutdown"

// refusedStopping is the live check's answer while the worker stops. Such a
// run is not skipped: it never started, and the ledger may resume it.
const refusedStopping = "stopping"

// Launcher takes orders and runs them. Make one with New, then call Run once.
type Launcher struct {
	opt   Options
	log   *launchLog
	hurry chan struct{} // closed when the shutdown grace is over
	// unheardMs is how long a stop waits to hear what becomes of the ends that
	// were reported: a delivery may follow, and the grace is for it too.
	unheardMs int64

	// forks is held shared while a process comes to exist and is noted, and
	// exclusively while orphans are reaped: so the reaper knows every child.
	forks sync.RWMutex

	web *web

	mu       sync.Mutex // guards all below
	active   map[string]*Run
	sending  map[string]context.CancelCauseFunc // deliveries, by receipt
	reported map[string]bool                    // receipts whose end the worker has and has not committed
	stopping bool                               // nothing more is launched
	closed   bool                               // nothing more is delivered either
	idle     chan struct{}                      // sent to, buffered by one, when stopping and nothing is active
}

// New makes a launcher and opens its launch log.
func New(opt Options) (*Launcher, error) {
	opt.BootID = cmp.Or(opt.BootID, BootID())
	opt.CleanupGraceMs = cmp.Or(opt.CleanupGraceMs, defaultCleanupGraceMs)
	opt.ShutdownGraceMs = cmp.Or(opt.ShutdownGraceMs, defaultShutdownGraceMs)
	if opt.Home == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return nil, &Error{Code: "no-home", Op: "launcher.New", Message: "the home directory is unknown",
				Hint: "set HOME for the daemon", Err: err}
		}
		opt.Home = home
	}
	if opt.Now == nil {
		opt.Now = func() int64 { return time.Now().UnixMilli() }
	}
	if opt.Mono == nil {
		start := time.Now()
		opt.Mono = func() int64 { return time.Since(start).Milliseconds() }
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	if opt.Executors == nil {
		opt.Executors = map[string]Executor{
			"command": &Command{Home: opt.Home, Environ: opt.Environ, CleanupGraceMs: opt.CleanupGraceMs},
			"http":    HTTP{},
		}
	}
	log, err := openLaunchLog(opt.LogPath, opt.BootID)
	if err != nil {
		return nil, err
	}
	return &Launcher{
		opt: opt, log: log, hurry: make(chan struct{}), unheardMs: defaultUnheardMs, web: newWeb("rota/"+cmp.Or(opt.Version, "devel"), opt.Echo, opt.Now),
		active: make(map[string]*Run), sending: make(map[string]context.CancelCauseFunc), reported: make(map[string]bool), idle: make(chan struct{}, 1),
	}, nil
}

// Run takes orders until ctx ends. Then it launches nothing more, lets active
// runs and deliveries go on for the shutdown grace, ends the rest, reports them
// all, and calls Port.Done. Every goroutine it started has ended when it
// returns, but for those of closed connections, which are on their way. It can
// be called once.
func (l *Launcher) Run(ctx context.Context) error {
	stopReaper := startReaper(l)
	stopEcho := l.startEcho()
	var (
		runs     sync.WaitGroup
		stop     = ctx.Done()
		stopping bool
		graceEnd <-chan time.Time
		unheard  <-chan time.Time
		over     bool
	)
	for !over {
		select {
		case <-l.opt.Port.Ready:
			l.take(stopping, &runs)
			over = stopping && l.closeIfIdle()
		case <-stop:
			stop, stopping = nil, true
			timer := time.NewTimer(time.Duration(l.opt.ShutdownGraceMs) * time.Millisecond)
			defer timer.Stop()
			graceEnd = timer.C
			l.take(stopping, &runs) // what was committed before the stop may still be delivered
			over = l.beginStop()
		case <-graceEnd:
			graceEnd = nil
			l.endAll()
			over = l.closeIfIdle()
		case <-l.idle:
			over = l.closeIfIdle()
		case <-unheard:
			over = l.closeUnheard()
		}
		if stopping && !over && unheard == nil && l.quiet() {
			timer := time.NewTimer(time.Duration(l.unheardMs) * time.Millisecond)
			defer timer.Stop()
			unheard = timer.C
		}
	}
	runs.Wait()
	l.take(stopping, &runs) // what was committed meanwhile is answered too
	stopReaper()
	l.web.end()
	err := errors.Join(stopEcho(), l.log.close())
	l.opt.Port.Done()
	return err
}

// startEcho serves the echo listener, if there is one. stop closes it.
func (l *Launcher) startEcho() (stop func() error) {
	if l.opt.Echo == nil {
		return func() error { return nil }
	}
	served := make(chan error, 1)
	go func() { served <- l.opt.Echo.serve() }()
	return func() error { return errors.Join(l.opt.Echo.Close(), <-served) }
}

// take carries out every waiting order. A launch that comes while stopping is
// answered without an effect.
func (l *Launcher) take(stopping bool, runs *sync.WaitGroup) {
	orders := l.opt.Port.Take()
	for _, order := range orders {
		if order.Deliver != nil { // before a launch forgets what an earlier daemon left
			l.log.inherit(order.Deliver.ReceiptID)
		}
	}
	for _, order := range orders {
		switch {
		case order.Launch != nil && stopping:
			l.opt.Port.Report(l.neverStarted(order.Launch))
		case order.Launch != nil:
			l.launch(order.Launch, runs)
		case order.Cancel != nil:
			c := order.Cancel
			l.mu.Lock()
			run, delivery := l.active[c.ReceiptID], l.sending[c.ReceiptID]
			l.mu.Unlock()
			why := &Stop{Kind: c.Reason, Message: c.Message}
			if run != nil { // else it has ended: its outcome is on its way
				run.cancel(why)
			}
			if delivery != nil {
				delivery(why)
			}
		case order.Deliver != nil:
			l.heard(order.Deliver.ReceiptID)
			l.deliver(order.Deliver, runs)
		case order.Settled != "":
			l.heard(order.Settled)
			if err := l.log.settle(order.Settled); err != nil {
				l.opt.Log.Warn("launch log not trimmed; it goes on growing", "err", err)
			}
		}
	}
}

// launch starts the goroutine of one run.
func (l *Launcher) launch(order *worker.Launch, runs *sync.WaitGroup) {
	run, ctx := newRun(l, order)
	l.mu.Lock()
	known := l.active[order.ReceiptID] != nil
	if !known {
		l.active[order.ReceiptID] = run
	}
	l.mu.Unlock()
	if known {
		l.opt.Log.Error("a run was ordered twice; the second order is ignored", "receipt", order.ReceiptID)
		run.cancel(nil)
		return
	}
	runs.Go(func() {
		outcome := run.perform(ctx)
		run.cancel(nil)
		if outcome.Kind != worker.KindRefused { // a refusal is followed by nothing
			l.mu.Lock()
			l.reported[order.ReceiptID] = true
			l.mu.Unlock()
		}
		l.forget(order.ReceiptID) // before the report: it may be answered at once, by a delivery of the same receipt
		l.opt.Port.Report(outcome)
	})
}

// beginStop notes that nothing more is launched, and reports whether nothing
// is active.
func (l *Launcher) beginStop() (idle bool) {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
	return l.closeIfIdle()
}

// closeIfIdle ends the taking of deliveries if nothing is active.
func (l *Launcher) closeIfIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := len(l.active)+len(l.sending) == 0 && (l.closed || len(l.reported) == 0)
	l.closed = l.closed || idle
	return idle
}

// quiet reports whether nothing is active, heard of or not.
func (l *Launcher) quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.active)+len(l.sending) == 0
}

// closeUnheard is closeIfIdle for a launcher that has waited long enough to
// hear what becomes of the ends it reported.
func (l *Launcher) closeUnheard() bool {
	l.mu.Lock()
	clear(l.reported)
	l.mu.Unlock()
	return l.closeIfIdle()
}

// heard notes that a reported end was committed.
func (l *Launcher) heard(receiptID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reported, receiptID)
}

// forget drops a run, or its delivery, that has ended.
func (l *Launcher) forget(receiptID string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.active, receiptID)
	delete(l.sending, receiptID)
	if l.stopping && len(l.active)+len(l.sending) == 0 {
		select {
		case l.idle <- struct{}{}:
		default: // said already, and not yet heard
		}
	}
}

// endAll asks every active run and delivery to end, and every ending one to be
// quick.
func (l *Launcher) endAll() {
	close(l.hurry)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, run := range l.active {
		run.cancel(&Stop{Kind: worker.KindShutdown, Message: "the daemon stopped before the run ended"})
	}
	for _, cancel := range l.sending {
		cancel(&Stop{Kind: worker.KindShutdown, Message: "the daemon stopped before the delivery ended"})
	}
}

// Output gives what the run with this public id has printed so far, and
// whether it is running. It knows active runs only: the output of a run that
// has ended is in its outcome.
func (l *Launcher) Output(runID string) (text string, running bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, run := range l.active { // a linear search: active runs are few
		if run.Launch.RunID == runID {
			return run.Output.Summary(), true
		}
	}
	return "", false
}
