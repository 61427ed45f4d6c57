package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

func TestFramesOfTheSocket(t *testing.T) {
	for _, c := range []struct {
		name, line string
		id         string // of the answer
		message    string // "" = accepted; "…" at the end: begins so
		closes     bool
	}{
		{"a request", `{"type":"req","id":"1","method":"cron.status","params":{}}`, "1", "", false},
		{"no params", `{"type":"req","id":"2","method":"cron.status"}`, "2", "", false},
		{"known extra keys", `{"type":"req","id":"3","method":"cron.status","traceparent":"x","expectedProfileId":"p"}`, "3", "", false},
		{"no method", `{"type":"req","id":"nomethod"}`, "nomethod", "invalid request frame: must have required property 'method'", false},
		{"unknown key", `{"type":"req","id":"4","method":"cron.status","extra":1}`, "4", "invalid request frame: at root: unexpected property 'extra'", false},
		{"key twice", `{"type":"req","id":"5","method":"cron.status","method":"cron.list"}`, "5", "invalid request frame: duplicate property 'method'", false},
		{"params key twice", `{"type":"req","id":"6","method":"cron.get","params":{"id":"a","id":"b"}}`, "6", "invalid cron.get params: …", false},
		{"other type", `{"type":"res","id":"7","method":"cron.status"}`, "7", "invalid request frame: at /type: must be equal to constant", false},
		{"no id", `{"type":"req","method":"cron.status"}`, "-", "invalid request frame: must have required property 'id'", true},
		{"not JSON", `not json`, "-", "invalid request frame: not a JSON object on one line", true},
		{"an array", `[1]`, "-", "invalid request frame: not a JSON object on one line", true},
		{"a line over 1 MiB", `{"type":"req","id":"8","method":"cron.status","params":{"x":"` + strings.Repeat("x", 1<<20) + `"}}`, "-", "invalid request frame: a line may have at most 1048576 bytes", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newRig(t, nil).connect()
			go func() { _, _ = w.nc.Write([]byte(c.line + "\n")) }() // a refused line is not read to its end
			f := w.mustFrame()
			if f["type"] != "res" || f["id"] != c.id || f["ok"] != (c.message == "") {
				t.Fatalf("answered %v", f)
			}
			if c.message != "" {
				got := f["error"].(map[string]any)["message"].(string)
				if start, open := strings.CutSuffix(c.message, "…"); open && !strings.HasPrefix(got, start) || !open && got != c.message {
					t.Errorf("message %q, want %q", got, c.message)
				}
			}
			if c.closes {
				if f, ok := w.frame(); ok {
					t.Errorf("the connection goes on: %v", f)
				}
				return
			}
			w.send(`{"type":"req","id":"after","method":"cron.status"}`)
			if f := w.mustFrame(); f["id"] != "after" || f["ok"] != true {
				t.Errorf("the connection is of no use afterwards: %v", f)
			}
		})
	}
}

// A client that says all it has and closes its side still gets its answers.
func TestHalfClosedConnectionIsAnswered(t *testing.T) {
	w := newRig(t, nil).connect()
	for i := range 20 {
		w.send(fmt.Sprintf(`{"type":"req","id":"%d","method":"cron.runs"}`, i))
	}
	if err := w.nc.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answers := map[string]bool{}
	for {
		f, ok := w.frame()
		if !ok {
			break
		}
		answers[f["id"].(string)] = f["ok"] == true
	}
	if len(answers) != 20 {
		t.Errorf("%d of 20 answers", len(answers))
	}
}

func TestSixtyFourConnections(t *testing.T) {
	r := newRig(t, nil)
	var open []*wire
	for range maxConns {
		w := r.connect()
		w.send(`{"type":"req","id":"1","method":"cron.status"}`)
		open = append(open, w)
	}
	for _, w := range open {
		if f := w.mustFrame(); f["ok"] != true {
			t.Fatalf("refused: %v", f)
		}
	}
	over := r.connect()
	f := over.mustFrame()
	if fault, _ := f["error"].(map[string]any); f["id"] != "-" || fault["code"] != CodeUnavailable || fault["retryable"] != true {
		t.Errorf("one too many was answered %v", f)
	}
	if f, ok := over.frame(); ok {
		t.Errorf("and goes on: %v", f)
	}
	// Who leaves makes room.
	open[0].nc.Close()
	r.serves(t)
}

