package launcher

import (
	"context"
	"syscall"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// Command is the executor of payloads of kind "command": one process, in a
// session of its own.
type Command struct {
	Home           string   // where commands run that name no directory
	Environ        []string // the daemon's environment
	CleanupGraceMs int64    // between TERM and KILL; 0 = 20,000
}

// Execute starts the command and returns when nothing of it is left, or ten
// seconds after a KILL that did not help.
func (c *Command) Execute(ctx context.Context, run *Run) worker.Outcome {
	payload := run.Launch.Payload.Command
	plan, err := prepare(c.Environ, c.Home, run.Launch)
	if err != nil {
		return failedToStart(err)
	}
	if ctx.Err() != nil {
		return cutShort(stopOf(ctx))
	}
	run.Output.keep(payload.OutputMaxBytes)
	var p *process
	err = run.Start(func() (_ *worker.Process, err error) {
		if p, err = startProcess(plan, payload.Input, run.Launch.RunID, run.Output); err != nil {
			return nil, err
		}
		return &worker.Process{PID: p.tree.pid, StartTime: p.tree.startTime}, nil
	})
	if err != nil {
		return failedToStart(err)
	}
	w := watch{
		process: p, output: run.Output, startedAt: time.Now(),
		timeoutMs: payload.TimeoutMs, silenceMs: payload.NoOutputTimeoutMs, graceMs: c.CleanupGraceMs,
	}
	if w.graceMs == 0 {
		w.graceMs = defaultCleanupGraceMs
	}
	ending := w.untilEnded(ctx, run.Hurry())
	ending.argv = payload.Argv
	return ending.outcome()
}

// stopOf is why ctx ended.
func stopOf(ctx context.Context) *Stop {
	if stop, ok := context.Cause(ctx).(*Stop); ok {
		return stop
	}
	return &Stop{Kind: worker.KindStopped, Message: context.Cause(ctx).Error()}
}

// cut is why a command was ended before its time.
type cut struct {
	stop    *Stop // asked from outside; nil for a deadline
	silent  bool  // the deadline was the one for output
	limitMs int64 // the deadline
}

// phase is where a command stands between its start and its end.
type phase uint8

const (
	// running: entered at the start. Left when the first process ends, or when
	// the command is cut short.
	running phase = iota
	// draining: the first process ended by itself and its output is read to the
	// end. Left when that end is there, or when others have held it for two
	// seconds.
	draining
	// terminating: cut short; TERM was sent to everything of the run. Left when
	// nothing lives, or when the grace is over.
	terminating
	// sweeping: ended by itself, but others hold the output; TERM was sent to
	// the session. Left when it is empty, or after two seconds.
	sweeping
	// killing: KILL was sent. Left when nothing lives, or after ten seconds.
	killing
	// over: nothing is waited for. A crash of the daemon in any earlier phase
	// leaves the processes running and their pid in the launch log.
	over
)

// input is what can happen to a command.
type input uint8

const (
	leaderEnded  input = iota // the first process ended
	outputEnded               // nobody holds its output any more
	cutNow                    // a deadline passed, or a stop was asked for
	nobodyLives               // nothing that the phase waits for lives
	limitReached              // the phase has lasted as long as it may
)

// act is what is done on the way into a phase.
type act uint8

const (
	nothing act = iota
	askToEnd
	forceToEnd
)

type step struct {
	to phase
	do act
}

// steps is the life of a command. What is not in it changes nothing.
var steps = map[phase]map[input]step{
	running: {
		leaderEnded: {draining, nothing},
		cutNow:      {terminating, askToEnd},
	},
	draining: {
		outputEnded:  {over, nothing},
		limitReached: {sweeping, askToEnd},
	},
	terminating: {
		nobodyLives:  {over, forceToEnd}, // for what the look-around cannot see
		limitReached: {killing, forceToEnd},
	},
	sweeping: {
		outputEnded:  {over, nothing},
		nobodyLives:  {over, nothing},
		limitReached: {killing, forceToEnd},
	},
	killing: {
		nobodyLives:  {over, nothing},
		limitReached: {over, nothing},
	},
}

// Bounds of the phases, in milliseconds.
const (
	drainMs     = 2_000
	sweepMs     = 2_000
	killMs      = 10_000
	lookEveryMs = 20 // at first; doubles up to lookMaxMs, because a look reads the process table
	lookMaxMs   = 200
)

// watch follows one command from its start to its end.
type watch struct {
	process   *process
	output    *Output
	startedAt time.Time // monotonic
	timeoutMs int64     // 0 = none
	silenceMs int64     // 0 = none
	graceMs   int64

	phase   phase
	ended   bool // the first process has ended
	cut     *cut
	hurried bool
	limit   *time.Timer // of the phase
	look    *time.Timer // until the next look for living processes
	lookMs  int64
}

// untilEnded waits for the end of the command and of everything it started.
func (w *watch) untilEnded(ctx context.Context, hurry <-chan struct{}) commandEnding {
	w.limit, w.look = stoppedTimer(), stoppedTimer()
	defer w.limit.Stop()
	defer w.look.Stop()
	timeout, silence := timerAfter(w.timeoutMs), timerAfter(w.silenceMs)
	defer timeout.Stop()
	defer silence.Stop()
	exited, drained, stop := w.process.tree.exited, w.process.drained, ctx.Done()
	for w.phase != over {
		select {
		case <-exited:
			exited, w.ended = nil, true
			w.on(leaderEnded)
		case <-drained:
			drained = nil
			w.on(outputEnded)
		case <-stop:
			stop = nil
			w.cutShort(exited, cut{stop: stopOf(ctx)})
		case <-timeout.C:
			w.cutShort(exited, cut{limitMs: w.timeoutMs})
		case <-silence.C:
			if left := w.silenceLeft(time.Now()); left > 0 {
				silence.Reset(left)
			} else {
				w.cutShort(exited, cut{silent: true, limitMs: w.silenceMs})
			}
		case <-w.look.C:
			w.lookAround()
		case <-w.limit.C:
			w.on(limitReached)
		case <-hurry:
			hurry, w.hurried = nil, true
			w.hasten()
		}
		if w.phase == draining && drained == nil {
			w.on(outputEnded) // the output had ended before the process did
		}
	}
	ending := commandEnding{cut: w.cut, output: w.output, abandoned: !w.ended}
	if state := w.process.finish(w.ended); state != nil {
		if status, ok := state.Sys().(syscall.WaitStatus); ok {
			ending.signal = signalName(status)
		}
		if ending.signal == "" {
			code := state.ExitCode()
			ending.exitCode = &code
		}
	}
	return ending
}

// cutShort ends a running command early, unless it has just ended by itself:
// then that is how it ended.
func (w *watch) cutShort(exited <-chan struct{}, why cut) {
	if w.phase != running {
		return
	}
	select {
	case <-exited:
		return // its channel stays readable
	default:
	}
	w.cut = &why
	w.on(cutNow)
}

// on takes the step for an input.
func (w *watch) on(in input) {
	next, known := steps[w.phase][in]
	if !known {
		return
	}
	switch next.do {
	case askToEnd:
		w.process.tree.terminate(w.cut != nil)
	case forceToEnd:
		w.process.tree.kill(w.cut != nil)
	}
	w.phase = next.to
	w.limit.Reset(time.Duration(w.limitMs()) * time.Millisecond)
	if w.phase >= terminating {
		w.lookMs = lookEveryMs
		w.look.Reset(time.Duration(w.lookMs) * time.Millisecond)
	}
}

// limitMs is how long the phase may last.
func (w *watch) limitMs() int64 {
	ms := map[phase]int64{draining: drainMs, terminating: w.graceMs, sweeping: sweepMs, killing: killMs}[w.phase]
	if w.hurried && w.phase != killing {
		ms = min(ms, hurriedGraceMs)
	}
	return ms
}

// hasten shortens the phase to what a shutdown allows, from now.
func (w *watch) hasten() {
	if w.phase == draining || w.phase == terminating || w.phase == sweeping {
		w.limit.Reset(time.Duration(w.limitMs()) * time.Millisecond)
	}
}

// lookAround finds out whether anything still lives.
func (w *watch) lookAround() {
	if w.ended && !w.process.tree.alive(w.cut != nil) {
		w.on(nobodyLives)
		return
	}
	if w.phase == killing {
		w.process.tree.kill(w.cut != nil) // what was born between look and KILL
	}
	w.lookMs = min(2*w.lookMs, lookMaxMs)
	w.look.Reset(time.Duration(w.lookMs) * time.Millisecond)
}

// silenceLeft is how long the command may still be silent.
func (w *watch) silenceLeft(now time.Time) time.Duration {
	limit := time.Duration(w.silenceMs) * time.Millisecond
	return limit - now.Sub(w.output.silentSince(w.startedAt))
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}

// timerAfter fires once after ms of monotonic time; never for 0.
func timerAfter(ms int64) *time.Timer {
	if ms <= 0 {
		return stoppedTimer()
	}
	return time.NewTimer(time.Duration(ms) * time.Millisecond)
}
