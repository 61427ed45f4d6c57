package host

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/rota-scheduler/rota/worker"
)

func TestFramesOfTheGateway(t *testing.T) {
	r := newGatewayRig(t)
	w := r.enter(ScopeAdmin)
	for _, c := range []struct {
		name, frame, id, message string // message "" = accepted
	}{
		{"a request", `{"type":"req","id":"1","method":"cron.status","params":{}}`, "1", ""},
		{"known extra keys", `{"type":"req","id":"2","method":"cron.status","traceparent":"x","expectedProfileId":"p"}`, "2", ""},
		{"no method", `{"type":"req","id":"nomethod"}`, "nomethod", "invalid request frame: must have required property 'method'"},
		{"unknown key", `{"type":"req","id":"4","method":"cron.status","extra":1}`, "4", "invalid request frame: at root: unexpected property 'extra'"},
		{"key twice", `{"type":"req","id":"5","method":"cron.status","method":"cron.list"}`, "5", "invalid request frame: duplicate property 'method'"},
		{"other type", `{"type":"event","id":"7","method":"cron.status"}`, "7", "invalid request frame: at /type: must be equal to constant"},
		{"unknown method", `{"type":"req","id":"8","method":"cron.nosuchmethod"}`, "8", "unknown method: cron.nosuchmethod"},
		{"connect again", `{"type":"req","id":"9","method":"connect"}`, "9", "unknown method: connect"},
		{"a key twice in a command", `{"type":"req","id":"10","method":"cron.add","params":{"name":"a","schedule":{"kind":"every","everyMs":3600000},"payload":{"kind":"command","argv":["true"],"argv":["rm"]}}}`, "10", "invalid cron.add params: …"},
		{"a key in two spellings", `{"type":"req","id":"11","method":"cron.add","params":{"name":"a","schedule":{"kind":"every","everyMs":3600000},"payload":{"kind":"command","argv":["true"],"Argv":["rm"]}}}`, "11", "invalid cron.add params: …"},
		{"no id", `{"type":"req","method":"cron.status"}`, "-", "invalid request frame: must have required property 'id'"},
		{"not JSON", `not json`, "-", "invalid request frame: …"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.send(c.frame)
			f := w.answer(c.id)
			fault, _ := f["error"].(map[string]any)
			if message, _ := fault["message"].(string); f["ok"] != (c.message == "") || !matches(message, c.message) {
				t.Errorf("answered %v, want %q", f, c.message)
			}
		})
	}
	if n := r.opts.Worker.Snapshot().Len(); n != 0 {
		t.Errorf("%d jobs were made", n)
	}
	if err := w.ws.Write(w.ctx, websocket.MessageBinary, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	w.closes(closeNotText, "text frames only")
}

func TestOversizedFrameEndsTheConnection(t *testing.T) {
	r := newGatewayRig(t)
	w := r.enter(ScopeRead)
	go func() { _ = w.ws.Write(w.ctx, websocket.MessageText, make([]byte, maxPayload+1)) }()
	w.closes(closeTooBig, "payload too large")
	r.serves(t)
}

