//go:build unix

package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// patience is how long a test waits for something that must happen. It bounds
// a hang and decides no result.
const patience = 30 * time.Second

// desk is the worker's side of a launcher under test: it hands out orders and
// collects what is reported.
type desk struct {
	t        *testing.T
	launcher *Launcher
	logPath  string
	live     func(*worker.Launch) string
	answer   func(worker.Outcome) // what the worker does about an outcome before Report returns

	mu       sync.Mutex
	orders   []worker.Order
	ready    chan struct{}
	outcomes chan worker.Outcome
	progress chan worker.Progress
	done     chan struct{}
	returned chan error
	stop     context.CancelFunc
	launches int
	before   int           // goroutines
	patience time.Duration // for an outcome
}

// newDesk starts a launcher with opt and stops it at the end of the test. That
// it then leaves no goroutine behind is part of every test.
func newDesk(t *testing.T, opt Options) *desk {
	t.Helper()
	d := &desk{t: t, live: func(*worker.Launch) string { return "" }, answer: func(worker.Outcome) {},
		ready: make(chan struct{}, 1), outcomes: make(chan worker.Outcome, 2000), progress: make(chan worker.Progress, 2000),
		done: make(chan struct{}), returned: make(chan error, 1), before: runtime.NumGoroutine(), patience: patience}
	opt.Port = worker.Port{
		Ready: d.ready, Take: d.take,
		Live:     func(l *worker.Launch) string { return d.live(l) },
		Report:   func(o worker.Outcome) { d.answer(o); d.outcomes <- o },
		Progress: func(p worker.Progress) { d.progress <- p },
		Done:     func() { close(d.done) },
	}
	if opt.LogPath == "" {
		opt.LogPath = filepath.Join(t.TempDir(), "launch.log")
	}
	if opt.Home == "" {
		opt.Home = t.TempDir()
	}
	if opt.Environ == nil {
		opt.Environ = os.Environ()
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	d.logPath = opt.LogPath
	l, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	l.unheardMs = 1 // the desk commits nothing
	d.launcher = l
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	go func() { d.returned <- l.Run(ctx) }()
	t.Cleanup(d.close)
	return d
}

func (d *desk) close() {
	d.stop()
	select {
	case err := <-d.returned:
		if err != nil {
			d.t.Errorf("Run: %v", err)
		}
	case <-time.After(patience):
		d.t.Fatal("the launcher does not stop")
	}
	select {
	case <-d.done:
	default:
		d.t.Error("Run returned without Port.Done")
	}
	await(d.t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= d.before })
}

func (d *desk) take() []worker.Order {
	d.mu.Lock()
	defer d.mu.Unlock()
	orders := d.orders
	d.orders = nil
	return orders
}

func (d *desk) order(orders ...worker.Order) {
	d.mu.Lock()
	d.orders = append(d.orders, orders...)
	d.mu.Unlock()
	select {
	case d.ready <- struct{}{}:
	default:
	}
}

// command orders a run and gives its receipt id.
func (d *desk) command(p job.CommandPayload) *worker.Launch {
	d.launches++
	l := &worker.Launch{
		ReceiptID: fmt.Sprintf("receipt-%d", d.launches), RunID: fmt.Sprintf("%s-%d", d.t.Name(), d.launches),
		JobID: "job-1", JobName: "a job", Trigger: worker.TriggerTimer, SlotMs: 1_795_964_600_000, Attempt: 1,
		Payload: job.Payload{Kind: "command", Command: &p},
	}
	d.order(worker.Order{Launch: l})
	return l
}

func (d *desk) shell(script string) *worker.Launch {
	return d.command(job.CommandPayload{Argv: []string{"sh", "-c", script}})
}

func (d *desk) outcome() worker.Outcome {
	d.t.Helper()
	select {
	case o := <-d.outcomes:
		return o
	case <-time.After(d.patience):
		d.t.Fatal("no outcome was reported")
		panic("unreachable")
	}
}

func (d *desk) started() worker.Progress {
	d.t.Helper()
	select {
	case p := <-d.progress:
		return p
	case <-time.After(patience):
		d.t.Fatal("no process was reported")
		panic("unreachable")
	}
}

// await looks for what must become true.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); !is(); {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// pidsIn reads the process ids that commands wrote into a file, one a line.
func pidsIn(path string) []int {
	b, _ := os.ReadFile(path)
	var pids []int
	for _, field := range strings.Fields(string(b)) {
		if pid, err := strconv.Atoi(field); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// lives reports whether the process with this id is running. In a test the id
// is not reused.
func lives(pid int) bool {
	start, err := startTimeOf(pid)
	return err == nil && processAlive(pid, start)
}

// roles are the other programs that the test binary can be, by the value of
// LAUNCHER_TEST_ROLE. Files for one system add theirs.
var roles = map[string]func(){
	"arguments": func() { // prints how it was called
		call := map[string]any{"argv": os.Args[1:], "value": os.Getenv("VALUE")}
		if err := json.NewEncoder(os.Stdout).Encode(call); err != nil {
			os.Exit(1)
		}
	},
}

func TestMain(m *testing.M) {
	if role := roles[os.Getenv("LAUNCHER_TEST_ROLE")]; role != nil {
		role()
		return
	}
	os.Exit(m.Run())
}
