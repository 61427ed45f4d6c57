package host

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// 20 clients of the gateway write at once while runs come and go: every call is
// acknowledged, none is told of a lock, and what was acknowledged is there.
func TestCase037ManyClientsWriteAtOnce(t *testing.T) {
	r := newGatewayRig(t)
	busy := r.addJob("busy")
	const clients, calls = 20, 100
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { // the daemon has other work meanwhile
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			answer, werr := r.Handle(t.Context(), "cron.run", json.RawMessage(`{"id":"`+busy+`"}`))
			if run, ok := answer.(enqueued); werr == nil && ok {
				r.finish(run.RunID, "worked")
			}
		}
	}()
	var wg sync.WaitGroup
	var mu sync.Mutex
	acknowledged := map[string]string{} // id by the name it has in the end
	var slowest time.Duration
	for n := range clients {
		wg.Add(1)
		c := r.dialURL(ScopeAdmin)
		go func() {
			defer wg.Done()
			for i := range calls / 2 {
				name := fmt.Sprintf("job %d.%d", n, i)
				var added struct{ ID string }
				began := time.Now()
				err := c.Call(t.Context(), "cron.add", map[string]any{"name": name + " first", "schedule": map[string]any{"kind": "every", "everyMs": 86_400_000},
					"payload": map[string]any{"kind": "command", "argv": []string{"true"}}}, &added)
				middle := time.Now()
				if err == nil {
					err = c.Call(t.Context(), "cron.update", map[string]any{"id": added.ID, "patch": map[string]any{"name": name}}, nil)
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				acknowledged[name] = added.ID
				slowest = max(slowest, middle.Sub(began), time.Since(middle))
				mu.Unlock()
			}
		}()
	}
	wg.Wait()
	close(stop)
	<-stopped
	if len(acknowledged) != clients*calls/2 {
		t.Errorf("%d of %d jobs were acknowledged", len(acknowledged), clients*calls/2)
	}
	for name, id := range acknowledged {
		if j, ok := r.opts.Worker.Snapshot().Job(id); !ok || j.Name != name {
			t.Errorf("%s was acknowledged and is not there", name)
		}
	}
	if slowest > 2*time.Second {
		t.Errorf("the slowest of %d calls took %v", clients*calls, slowest)
	}
}

// The same over the network: a walk over pages shows each job that was there
// all the time once, and its total is what status says.
func TestCase041PagesOverTheGateway(t *testing.T) {
	r := newGatewayRig(t)
	ids := make([]string, 0, 250)
	for range 250 {
		ids = append(ids, r.addJob("same"))
	}
	reader, writer := r.dialURL(ScopeRead), r.dialURL(ScopeAdmin)
	call := func(c *Client, method, params string, into any) {
		t.Helper()
		if err := c.Call(t.Context(), method, json.RawMessage(params), into); err != nil {
			t.Fatal(err)
		}
	}
	type page struct {
		Jobs             []struct{ ID string }
		SnapshotRevision string
		Total            int
		NextOffset       *int
	}
	seen := map[string]int{}
	restarts := 0
	for offset, revision := 0, ""; ; {
		var p page
		call(reader, "cron.list", fmt.Sprintf(`{"limit":50,"offset":%d,"includeDisabled":true}`, offset), &p)
		if revision != "" && p.SnapshotRevision != revision { // as clients do: from the start again
			offset, revision, seen = 0, "", map[string]int{}
			restarts++
			continue
		}
		revision = p.SnapshotRevision
		for _, j := range p.Jobs {
			seen[j.ID]++
		}
		if offset == 100 && restarts == 0 { // in the middle of the first walk five go and five come
			for i := range 5 {
				call(writer, "cron.remove", `{"id":"`+ids[249-i]+`"}`, nil)
				r.addJob("same")
			}
		}
		if p.NextOffset == nil {
			break
		}
		offset = *p.NextOffset
	}
	if restarts != 1 {
		t.Errorf("the change was seen %d times", restarts)
	}
	for _, id := range ids[:245] {
		if seen[id] != 1 {
			t.Errorf("job %s was shown %d times", id, seen[id])
		}
	}
	var status struct{ Jobs int }
	call(reader, "cron.status", `{}`, &status)
	if status.Jobs != len(seen) || len(seen) != 250 {
		t.Errorf("status counts %d jobs, the walk saw %d", status.Jobs, len(seen))
	}
	for _, limit := range []string{"0", "-1", "1000000000"} {
		if err := reader.Call(t.Context(), "cron.list", json.RawMessage(`{"limit":`+limit+`}`), nil); err == nil || !strings.Contains(err.Error(), "/limit") {
			t.Errorf("limit %s: %v", limit, err)
		}
	}
}