// serves waits until a new connection is served; one that finds no room asks
// again.
func (r *rig) serves(t *testing.T) {
	t.Helper()
	timeout := time.Now().Add(deadline)
	for {
		c, err := Dial(r.sock)
		if err == nil {
			err = c.Call(t.Context(), "cron.status", nil, nil)
			c.Close()
		}
		if err == nil {
			break
		}
		var wire *WireError
		if errors.As(err, &wire) && !wire.Retryable || time.Now().After(timeout) {
			t.Fatalf("not served: %v", err)
		}
	}
}

// A peer that goes away early costs nobody anything.
func TestPeerClosesEarly(t *testing.T) {
	r := newRig(t, nil)
	for range 200 {
		nc, err := net.Dial("unix", r.sock)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = nc.Write([]byte(`{"type":"req","id":"1","method":"cron.runs"}` + "\n" + `{"type":"req","id":"2","method":"rota.subscribe"`))
		nc.Close()
	}
	r.serves(t)
	timeout := time.Now().Add(deadline)
	for open := -1; open != 0; { // nothing is left of them
		r.Host.mu.Lock()
		open = len(r.conns)
		r.Host.mu.Unlock()
		if time.Now().After(timeout) {
			t.Fatalf("%d connections are still held", open)
		}
		runtime.Gosched()
	}
}