// The events of a job's life come to whoever may read, numbered by connection,
// with the job as it is stored.
func TestCronEvents(t *testing.T) {
	r := newGatewayRig(t)
	reader, admin, nobody := r.enter(ScopeRead), r.enter(ScopeAdmin), r.enter()
	id := r.addJob("watched")
	r.ask("cron.update", `{"id":"`+id+`","patch":{"displayName":"seen"}}`)
	runID := r.ask("cron.run", `{"id":"`+id+`"}`)["runId"].(string)
	r.finish(runID, "printed")
	r.ask("cron.remove", `{"id":"`+id+`"}`)
	for _, w := range []*wsWire{reader, admin} {
		for i, action := range []string{"added", "updated", "started", "finished", "removed"} {
			f := w.event("cron")
			p, _ := f["payload"].(map[string]any)
			job, _ := p["job"].(map[string]any)
			if p["action"] != action || p["jobId"] != id || f["seq"] != float64(i+1) || job["id"] != id || job["state"] == nil {
				t.Fatalf("event %d is %v, want %s", i+1, f, action)
			}
			for _, derived := range []string{"configRevision", "nextRunAtMs", "deliveryPreview"} {
				if job[derived] != nil {
					t.Errorf("%s: the job has %s, which is not stored", action, derived)
				}
			}
			for _, private := range []string{"rotaConsumedMs", "runningReceiptId"} {
				if job["state"].(map[string]any)[private] != nil {
					t.Errorf("%s: the state shows %s", action, private)
				}
			}
			switch action {
			case "added", "updated":
				if p["nextRunAtMs"] == nil {
					t.Errorf("%s has no next run: %v", action, p)
				}
			case "started":
				if p["runAtMs"] == nil || p["runId"] != nil {
					t.Errorf("started: %v", p)
				}
			case "finished":
				if p["status"] != "ok" || p["completionStatus"] != "succeeded" || p["summary"] != "printed" || p["deliveryStatus"] != "not-requested" ||
					p["runId"] != runID || p["runAtMs"] == nil || p["durationMs"] == nil || p["nextRunAtMs"] == nil {
					t.Errorf("finished: %v", p)
				}
			}
		}
	}
	nobody.send(`{"type":"req","id":"end","method":"nope"}`)
	if f := nobody.mustFrame(); f["id"] != "end" {
		t.Errorf("without a scope: %v", f)
	}
}

// A slot that is requested or decided against moves a deadline.
func TestScheduledEvents(t *testing.T) {
	r := newGatewayRig(t)
	id := r.addJob("timed")
	j, _ := r.opts.Worker.Snapshot().Job(id)
	for _, c := range []struct {
		ev   worker.Event
		want bool
	}{
		{worker.Event{Kind: worker.EventRequested, JobID: id, SlotMs: 5, Job: j}, true},
		{worker.Event{Kind: worker.EventSkippedSlot, JobID: id, SlotMs: 5, Job: j}, true},
		{worker.Event{Kind: worker.EventRequested, JobID: id, Job: j}, false}, // a manual run keeps the deadline
		{worker.Event{Kind: worker.EventSkippedSlot, JobID: id, SlotMs: 5}, false},
		{worker.Event{Kind: worker.EventNoted}, false},
		{worker.Event{Kind: worker.EventProcess, JobID: id, Job: j}, false},
	} {
		payload, err := cronEvent(c.ev)
		if err != nil {
			t.Fatal(err)
		}
		if (payload != nil) != c.want {
			t.Errorf("%s with slot %d: %s", c.ev.Kind, c.ev.SlotMs, payload)
		}
		if payload != nil {
			if p := asMap(t, payload); p["action"] != "scheduled" || p["nextRunAtMs"] == nil {
				t.Errorf("%s: %v", c.ev.Kind, p)
			}
		}
	}
}

func TestTicksGoToAll(t *testing.T) {
	r := newGatewayRig(t, func(h *Host) { h.gateway.tickEvery = 20 * time.Millisecond })
	w := r.enter()
	for seq := 1; seq <= 3; seq++ {
		f := w.event("tick")
		if p, _ := f["payload"].(map[string]any); p["ts"] == nil || f["seq"] != float64(seq) {
			t.Errorf("tick %d: %v", seq, f)
		}
	}
}

// A client that is gone without a word is found out; one that answers pings
// stays, though it asks for nothing.
func TestSilentClientsAreFoundOut(t *testing.T) {
	r := newGatewayRig(t, func(h *Host) { h.gateway.pingEvery = time.Second })
	alive := r.enter(ScopeRead)
	heard := make(chan map[string]any, 1)
	go func() { heard <- alive.event("cron") }() // reading answers pings
	r.enter()                                    // and never reads
	timeout := time.After(deadline)
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for open := 2; open != 1; {
		select {
		case <-look.C:
		case <-timeout:
			t.Fatalf("%d connections are open", open)
		}
		r.gateway.mu.Lock()
		open = len(r.gateway.conns)
		r.gateway.mu.Unlock()
	}
	r.addJob("seen")
	if f := <-heard; f["payload"].(map[string]any)["action"] != "added" {
		t.Errorf("the other one heard %v", f)
	}
}

