package host

import (
	"context"
	"errors"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// How long Follow waits before it tries again: twice as long each time.
const (
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// Follow is Subscribe over any number of connections: when one is lost, it
// dials again and goes on after the last event that was delivered, so that each
// comes once and none is left out. lost is told of each loss and of the pause
// that follows. It ends when ctx ends, when each fails, when the first dial
// fails, or when the daemon refuses.
func Follow(ctx context.Context, dial func(context.Context) (*Client, error), since int64, each func(worker.Event) error, lost func(cause error, pause time.Duration)) error {
	var eachErr error
	take := func(ev worker.Event) error {
		if eachErr = each(ev); eachErr == nil {
			since = ev.Seq
		}
		return eachErr
	}
	met := false
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		began, err := followOnce(ctx, dial, &since, take)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case eachErr != nil:
			return eachErr
		case final(err), !met && !began:
			return err
		case began:
			met, pause = true, firstRetry
		}
		lost(err, pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// followOnce subscribes on one connection until it is lost. since becomes where
// the subscription began, even if no event ever comes.
func followOnce(ctx context.Context, dial func(context.Context) (*Client, error), since *int64, take func(worker.Event) error) (began bool, err error) {
	client, err := dial(ctx)
	if err != nil {
		return false, err
	}
	defer client.Close()
	from, err := client.begin(ctx, *since)
	if err != nil {
		return false, err
	}
	*since = max(*since, from)
	return true, client.listen(ctx, take)
}

// final reports whether trying again cannot help.
func final(err error) bool {
	var refusal *WireError
	var other *OtherLedgerError
	return errors.As(err, &refusal) && !refusal.Retryable || errors.As(err, &other)
}