// A client that does not read is closed after the write deadline; in the
// meantime others are served, and the worker works.
func TestSlowReaderIsClosedAndHoldsUpNobody(t *testing.T) {
	r := newRig(t, nil, func(h *Host) { h.writeTimeout = 300 * time.Millisecond })
	id := r.addJob("noisy")
	for i := range 40 {
		r.ask("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"description":"%d %s"}}`, id, i, strings.Repeat("x", 9000)))
	}
	slow := r.connect()
	closed := make(chan error, 1)
	go func() { // ask for far more than a socket buffer holds, and read nothing
		for {
			if _, err := slow.nc.Write([]byte(`{"type":"req","id":"1","method":"cron.get","params":{"id":"` + id + `"}}` + "\n")); err != nil {
				closed <- err
				return
			}
		}
	}()
	for i := 0; ; i++ {
		start := time.Now()
		r.ask("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"displayName":"n%d"}}`, id, i))
		if d := time.Since(start); d > 5*time.Second {
			t.Fatalf("the worker was held up for %v", d)
		}
		select {
		case err := <-closed:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the slow reader was never closed")
			}
			return
		default:
		}
	}
}

// A subscriber that falls behind misses no event and sees none twice: what the
// worker dropped is read again from the ledger.
func TestSubscriptionHasNoHoles(t *testing.T) {
	r := newRig(t, nil)
	id := r.addJob("watched")
	for i := range 20 {
		r.ask("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"displayName":"before %d"}}`, id, i))
	}
	w := r.connect()
	w.send(`{"type":"req","id":"s","method":"rota.subscribe","params":{"since":0}}`)
	if f := w.mustFrame(); f["id"] != "s" || f["ok"] != true {
		t.Fatalf("subscribe: %v", f)
	}
	// One event larger than a socket buffer, and behind it more than the queue
	// and the subscription hold, with nobody reading.
	runID := r.ask("cron.run", `{"id":"`+id+`"}`)["runId"].(string)
	r.finish(runID, strings.Repeat("z", 2<<20))
	for i := range 3 * feedBuffer {
		r.ask("cron.update", fmt.Sprintf(`{"id":"%s","patch":{"description":"%d %s"}}`, id, i, strings.Repeat("y", 100)))
	}
	var want []int64
	for since := int64(0); ; {
		page, err := r.opts.Worker.Events(t.Context(), worker.EventsQuery{SinceSeq: since, Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, ev := range page {
			want = append(want, ev.Seq)
		}
		since = page[len(page)-1].Seq
	}
	if len(want) < 3*feedBuffer {
		t.Fatalf("only %d events to see", len(want))
	}
	for i, seq := range want {
		f := w.mustFrame()
		payload, _ := f["payload"].(map[string]any)
		if f["event"] != "rota" || payload["seq"] != float64(seq) || f["seq"] != float64(i+1) {
			t.Fatalf("frame %d is %v, want seq %d", i, f, seq)
		}
	}
	w.send(`{"type":"req","id":"again","method":"rota.subscribe"}`)
	if f := w.mustFrame(); f["id"] != "again" || f["ok"] != false {
		t.Errorf("a second subscription: %v", f)
	}
}

// At its end the host answers what is pending, closes and unlinks.
func TestStopUnlinksTheSocket(t *testing.T) {
	r := newRig(t, nil)
	w := r.connect()
	w.send(`{"type":"req","id":"1","method":"cron.status"}`)
	if f := w.mustFrame(); f["ok"] != true {
		t.Fatal(f)
	}
	r.stop()
	if f, ok := w.frame(); ok {
		t.Errorf("after the end: %v", f)
	}
	if _, err := os.Lstat(r.sock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	_, err := Dial(r.sock)
	var none *NoServerError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "rota serve") {
		t.Errorf("dialling nobody: %v", err)
	}
}

func TestListenTakesOverAStaleSocketOnly(t *testing.T) {
	r := newRig(t, nil)
	if st, err := os.Stat(r.sock); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket mode %v %v", st.Mode(), err)
	}
	stale := r.sock + "-stale"
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	again, err := listen(stale)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	again.Close()
	file := r.sock + "-file"
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listen(file); err == nil {
		t.Error("a file was taken for a socket")
	}
	if got, _ := os.ReadFile(file); string(got) != "precious" {
		t.Error("the file was changed")
	}
}

func TestClient(t *testing.T) {
	r := newRig(t, nil)
	c, err := Dial(r.sock)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var status cronStatus
	if err := c.Call(t.Context(), "cron.status", nil, &status); err != nil || status.StorePath == "" {
		t.Errorf("status: %+v %v", status, err)
	}
	var wire *WireError
	if err := c.Call(t.Context(), "cron.get", map[string]string{"id": "x"}, nil); !errors.As(err, &wire) || wire.Detail("code") != DetailJobNotFound {
		t.Errorf("a refusal: %v", err)
	}
	// Calls at the same time get their own answers.
	id := r.addJob("client")
	answers := make(chan error, 50)
	for range 50 {
		go func() {
			var j struct{ ID string }
			err := c.Call(t.Context(), "cron.get", map[string]string{"id": id}, &j)
			if err == nil && j.ID != id {
				err = fmt.Errorf("answered %q", j.ID)
			}
			answers <- err
		}()
	}
	for range 50 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	// A result of hundreds of kilobytes is one answer.
	runID := r.ask("cron.run", `{"id":"`+id+`"}`)["runId"].(string)
	r.finish(runID, strings.Repeat("z", 300_000))
	var page struct{ Entries []json.RawMessage }
	if err := c.Call(t.Context(), "cron.runs", map[string]string{"runId": runID}, &page); err != nil || len(page.Entries) != 1 || len(page.Entries[0]) < 300_000 {
		t.Errorf("a long result: %d entries, %v", len(page.Entries), err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Call(gone, "cron.status", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a call given up: %v", err)
	}
	c.Close()
	if err := c.Call(t.Context(), "cron.status", nil, nil); err == nil {
		t.Error("a closed client still calls")
	}
}

func TestClientSubscribe(t *testing.T) {
	r := newRig(t, nil)
	c, err := Dial(r.sock)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	enough := errors.New("enough")
	var kinds []string
	added := false
	err = c.Subscribe(t.Context(), 0, func(ev worker.Event) error {
		if !added {
			added = true
			r.addJob("seen live")
		}
		kinds = append(kinds, ev.Kind)
		if ev.Kind == worker.EventJobAdded {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("subscribe ended with %v after %v", err, kinds)
	}
}

// A socket at which a daemon answers is not taken from it.
func TestASocketThatAnswersIsLeftAlone(t *testing.T) {
	r := newRig(t, nil)
	_, err := New(Options{Worker: r.opts.Worker, SocketPath: r.sock, DBPath: r.db, InstanceID: "instance-2", NewID: r.opts.NewID})
	var held *SocketHeldError
	if !errors.As(err, &held) || held.Path != r.sock {
		t.Fatalf("a second host: %v", err)
	}
	if got := r.ask("cron.status", `{}`); got["jobs"] == nil {
		t.Errorf("the first one answers %v", got)
	}
}
