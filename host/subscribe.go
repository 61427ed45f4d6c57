package host

import (
	"context"

	"github.com/rota-scheduler/rota/worker"
)

// feedBuffer is how many live events a subscription holds before the worker
// drops them; a dropped one is read again from the ledger.
const feedBuffer = 256

// feedPageRows are few: an event may hold all that a run printed.
const feedPageRows = 50

// subscribed is the answer: events after Since follow. Seq is the last one of
// the ledger now: a Since above it belongs to another ledger.
type subscribed struct {
	Subscribed bool  `json:"subscribed"`
	Since      int64 `json:"since"`
	Seq        int64 `json:"seq"`
}

// subscribe answers rota.subscribe and starts the feed. A feed waits for its
// own slow client in its own goroutine: the worker drops events of a full
// subscription, and the feed pages them in again by sequence number, so a
// subscriber misses none and holds up nobody.
func (c *conn) subscribe(ctx context.Context, req request) {
	p, err := readParams(req.Method, req.Params)
	if err == nil {
		err = p.only("since")
	}
	var since int64
	if err == nil {
		since, err = p.whole("since", 0, 1<<62, -1)
	}
	if err == nil && c.feed != nil {
		err = &WireError{Code: CodeInvalidRequest, Message: "this connection has a subscription already"}
	}
	if err != nil {
		c.sendError(req.ID, wireError(req.Method, err))
		return
	}
	select {
	case <-c.h.opts.Worker.Ready(): // until then the snapshot does not know where the ledger ends
	case <-c.gone.Done():
		return
	}
	sub := c.h.opts.Worker.Subscribe(feedBuffer)
	feeding, stop := context.WithCancel(ctx)
	c.feed = stop
	c.deaf.Store(true) // from now on the connection hears of the ledger itself
	// What is published after this is committed after it, or is in the snapshot.
	seq := c.h.opts.Worker.Snapshot().Version
	if since < 0 {
		since = seq
	}
	if !c.send(response{Type: "res", ID: req.ID, OK: true, Payload: subscribed{true, since, seq}}) {
		sub.Close()
		return
	}
	c.feeds.Add(1)
	go func() {
		defer c.feeds.Done()
		defer sub.Close()
		f := feed{c: c, sub: sub, lastSeq: since}
		if err := f.run(feeding); err != nil && feeding.Err() == nil && c.gone.Err() == nil {
			c.sendError(connErrorID, wireError(req.Method, err))
			c.finish()
		}
	}()
}

// feed sends the events after lastSeq.
type feed struct {
	c       *conn
	sub     *worker.Subscription
	lastSeq int64
}

func (f *feed) run(ctx context.Context) error {
	if err := f.page(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.c.gone.Done():
			return nil
		case ev, ok := <-f.sub.C:
			if !ok {
				return nil
			}
			if ev.Seq == 0 {
				continue // of the moment only: not a committed fact
			}
			// What was dropped is newer than what is still in the buffer, so
			// paging from here leaves no hole.
			if f.sub.Lost() {
				if err := f.page(ctx); err != nil {
					return err
				}
			}
			f.send(ev)
		}
	}
}

// page sends what the ledger has after lastSeq, to its end.
func (f *feed) page(ctx context.Context) error {
	for {
		events, err := f.c.h.opts.Worker.Events(ctx, worker.EventsQuery{SinceSeq: f.lastSeq, Limit: feedPageRows})
		if err != nil || len(events) == 0 {
			return err
		}
		for _, ev := range events {
			if !f.send(ev) {
				return nil
			}
		}
	}
}

func (f *feed) send(ev worker.Event) bool {
	if ev.Seq <= f.lastSeq {
		return true
	}
	if !f.c.hasRoom() {
		return false
	}
	f.lastSeq = ev.Seq
	frame, err := encodeEvent("rota", ev)
	if err != nil {
		f.c.h.opts.Log.Error("event cannot be encoded", "seq", ev.Seq, "err", err)
		return true
	}
	return f.c.queue(outgoing{bytes: frame, event: true})
}
