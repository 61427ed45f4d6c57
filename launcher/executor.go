package launcher

import (
	"context"

	"github.com/rota-scheduler/rota/worker"
)

// Executor performs one kind of payload.
//
// Execute returns when the effect is over and nothing of it is left behind. It
// calls run.Start exactly once, around the moment the effect begins, or
// run.Began where that moment is known only later; before that it may find
// reasons not to begin. When ctx ends it cuts the effect
// short: context.Cause(ctx) is then a *Stop, and run.Hurry says when even the
// clean-up must be quick. Of the outcome it fills Status, Kind, Error,
// ErrorReason, Summary, Diagnostics and Output; the launcher knows the rest.
//
// An executor is used by many runs at once.
type Executor interface {
	Execute(ctx context.Context, run *Run) worker.Outcome
}

// Stop is why a run is cut short from outside. It is the cause of the run's
// context.
type Stop struct {
	Kind    string // "stopped", "removed" or worker.KindShutdown
	Message string // a sentence for the run's error
}

// Error gives the sentence.
func (s *Stop) Error() string { return s.Message }

// Noop is an executor whose effect is nothing: it begins and ends at once. It
// measures what a run costs before its effect.
type Noop struct{}

// Execute reports success.
func (Noop) Execute(_ context.Context, run *Run) worker.Outcome {
	if err := run.Start(func() (*worker.Process, error) { return nil, nil }); err != nil {
		return failedToStart(err)
	}
	return worker.Outcome{Status: worker.StatusOK, Kind: worker.KindExit}
}
