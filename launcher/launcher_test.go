//go:build unix

package launcher

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

func TestARunIsLoggedStartedNotedAndReported(t *testing.T) {
	d := newDesk(t, Options{BootID: "boot-1"})
	launch := d.shell("echo hello")
	p := d.started()
	o := d.outcome()

	equal(t, "receipt", o.ReceiptID, launch.ReceiptID)
	equal(t, "status", o.Status, worker.StatusOK)
	equal(t, "kind", o.Kind, worker.KindExit)
	equal(t, "summary", o.Summary, "hello")
	equal(t, "process", *o.Process, p.Process)
	equal(t, "boot", p.Process.BootID, "boot-1")
	equal(t, "started", o.StartedAtMs, p.StartedAtMs)
	if o.EndedAtMs < o.StartedAtMs || o.DurationMs < 0 {
		t.Errorf("times: started %d, ended %d, took %d", o.StartedAtMs, o.EndedAtMs, o.DurationMs)
	}
	lines, err := os.ReadFile(d.logPath)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(string(lines), "\n"); len(got) != 3 || got[0] != `{"launch":"receipt-1","boot":"boot-1"}` ||
		!strings.HasPrefix(got[1], `{"process":"receipt-1","pid":`) {
		t.Errorf("launch log:\n%s", lines)
	}
	info, err := os.Stat(d.logPath)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "mode of the launch log", info.Mode().Perm(), 0o600)
}

func TestTheLiveCheckRefusesWithoutATrace(t *testing.T) {
	for _, c := range []struct{ refusal, kind, interrupted, status, err string }{
		{"disabled", "refused", "", "skipped", "not started: the job was disabled"},
		{"removed", "refused", "", "skipped", "not started: the job was removed"},
		// A run that the daemon's stop kept from starting is not the job's miss.
		{"stopping", "refused", "shutdown", "error", "the daemon stopped before the run started"},
	} {
		d := newDesk(t, Options{})
		d.live = func(*worker.Launch) string { return c.refusal }
		effect := filepath.Join(t.TempDir(), "effect")
		d.shell("touch " + effect)
		o := d.outcome()
		equal(t, c.refusal+" kind", o.Kind, c.kind)
		equal(t, c.refusal+" interrupted", o.Interrupted, c.interrupted)
		equal(t, c.refusal+" status", string(o.Status), c.status)
		equal(t, c.refusal+" error", o.Error, c.err)
		if o.Process != nil || o.StartedAtMs != 0 {
			t.Errorf("%s: a process is named: %+v", c.refusal, o)
		}
		if b, _ := os.ReadFile(d.logPath); len(b) > 0 {
			t.Errorf("%s: the launch log says %s", c.refusal, b)
		}
		if _, err := os.Stat(effect); err == nil {
			t.Errorf("%s: the command ran", c.refusal)
		}
	}
}

func TestAStopOrderEndsTheRunWithItsSentence(t *testing.T) {
	for _, reason := range []string{worker.KindStopped, worker.KindRemoved} {
		d := newDesk(t, Options{})
		launch := d.shell("echo before; exec sleep 600")
		p := d.started()
		d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: launch.ReceiptID, Reason: reason, Message: "somebody did it"}})
		o := d.outcome()
		equal(t, "kind", o.Kind, reason)
		equal(t, "status", o.Status, worker.StatusError)
		equal(t, "error", o.Error, "somebody did it")
		equal(t, "interrupted", o.Interrupted, "")
		if lives(p.Process.PID) {
			t.Error("the process lives on")
		}
		// A second stop, or one for a run nobody knows, changes nothing.
		d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: launch.ReceiptID, Reason: reason}},
			worker.Order{Cancel: &worker.Cancel{ReceiptID: "unknown", Reason: reason}})
		d.shell("true")
		equal(t, "the next run", d.outcome().Status, worker.StatusOK)
	}
}

