package host

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rota-scheduler/rota/store/rawjson"
	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// tellBuffer is how many events the gateway may be behind the worker.
const tellBuffer = 4096

// tell sends what is told to all: an event for every committed fact that
// concerns jobs, and a tick. It waits for no client: one that is slow misses
// events, and sees that in their numbers.
func (g *gateway) tell(ctx context.Context) {
	sub := g.h.opts.Worker.Subscribe(tellBuffer)
	defer sub.Close()
	tick := time.NewTicker(g.tickEvery)
	tick.Stop() // until there is somebody to tell
	defer tick.Stop()
	ticking := false
	facts := sub.C
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.joined:
			if !ticking {
				tick.Reset(g.tickEvery)
				ticking = true
			}
		case now := <-tick.C:
			if ticking = g.anybody(); !ticking {
				tick.Stop()
				continue
			}
			g.tellAll("tick", "", struct {
				TsMs int64 `json:"ts"`
			}{now.UnixMilli()})
		case ev, ok := <-facts:
			if !ok {
				facts = nil // the worker has ended; the host will
				continue
			}
			if sub.Lost() {
				g.missed()
			}
			if !g.heard(ScopeRead) {
				continue
			}
			payload, err := cronEvent(ev)
			switch {
			case err != nil:
				g.h.opts.Log.Error("event cannot be encoded", "seq", ev.Seq, "err", err)
			case payload != nil:
				g.tellAll("cron", ScopeRead, payload)
			}
		}
	}
}

// tellAll offers an event to every client that has the scope.
func (g *gateway) tellAll(name, scope string, payload any) {
	frame, err := encodeEvent(name, payload)
	if err != nil {
		g.h.opts.Log.Error("event cannot be encoded", "event", name, "err", err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if scope == "" || c.hears(scope) {
			c.offer(frame)
		}
	}
}

// hears reports whether events that need a scope go to this connection.
func (c *conn) hears(scope string) bool { return covers(c.may.scopes, scope) && !c.deaf.Load() }

// anybody reports whether anybody is connected.
func (g *gateway) anybody() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.conns) > 0
}

// heard reports whether anybody would hear an event.
func (g *gateway) heard(scope string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if c.hears(scope) {
			return true
		}
	}
	return false
}

// missed leaves a gap in everybody's numbers.
func (g *gateway) missed() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if c.hears(ScopeRead) {
			c.dropped.Add(1)
		}
	}
}

// cronActions says what the `cron` event calls a committed fact. A deadline
// moves when a slot is requested and when one is decided against.
var cronActions = map[string]string{
	worker.EventJobAdded:    "added",
	worker.EventJobUpdated:  "updated",
	worker.EventJobRemoved:  "removed",
	worker.EventRequested:   "scheduled",
	worker.EventSkippedSlot: "scheduled",
	worker.EventStarted:     "started",
	worker.EventFinished:    "finished",
}

// finishedKeys are the members of a history entry that a finished event has.
var finishedKeys = []string{"status", "completionStatus", "error", "summary", "diagnostics", "delivered", "deliveryStatus", "deliveryError",
	"deliverySuppressionReason", "failureNotificationDelivery", "delivery", "sessionId", "sessionKey", "runId", "runAtMs", "durationMs",
	"nextRunAtMs", "triggerFired", "model", "provider", "usage"}

// cronEvent is the payload of the `cron` event for a committed fact; nil for
// facts that it does not tell of.
func cronEvent(ev worker.Event) (json.RawMessage, error) {
	action := cronActions[ev.Kind]
	if action == "" || action == "scheduled" && (ev.Job == nil || ev.SlotMs == 0) {
		return nil, nil
	}
	members := []job.Member{{Key: "jobId", Value: quoted(ev.JobID)}, {Key: "action", Value: quoted(action)}}
	if ev.Job != nil {
		view, err := job.PublicView(row(ev.Job))
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", ev.JobID, err)
		}
		members = append(members, job.Member{Key: "job", Value: view})
	}
	members = append(members, factMembers(action, ev)...)
	return job.Set([]byte("{}"), members...)
}

// factMembers are what an action tells beside the job.
func factMembers(action string, ev worker.Event) (members []job.Member) {
	add := func(key string, value json.RawMessage) {
		if len(value) > 0 {
			members = append(members, job.Member{Key: key, Value: value})
		}
	}
	switch action {
	case "added", "updated", "scheduled":
		if ev.Job != nil {
			add("nextRunAtMs", rawjson.Get(ev.Job.State, "nextRunAtMs"))
		}
	case "started":
		startedAt := json.RawMessage(strconv.FormatInt(ev.AtMs, 10))
		if ev.Job != nil {
			if active := rawjson.Get(ev.Job.State, "runningAtMs"); len(active) > 0 {
				startedAt = active
			}
		}
		add("runAtMs", startedAt)
	case "finished":
		entry := map[string]json.RawMessage{}
		for key, value := range job.Members(ev.Detail) {
			if slices.Contains(finishedKeys, key) {
				entry[key] = value
			}
		}
		for _, key := range finishedKeys {
			add(key, entry[key])
		}
	}
	return members
}
