package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// The connection is lost again and again, and the host itself restarts once:
// whoever follows sees every event, in order, once.
func TestFollowHasNoGapAndNoRepeat(t *testing.T) {
	r := newGatewayRig(t)
	id := r.addJob("watched")
	var current *Client
	dials := 0
	dial := func(ctx context.Context) (*Client, error) {
		dials++
		c, err := DialURL(ctx, r.remote(ScopeRead))
		if dials%2 == 0 { // the two surfaces in turn
			c, err = Dial(r.sock)
		}
		current = c
		return c, err
	}
	edits := 0
	edit := func() {
		edits++
		r.ask("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"displayName":"edit %d"}}`, id, edits))
	}
	enough := errors.New("enough")
	var seqs []int64
	losses := 0
	err := Follow(t.Context(), dial, 0, func(ev worker.Event) error {
		seqs = append(seqs, ev.Seq)
		switch {
		case edits == 9 && ev.Kind == worker.EventJobUpdated && len(seqs) >= 10:
			if ev.Seq == int64(r.opts.Worker.Snapshot().Version) {
				return enough
			}
		case edits < 9:
			edit()
			if edits%3 == 0 {
				current.Close()
			}
		}
		return nil
	}, func(cause error, pause time.Duration) {
		losses++
		if cause == nil || pause != firstRetry {
			t.Errorf("loss %d: %v, pause %v", losses, cause, pause)
		}
		if edits < 9 {
			edit() // while nobody listens
		}
	})
	if !errors.Is(err, enough) {
		t.Fatalf("ended with %v after %v", err, seqs)
	}
	if losses == 0 {
		t.Error("nothing was lost: this test shows nothing")
	}
	want, err := r.opts.Worker.Events(t.Context(), worker.EventsQuery{Limit: 1000})
	if err != nil || len(want) != len(seqs) {
		t.Fatalf("%d of %d events: %v %v", len(seqs), len(want), seqs, err)
	}
	for i, ev := range want {
		if seqs[i] != ev.Seq {
			t.Errorf("event %d is %d, want %d", i, seqs[i], ev.Seq)
		}
	}
}

// Who follows from now on and loses the connection before anything happened
// misses nothing either: the answer says where now was.
func TestFollowFromNowKeepsItsPlace(t *testing.T) {
	r := newGatewayRig(t)
	r.addJob("before")
	first := r.dialURL(ScopeRead)
	now, err := first.begin(t.Context(), -1)
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	r.addJob("while nobody listens")
	second := r.dialURL(ScopeRead)
	if again, err := second.begin(t.Context(), now); err != nil || again != now {
		t.Fatalf("goes on at %d, want %d: %v", again, now, err)
	}
	enough := errors.New("enough")
	if err := second.listen(t.Context(), func(ev worker.Event) error {
		if ev.Kind != worker.EventJobAdded || ev.Seq != now+1 {
			t.Errorf("after %d comes %+v", now, ev)
		}
		return enough
	}); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// What trying again cannot mend ends it.
func TestFollowGivesUp(t *testing.T) {
	r := newGatewayRig(t)
	lost := func(cause error, _ time.Duration) { t.Errorf("tried again after %v", cause) }
	each := func(worker.Event) error { return nil }
	dial := func(remote Remote) func(context.Context) (*Client, error) {
		return func(ctx context.Context) (*Client, error) { return DialURL(ctx, remote) }
	}
	var refusal *WireError
	if err := Follow(t.Context(), dial(Remote{URL: r.URL(), Token: "wrong"}), 0, each, lost); !errors.As(err, &refusal) {
		t.Errorf("a wrong token: %v", err)
	}
	if err := Follow(t.Context(), dial(r.remote()), 0, each, lost); !errors.As(err, &refusal) || refusal.Code != CodeForbidden {
		t.Errorf("no scope: %v", err)
	}
	var other *OtherLedgerError
	if err := Follow(t.Context(), dial(r.remote(ScopeRead)), 1_000_000, each, lost); !errors.As(err, &other) || other.Since != 1_000_000 {
		t.Errorf("another ledger: %v", err)
	}
	var none *NoServerError
	if err := Follow(t.Context(), func(context.Context) (*Client, error) { return Dial(r.sock + "-nobody") }, 0, each, lost); !errors.As(err, &none) {
		t.Errorf("nobody there: %v", err)
	}
}

// What waits for a subscriber that reads nothing is bounded in bytes, and all of
// it comes when it reads.
func TestAFeedWaitsForASlowClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConn(&Host{}, nil, grant{}, gatewayQueue)
		f := feed{c: c}
		const events, size = 30, 1 << 20
		detail := json.RawMessage(`"` + strings.Repeat("x", size) + `"`)
		go func() {
			for seq := range int64(events) {
				f.send(worker.Event{Seq: seq + 1, Detail: detail})
			}
		}()
		asked := make(chan bool, 1)
		synctest.Wait()
		if waiting := c.unsent.Load(); waiting <= maxUnsentBytes || waiting > maxUnsentBytes+2*size {
			t.Errorf("%d bytes wait", waiting)
		}
		go func() { asked <- c.hasRoom() }() // the reader of the connection waits too
		for range events {
			synctest.Wait()
			select {
			case o := <-c.out:
				c.unsent.Add(-int64(len(o.bytes)))
			default:
				t.Fatal("the feed has stopped")
			}
			select {
			case c.room <- struct{}{}:
			default:
			}
		}
		if !<-asked {
			t.Error("the reader waits for ever")
		}
	})
}