func TestOutputShowsWhatARunningCommandHasPrinted(t *testing.T) {
	d := newDesk(t, Options{})
	launch := d.shell("echo so far; exec sleep 600")
	await(t, "the output", func() bool {
		text, running := d.launcher.Output(launch.RunID)
		return running && text == "so far"
	})
	d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: launch.ReceiptID, Reason: worker.KindStopped, Message: "enough"}})
	equal(t, "summary", d.outcome().Summary, "so far")
	await(t, "the run to be forgotten", func() bool {
		_, running := d.launcher.Output(launch.RunID)
		return !running
	})
}

func TestTheSameReceiptIsNotStartedTwiceAtOnce(t *testing.T) {
	d := newDesk(t, Options{})
	marks := filepath.Join(t.TempDir(), "marks")
	launch := d.shell("echo $$ >>" + marks + "; exec sleep 600")
	d.started()
	d.order(worker.Order{Launch: launch}, worker.Order{Cancel: &worker.Cancel{ReceiptID: launch.ReceiptID, Reason: worker.KindStopped}})
	d.outcome()
	if n := len(pidsIn(marks)); n > 1 {
		t.Errorf("started %d times", n)
	}
	equal(t, "further outcomes", len(d.outcomes), 0)
}

func TestWithoutALineInTheLaunchLogNothingStarts(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("this system has no /dev/full to play the full disk: %v", err)
	}
	d := newDesk(t, Options{})
	d.launcher.log.mu.Lock()
	d.launcher.log.file.Close()
	d.launcher.log.file = full
	d.launcher.log.mu.Unlock()
	effect := filepath.Join(t.TempDir(), "effect")
	d.shell("touch " + effect)
	o := d.outcome()
	equal(t, "status", o.Status, worker.StatusError)
	equal(t, "kind", o.Kind, worker.KindSpawnError)
	if !strings.Contains(o.Error, "launch log") || !strings.Contains(o.Error, "no space left") {
		t.Errorf("error: %s", o.Error)
	}
	if _, err := os.Stat(effect); err == nil || o.Process != nil {
		t.Error("the command ran, and no log knows it")
	}
}

func TestAPayloadWithoutAnExecutorIsAnError(t *testing.T) {
	d := newDesk(t, Options{})
	d.order(worker.Order{Launch: &worker.Launch{ReceiptID: "r", Payload: job.Payload{Kind: "dance"}}})
	o := d.outcome()
	equal(t, "kind", o.Kind, worker.KindSpawnError)
	equal(t, "error", o.Error, `payloads of kind "dance" are not run here`)
}

func TestShutdownLetsRunsEndWithinTheGrace(t *testing.T) {
	d := newDesk(t, Options{ShutdownGraceMs: 20_000})
	gate := filepath.Join(t.TempDir(), "gate")
	d.shell("while [ ! -e " + gate + " ]; do sleep 0.02; done; echo done")
	d.started()
	d.stop()
	late := d.shell("true") // committed, not yet taken: it comes too late
	o := d.outcome()
	equal(t, "the late one", o.ReceiptID, late.ReceiptID)
	equal(t, "the late one interrupted", o.Interrupted, "shutdown")
	equal(t, "the late one kind", o.Kind, worker.KindRefused)
	if o.Process != nil {
		t.Error("the late one was started")
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o = d.outcome()
	equal(t, "status", o.Status, worker.StatusOK)
	equal(t, "summary", o.Summary, "done")
}

func TestShutdownEndsWhatOutlastsTheGrace(t *testing.T) {
	d := newDesk(t, Options{ShutdownGraceMs: 100})
	d.shell("exec sleep 600") // ends at TERM
	d.shell("trap '' TERM; echo deaf; while :; do sleep 600; done")
	pids := []int{d.started().Process.PID, d.started().Process.PID}
	await(t, "the second to be deaf", func() bool {
		text, _ := d.launcher.Output(t.Name() + "-2")
		return text == "deaf"
	})
	began := time.Now()
	d.stop()
	for range 2 {
		o := d.outcome()
		equal(t, "status", o.Status, worker.StatusError)
		equal(t, "interrupted", o.Interrupted, "shutdown")
		equal(t, "error", o.Error, "the daemon stopped before the run ended")
		if o.Process == nil {
			t.Error("the outcome does not name its process")
		}
	}
	if took := time.Since(began); took < 2*time.Second || took > 5*time.Second {
		t.Errorf("the deaf one ended after %v; TERM, two seconds, KILL", took)
	}
	for _, pid := range pids {
		if lives(pid) {
			t.Errorf("process %d lives on", pid)
		}
	}
}

// A run in its own clean-up grace does not stretch a shutdown.
func TestShutdownHurriesACleanUpThatIsUnderWay(t *testing.T) {
	d := newDesk(t, Options{ShutdownGraceMs: 50, CleanupGraceMs: 60_000})
	launch := d.shell("trap '' TERM; echo deaf; while :; do sleep 600; done")
	await(t, "it to be deaf", func() bool {
		text, _ := d.launcher.Output(launch.RunID)
		return text == "deaf"
	})
	d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: launch.ReceiptID, Reason: worker.KindStopped, Message: "stopped by hand"}})
	d.stop()
	o := d.outcome()
	if o.Kind != worker.KindStopped && o.Kind != worker.KindShutdown { // whichever came first
		t.Errorf("kind: %s", o.Kind)
	}
	if o.DurationMs > 10_000 {
		t.Errorf("took %d ms", o.DurationMs)
	}
}

