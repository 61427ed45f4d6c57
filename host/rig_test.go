package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker"
)

// deadline bounds every wait of these tests; none is expected to last.
const deadline = 30 * time.Second

// rig is a host over a real worker, store and socket. Runs end when the test
// says so.
type rig struct {
	*Host
	t    *testing.T
	db   string
	sock string
	stop func() // ends the host and waits; may be called once

	mu    sync.Mutex
	held  map[string]worker.Launch // by run id
	text  map[string]string
	acted chan struct{}
	port  worker.Port
	ids   int
}

func newRig(t *testing.T, change func(*worker.Config), tune ...func(*Host)) *rig {
	t.Helper()
	return newRigWith(t, change, func(*Options) {}, tune...)
}

// newRigWith is newRig on other options; tune comes before the host runs.
func newRigWith(t *testing.T, change func(*worker.Config), options func(*Options), tune ...func(*Host)) *rig {
	t.Helper()
	dir, err := os.MkdirTemp("", "rota-host-") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	r := &rig{t: t, db: filepath.Join(dir, "rota.sqlite"), sock: filepath.Join(dir, "rota.sock"),
		held: map[string]worker.Launch{}, text: map[string]string{}, acted: make(chan struct{}, 1)}
	s, err := store.Open(store.Options{Path: r.db, Durability: store.Normal, NowMs: time.Now().UnixMilli()})
	if err != nil {
		t.Fatal(err)
	}
	config := worker.DefaultConfig()
	if change != nil {
		change(&config)
	}
	w := worker.New(worker.Options{Store: s, Config: config, BootID: "boot", LogID: "log", Log: quiet()})
	r.port = w.Port()
	working, stopWorker := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()
	launching, stopLauncher := context.WithCancel(context.Background())
	launched := make(chan struct{})
	go func() { defer close(launched); r.launch(launching) }()

	opts := Options{Worker: w, SocketPath: r.sock, DBPath: r.db, InstanceID: "instance-1", Version: "test", Durability: "normal",
		NewID: r.newID, LiveOutput: r.output, Log: quiet()}
	options(&opts)
	if r.Host, err = New(opts); err != nil {
		t.Fatal(err)
	}
	for _, f := range tune {
		f(r.Host)
	}
	serving, stopHost := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Run(serving) }()
	r.stop = sync.OnceFunc(func() {
		stopHost()
		if err := <-served; err != nil {
			t.Errorf("host: %v", err)
		}
	})
	t.Cleanup(func() {
		r.stop()
		stopLauncher()
		<-launched
		stopWorker()
		r.port.Done()
		if err := <-worked; err != nil {
			t.Errorf("worker: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("store: %v", err)
		}
	})
	<-w.Ready()
	return r
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (r *rig) newID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids++
	return fmt.Sprintf("job-%04d", r.ids)
}

func (r *rig) output(runID string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, ok := r.text[runID]
	return text, ok
}

// launch keeps what the worker hands over until finish.
func (r *rig) launch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.port.Ready:
		}
		r.mu.Lock()
		for _, o := range r.port.Take() {
			if o.Launch != nil {
				r.held[o.Launch.RunID] = *o.Launch
			}
		}
		r.mu.Unlock()
		select {
		case r.acted <- struct{}{}:
		default:
		}
	}
}

// launchedRun waits until a run is with the launcher.
func (r *rig) launchedRun(runID string) worker.Launch {
	r.t.Helper()
	timeout := time.After(deadline)
	for {
		r.mu.Lock()
		l, ok := r.held[runID]
		r.mu.Unlock()
		if ok {
			return l
		}
		select {
		case <-r.acted:
		case <-timeout:
			r.t.Fatalf("run %s never reached the launcher", runID)
		}
	}
}

// finish ends a run with what it printed, and waits for the history.
func (r *rig) finish(runID, summary string) {
	r.t.Helper()
	l := r.launchedRun(runID)
	sub := r.opts.Worker.Subscribe(64)
	defer sub.Close()
	now := time.Now().UnixMilli()
	r.port.Report(worker.Outcome{ReceiptID: l.ReceiptID, Status: worker.StatusOK, Kind: worker.KindExit, Summary: summary,
		StartedAtMs: now, EndedAtMs: now, DurationMs: 1})
	timeout := time.After(deadline)
	for {
		select {
		case ev := <-sub.C:
			if ev.Kind == worker.EventFinished && ev.RunID == runID {
				return
			}
		case <-timeout:
			r.t.Fatalf("run %s never finished", runID)
		}
	}
}

// ask calls a method and fails the test on a refusal.
func (r *rig) ask(method, params string) map[string]any {
	r.t.Helper()
	payload, werr := r.Handle(r.t.Context(), method, json.RawMessage(params))
	if werr != nil {
		r.t.Fatalf("%s %s: %s %s", method, params, werr.Code, werr.Message)
	}
	return asMap(r.t, payload)
}

// refused calls a method that must refuse.
func (r *rig) refused(method, params string) *WireError {
	r.t.Helper()
	payload, werr := r.Handle(r.t.Context(), method, json.RawMessage(params))
	if werr == nil {
		r.t.Fatalf("%s %s was accepted: %v", method, params, asMap(r.t, payload))
	}
	return werr
}

func asMap(t *testing.T, payload any) map[string]any {
	t.Helper()
	raw, err := encodeFrame(payload)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return m
}

// addJob adds a job that never comes due in a test, and gives its id.
func (r *rig) addJob(name string) string {
	r.t.Helper()
	params, err := json.Marshal(map[string]any{"name": name, "schedule": map[string]any{"kind": "every", "everyMs": 86_400_000},
		"payload": map[string]any{"kind": "command", "argv": []string{"true"}}})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.ask("cron.add", string(params))["id"].(string)
}

// wire is a raw connection to the socket.
type wire struct {
	t  *testing.T
	nc *net.UnixConn
	r  *bufio.Reader
}

func (r *rig) connect() *wire {
	r.t.Helper()
	nc, err := net.Dial("unix", r.sock)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(deadline)); err != nil {
		r.t.Fatal(err)
	}
	return &wire{t: r.t, nc: nc.(*net.UnixConn), r: bufio.NewReaderSize(nc, 1<<20)}
}

func (w *wire) send(line string) {
	w.t.Helper()
	if _, err := w.nc.Write([]byte(line + "\n")); err != nil {
		w.t.Fatal(err)
	}
}

// frame reads the next frame; ok is false when the connection ended.
func (w *wire) frame() (f map[string]any, ok bool) {
	w.t.Helper()
	line, err := w.r.ReadBytes('\n')
	if err != nil {
		return nil, false
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &f); err != nil {
		w.t.Fatalf("%v in %q", err, line)
	}
	return f, true
}

func (w *wire) mustFrame() map[string]any {
	w.t.Helper()
	f, ok := w.frame()
	if !ok {
		w.t.Fatal("the connection ended")
	}
	return f
}
