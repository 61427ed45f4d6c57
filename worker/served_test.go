package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// served is a worker whose loop runs, on the real clock. Nothing it launches
// starts.
type served struct {
	*Worker
	t          testing.TB
	path       string
	durability store.Durability
	cfg        Config
	// aheadMs is how far monotonic time is put forward: what is looked at once a
	// minute is due at once.
	aheadMs atomic.Int64
	// fault is asked at each point of the store, in the goroutine of the loop.
	fault atomic.Pointer[func(point string) error]
	quit  func() // asks the loop to end
	stop  func() // and waits; may be called again
}

func serve(t testing.TB) *served {
	cfg := DefaultConfig()
	cfg.MaxConcurrent = 1000
	return serveFile(t, filepath.Join(t.TempDir(), "rota.sqlite"), store.Full, cfg)
}

// serveFile serves a file until the test is over.
func serveFile(t testing.TB, path string, durability store.Durability, cfg Config) *served {
	s := &served{t: t, path: path, durability: durability, cfg: cfg}
	s.start(false)
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *served) start(adopt bool) {
	s.t.Helper()
	file, err := store.Open(store.Options{Path: s.path, MachineID: "m1", Adopt: adopt, Durability: s.durability, NowMs: time.Now().UnixMilli(), Fault: func(point string) error {
		if f := s.fault.Load(); f != nil {
			return (*f)(point)
		}
		return nil
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	began := time.Now()
	s.Worker = New(Options{Store: file, Config: s.cfg, BootID: "boot", LogID: "log", Log: slog.New(slog.DiscardHandler),
		Clock: Clock{MonoMs: func() int64 { return time.Since(began).Milliseconds() + s.aheadMs.Load() }}})
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.Run(ctx) }()
	port := s.Port()
	s.quit = cancel
	s.stop = sync.OnceFunc(func() {
		cancel()
		port.Done()
		if err := errors.Join(<-ran, file.Close()); err != nil {
			s.t.Error(err)
		}
	})
	<-s.Ready()
}

// addTicking adds jobs that come due once a second, all of them spread evenly
// over it.
func (s *served) addTicking(jobs int) {
	s.t.Helper()
	beganMs := time.Now().UnixMilli()
	for i := range jobs {
		params := json.RawMessage(fmt.Sprintf(`{"name":"n","schedule":{"kind":"every","everyMs":1000,"anchorMs":%d},"sessionTarget":"isolated",
			"payload":{"kind":"command","argv":["true"]}}`, beganMs+int64(i*1000/jobs)))
		if _, err := s.Add(s.t.Context(), AddJob{ID: fmt.Sprintf("due-%03d", i), Params: params}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// starts is a launcher that ends every run at once and keeps how late its slot
// was handed out.
type starts struct {
	mu     sync.Mutex // guards lateMs
	lateMs []float64
}

// end ends every run that is handed out, until ctx ends.
func (a *starts) end(ctx context.Context, port Port) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-port.Ready:
		}
		for _, o := range port.Take() {
			l := o.Launch
			if l == nil {
				continue
			}
			now := time.Now()
			a.mu.Lock()
			a.lateMs = append(a.lateMs, float64(now.UnixMicro())/1000-float64(l.SlotMs))
			a.mu.Unlock()
			port.Report(Outcome{ReceiptID: l.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: now.UnixMilli(), EndedAtMs: now.UnixMilli()})
		}
	}
}

// take is what was kept since the last time.
func (a *starts) take() []float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.lateMs
	a.lateMs = nil
	return taken
}
