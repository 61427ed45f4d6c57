package launcher

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/failpoint"
)

// Run is one active run, from its order to its report.
type Run struct {
	Launch *worker.Launch
	Output *Output // what it has printed so far

	l           *Launcher
	cancel      context.CancelCauseFunc
	pid         atomic.Int64 // 0 until a process exists
	process     *worker.Process
	startedAtMs int64
	startedMono int64
}

func newRun(l *Launcher, order *worker.Launch) (*Run, context.Context) {
	ctx, cancel := context.WithCancelCause(context.Background())
	r := &struct {
		Run
		output Output
	}{Run: Run{Launch: order, l: l, cancel: cancel, startedMono: l.opt.Mono()}}
	r.Output = &r.output
	return &r.Run, ctx
}

// Hurry is closed when the launcher stops and its grace is over: what is still
// being cleaned up has two seconds.
func (r *Run) Hurry() <-chan struct{} { return r.l.hurry }

// Start calls begin, which makes the effect exist, and notes it: in the launch
// log, and to the worker. An effect that is no process gives a nil process.
func (r *Run) Start(begin func() (*worker.Process, error)) error {
	r.l.forks.RLock()
	process, err := begin()
	if err == nil && process != nil {
		r.pid.Store(int64(process.PID))
	}
	r.l.forks.RUnlock()
	if err != nil {
		return err
	}
	failpoint.Hit("process-started")
	r.startedAtMs = r.l.opt.Now()
	if process == nil {
		return nil
	}
	process.BootID = r.l.opt.BootID
	r.process = process
	if err := r.l.log.started(r.Launch.ReceiptID, process); err != nil {
		// The run goes on. If the daemon dies now, recovery knows that it was
		// launched and not as which process.
		r.l.opt.Log.Warn("the process of a run is not in the launch log", "receipt", r.Launch.ReceiptID, "err", err)
	}
	r.l.opt.Port.Progress(worker.Progress{
		ReceiptID: r.Launch.ReceiptID, StartedAtMs: r.startedAtMs, Process: *process})
	failpoint.Hit("mid-run")
	return nil
}

// Began notes an effect that is no process and began at this wall time.
func (r *Run) Began(atMs int64) { r.startedAtMs = atMs }

// perform takes the run through the live check, the launch log and its
// executor, and gives the outcome to report.
func (r *Run) perform(ctx context.Context) worker.Outcome {
	l := r.l
	if refusal := l.opt.Port.Live(r.Launch); refusal == refusedStopping {
		return l.neverStarted(r.Launch)
	} else if refusal != "" {
		return r.complete(worker.Outcome{Status: worker.StatusSkipped, Kind: worker.KindRefused,
			Error: refusalText(refusal), ErrorReason: "unknown"})
	}
	executor := l.opt.Executors[r.Launch.Payload.Kind]
	if executor == nil {
		return r.complete(failedToStart(&Error{Code: "no-executor", Op: "launch",
			Message: fmt.Sprintf("payloads of kind %q are not run here", r.Launch.Payload.Kind)}))
	}
	if err := l.log.announce(r.Launch.ReceiptID); err != nil {
		return r.complete(failedToStart(err))
	}
	failpoint.Hit("launch-logged")
	outcome := r.complete(executor.Execute(ctx, r))
	failpoint.Hit("process-ended")
	return outcome
}

// complete adds what the launcher knows about every run.
func (r *Run) complete(o worker.Outcome) worker.Outcome {
	o.ReceiptID = r.Launch.ReceiptID
	o.StartedAtMs = r.startedAtMs
	o.EndedAtMs = r.l.opt.Now()
	o.DurationMs = r.l.opt.Mono() - r.startedMono
	o.Process = r.process
	for i := range o.Diagnostics {
		o.Diagnostics[i].TsMs = o.EndedAtMs
	}
	return o
}

// neverStarted is the outcome of a launch that came too late: no effect, no
// process, and no trace in the launch log. The ledger may start it again.
func (l *Launcher) neverStarted(order *worker.Launch) worker.Outcome {
	return worker.Outcome{
		ReceiptID: order.ReceiptID, Status: worker.StatusError, Kind: worker.KindRefused, Interrupted: interruptedByShutdown,
		Error: "the daemon stopped before the run started", ErrorReason: "unknown", EndedAtMs: l.opt.Now(),
	}
}