// A stop is announced, what is pending is answered, and the close says that it
// is worth coming back.
func TestCase132StopTellsTheClients(t *testing.T) {
	r := newGatewayRig(t)
	clients := []*wsWire{r.enter(ScopeRead), r.enter(), r.enter(ScopeAdmin)}
	unmet := r.knock()
	clients[2].send(`{"type":"req","id":"s","method":"rota.subscribe","params":{"since":0}}`)
	clients[2].answer("s")
	began := time.Now()
	r.stop()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the stop took %v", d)
	}
	for _, w := range clients {
		f := w.event("shutdown")
		if p, _ := f["payload"].(map[string]any); p["reason"] != "rota is stopping" {
			t.Errorf("told %v", f)
		}
		w.closes(closeRestart, "service restart")
	}
	for { // greeted, perhaps, and then left
		if _, _, err := unmet.ws.Read(unmet.ctx); err != nil {
			break
		}
	}
}

// A client that reads nothing, one that never answers the close, and one in
// the middle of its handshake hold up no stop.
func TestCase132StopWaitsForNoClient(t *testing.T) {
	r := newGatewayRig(t, func(h *Host) { h.writeTimeout = time.Minute })
	id := r.addJob("noisy")
	r.ask("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"description":"%s"}}`, id, strings.Repeat("x", 9000)))
	slow := r.enter(ScopeRead)
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		for range 3000 {
			if slow.ws.Write(slow.ctx, websocket.MessageText, []byte(`{"type":"req","id":"1","method":"cron.get","params":{"id":"`+id+`"}}`)) != nil {
				return
			}
		}
	}()
	r.knock()
	began := time.Now()
	r.stop()
	if d := time.Since(began); d > 3*time.Second {
		t.Errorf("the stop took %v", d)
	}
	slow.ws.CloseNow()
	<-asked
}

// A client that does not read misses events, sees that in their numbers, and is
// closed in the end; nobody else notices.
func TestSlowClientMissesEventsAndHoldsUpNobody(t *testing.T) {
	r := newGatewayRig(t, func(h *Host) { h.writeTimeout, h.gateway.pingEvery = 2*time.Minute, 2*time.Minute })
	slow, quick := r.enter(ScopeRead), r.enter(ScopeRead)
	id := r.addJob("noisy")
	long := strings.Repeat("z", 100_000)
	const edits = 250
	seen := make(chan int)
	go func() {
		n := 0
		for quick.event("cron")["payload"].(map[string]any)["action"] != "removed" {
			n++
		}
		seen <- n
	}()
	for i := range edits {
		r.ask("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"payload":{"kind":"command","input":"%d %s"}}}`, id, i, long))
	}
	var slowConn *conn
	r.gateway.mu.Lock()
	for c := range r.gateway.conns {
		if slowConn == nil || c.dropped.Load() > slowConn.dropped.Load() {
			slowConn = c
		}
		if c.unsent.Load() > maxUnsentBytes {
			t.Errorf("%d bytes wait for one client", c.unsent.Load())
		}
	}
	r.gateway.mu.Unlock()
	if slowConn.dropped.Load() == 0 {
		t.Error("nobody missed an event: this test shows nothing")
	}
	r.ask("cron.remove", `{"id":"`+id+`"}`)
	if n := <-seen; n != edits+1 {
		t.Errorf("the quick client saw %d of %d events", n, edits+1)
	}
	// What the slow one reads now has a gap somewhere, told by the numbers.
	gap := false
	for last := 0.0; !gap; {
		f := slow.event("cron")
		gap = f["seq"].(float64) > last+1
		last = f["seq"].(float64)
	}
}

// Answers that nobody takes end their connection.
func TestUnreadAnswersEndTheConnection(t *testing.T) {
	r := newGatewayRig(t)
	l := &lineLink{}
	c := newConn(r.Host, l, grant{scopes: []string{ScopeAdmin}, maxUnsent: 1000}, 10)
	nc, far := pipe(t)
	l.nc = nc
	if !c.send(response{Type: "res", ID: "1", Payload: strings.Repeat("x", 500)}) {
		t.Error("500 bytes are too many")
	}
	if c.send(response{Type: "res", ID: "2", Payload: strings.Repeat("x", 500)}) {
		t.Error("1,000 bytes were queued")
	}
	if _, err := far.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open")
	}
}