func TestRunEndsAtOnceWhenNothingIsActive(t *testing.T) {
	d := newDesk(t, Options{ShutdownGraceMs: 60_000})
	began := time.Now()
	d.stop()
	<-d.done
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestStopOfAnUnknownCauseIsStillAStop(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	equal(t, "kind", stopOf(ctx).Kind, worker.KindStopped)
}

// BenchmarkNoopRun measures what a run costs the launcher, without an effect
// and without a launch log: 8 at once, as the worker would have them.
func BenchmarkNoopRun(b *testing.B) { benchmarkNoop(b, "") }

// BenchmarkNoopRunLogged is the same with the launch log's one write a run.
func BenchmarkNoopRunLogged(b *testing.B) {
	benchmarkNoop(b, filepath.Join(b.TempDir(), "launch.log"))
}

func benchmarkNoop(b *testing.B, logPath string) {
	const atOnce = 8
	ready, ended := make(chan struct{}, 1), make(chan string, atOnce)
	next := make(chan []worker.Order, 1)
	l, err := New(Options{
		LogPath: logPath, Executors: map[string]Executor{"noop": Noop{}},
		Port: worker.Port{
			Ready: ready, Live: func(*worker.Launch) string { return "" },
			Take: func() []worker.Order {
				select {
				case orders := <-next:
					return orders
				default:
					return nil
				}
			},
			Report: func(o worker.Outcome) { ended <- o.ReceiptID }, Progress: func(worker.Progress) {}, Done: func() {},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	returned := make(chan error)
	go func() { returned <- l.Run(ctx) }()
	var launches [atOnce]worker.Launch
	orders := make([]worker.Order, 0, 2*atOnce)
	b.ReportAllocs()
	for n := 0; n < b.N; n += atOnce {
		orders = orders[:0]
		for i := range launches {
			if n > 0 {
				orders = append(orders, worker.Order{Settled: launches[i].ReceiptID})
			}
			launches[i] = worker.Launch{ReceiptID: receiptNames[i][n/atOnce%256], Payload: job.Payload{Kind: "noop"}}
			orders = append(orders, worker.Order{Launch: &launches[i]})
		}
		next <- orders
		ready <- struct{}{}
		for range launches {
			<-ended
		}
	}
	stop()
	if err := <-returned; err != nil {
		b.Fatal(err)
	}
}

// receiptNames repeat late, because a run may still be on its way out when
// others are ordered.
var receiptNames = func() (names [8][256]string) {
	for i := range names {
		for k := range names[i] {
			names[i][k] = fmt.Sprintf("cron-slot-v1.%d.%d", i, k)
		}
	}
	return names
}()