// What is too long is refused with a sentence, and the connection goes on.
func TestLongRequestsAndAnswersAreRefused(t *testing.T) {
	r := newGatewayRig(t)
	w := r.enter(ScopeAdmin)
	add := func(id string, bytes int) map[string]any {
		w.send(`{"type":"req","id":"` + id + `","method":"cron.add","params":{"name":"` + id + `","schedule":{"kind":"every","everyMs":86400000},` +
			`"payload":{"kind":"command","argv":["true"],"input":"` + strings.Repeat("i", bytes) + `"}}}`)
		return w.answer(id)
	}
	fault, _ := add("long", maxRequestBytes)["error"].(map[string]any)
	if fault["code"] != CodeInvalidRequest || fault["message"] != "invalid cron.add params: at root: must not have more than 1048576 bytes" {
		t.Errorf("a long request: %v", fault)
	}
	most := maxRequestBytes - 1000
	for i := range 10 { // more than a page of long jobs holds
		if f := add(fmt.Sprint("job", i), most); f["ok"] != true {
			t.Fatal(f["error"])
		}
	}
	w.send(`{"type":"req","id":"list","method":"cron.list"}`)
	page, _ := w.answer("list")["payload"].(map[string]any)
	if jobs, _ := page["jobs"].([]any); len(jobs) == 0 || page["hasMore"] != true || page["nextOffset"] != float64(len(jobs)) {
		t.Errorf("a long answer is not a shorter page: %d jobs, more %v, next %v", len(jobs), page["hasMore"], page["nextOffset"])
	}
}

// Thirty calls a minute of a method that writes; reads, other methods and the
// socket are free.
func TestWritesAreLimited(t *testing.T) {
	r := newRigWith(t, nil, func(o *Options) { withGateway(o); o.RateLimit = DefaultRateLimit })
	first, second := r.enter(ScopeAdmin), r.enter(ScopeAdmin)
	call := func(w *wsWire, method, params string) map[string]any {
		w.send(`{"type":"req","id":"1","method":"` + method + `","params":` + params + `}`)
		return w.answer("1")
	}
	for i := range DefaultRateLimit {
		w := []*wsWire{first, second}[i%2] // one client, two connections
		if fault, _ := call(w, "cron.remove", `{"id":"x"}`)["error"].(map[string]any); detail(fault) != DetailJobNotFound {
			t.Fatalf("call %d: %v", i+1, fault)
		}
	}
	fault, _ := call(second, "cron.remove", `{"id":"x"}`)["error"].(map[string]any)
	retry, _ := fault["retryAfterMs"].(float64)
	want := map[string]any{"method": "cron.remove", "limit": "30 per 60s"}
	if fault["code"] != CodeUnavailable || fault["retryable"] != true || retry < 1 || retry > 60_000 || !reflect.DeepEqual(fault["details"], want) {
		t.Errorf("one more: %v", fault)
	}
	if fault, _ := call(first, "cron.run", `{"id":"x"}`)["error"].(map[string]any); detail(fault) != DetailJobNotFound {
		t.Errorf("another method: %v", fault)
	}
	for range 2 * DefaultRateLimit {
		if f := call(first, "cron.status", `{}`); f["ok"] != true {
			t.Fatalf("a read: %v", f)
		}
		r.refused("cron.remove", `{"id":"x"}`)
	}
	r.SetRateLimit(0)
	if fault, _ := call(first, "cron.remove", `{"id":"x"}`)["error"].(map[string]any); detail(fault) != DetailJobNotFound {
		t.Errorf("with the limit off: %v", fault)
	}
}

func TestLimiter(t *testing.T) {
	l, now := newLimiter(2), time.Now()
	for i, c := range []struct {
		key   string
		after time.Duration
		wait  time.Duration
	}{
		{"a", 0, 0}, {"a", time.Second, 0}, {"a", 2 * time.Second, 58 * time.Second}, {"b", 2 * time.Second, 0},
		{"a", 59 * time.Second, time.Second}, {"a", 60 * time.Second, 0}, {"a", 61 * time.Second, 0}, {"a", 62 * time.Second, 58 * time.Second},
	} {
		if wait := l.take(c.key, now.Add(c.after)); wait != c.wait {
			t.Errorf("call %d: wait %v, want %v", i+1, wait, c.wait)
		}
	}
	const many = maxLimited + 200
	for i := range many {
		l.take(fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(l.windows) > maxLimited {
		t.Errorf("%d clients are remembered", len(l.windows))
	}
	if wait := l.take(fmt.Sprint(many-1), now.Add(5*time.Second)); wait != 0 {
		t.Errorf("its second call waits %v", wait)
	}
}

func TestGatewayConnectionsAreBounded(t *testing.T) {
	r := newGatewayRig(t)
	open := make([]*wsWire, 0, maxConns)
	for range maxConns {
		open = append(open, r.enter(ScopeRead))
	}
	over := r.knock()
	over.mustFrame()
	over.send(connectFrame(rigToken))
	fault, _ := over.mustFrame()["error"].(map[string]any)
	if fault["code"] != CodeUnavailable || fault["retryable"] != true {
		t.Errorf("one too many: %v", fault)
	}
	over.closes(closeBusy, "no connection is free")
	r.serves(t) // the socket has places of its own
	if err := open[0].ws.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	for { // who leaves makes room
		w := r.knock()
		w.mustFrame()
		w.send(connectFrame(rigToken))
		if f := w.mustFrame(); f["ok"] == true {
			break
		}
	}
}

// Whoever holds connections and says nothing keeps nobody out, and disturbs
// nobody who is in.
func TestSilentConnectionsLockNobodyOut(t *testing.T) {
	r := newGatewayRig(t)
	early := r.enter(ScopeRead)
	for i := range maxSockets + 50 {
		if i%2 == 0 {
			r.knock()
			continue
		}
		nc, err := net.Dial("tcp", r.hostPort())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
	}
	for range 3 {
		r.enter(ScopeRead)
	}
	early.send(`{"type":"req","id":"1","method":"cron.status"}`)
	if f := early.answer("1"); f["ok"] != true {
		t.Errorf("the one who was in: %v", f)
	}
}

func TestTheAddressThatHoldsMostGivesWay(t *testing.T) {
	l := &boundedListener{}
	for _, from := range []string{"b", "a", "a", "c", "a", "b"} {
		l.fresh = append(l.fresh, &boundedConn{of: l, from: from})
	}
	for _, want := range []int{1, 0, 0, 0} { // a has most; then b is older than a; then a has most again; then all are alone
		victim := l.leastMissed()
		if got := slices.Index(l.fresh, victim); got != want {
			t.Fatalf("number %d of %d gives way, want %d", got, len(l.fresh), want)
		}
		victim.keep()
	}
}

// Both surfaces offer the same methods, and say so.
func TestInfoNamesTheGateway(t *testing.T) {
	r := newGatewayRig(t)
	info := r.ask("rota.info", `{}`)
	if info["url"] != r.URL() || !strings.HasPrefix(r.URL(), "ws://127.0.0.1:") {
		t.Errorf("url %v", info["url"])
	}
	for _, m := range methodRows() {
		if ScopeOf(m.Name) != m.Scope {
			t.Errorf("%s needs %q", m.Name, ScopeOf(m.Name))
		}
		limited := slices.Contains([]string{"cron.add", "cron.update", "cron.remove", "cron.run", "rota.stop"}, m.Name)
		if m.Write != limited {
			t.Errorf("%s: limited %v", m.Name, m.Write)
		}
	}
}
