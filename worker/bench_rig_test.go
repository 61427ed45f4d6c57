package worker

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/aged"
)

// What the benchmarks of this package share. They say how to run them at the top
// of each file; figures of two machines, or of two runs under different load, do
// not compare.

// benchDesk is a worker on a file, started, on a clock that stands.
func benchDesk(b *testing.B, path string) *desk {
	b.Helper()
	return benchDeskAt(b, path, epoch, store.Normal, Options{})
}

// benchDeskAt is benchDesk at a moment, at a durability and with options. It is
// closed by the benchmark.
func benchDeskAt(b *testing.B, path string, nowMs int64, durability store.Durability, o Options) *desk {
	b.Helper()
	d := &desk{t: b, path: path, nowMs: nowMs, cfg: DefaultConfig()}
	d.cfg.MaxConcurrent = 10_000
	s, err := store.Open(store.Options{Path: path, Durability: durability, NowMs: nowMs})
	if err != nil {
		b.Fatal(err)
	}
	o.Store, o.Config, o.BootID, o.LogID = s, d.cfg, "boot-1", "log"
	o.Clock = Clock{
		WallMs: func() int64 { return d.nowMs }, MonoMs: func() int64 { return d.monoMs },
		Timer: func(time.Duration) (<-chan time.Time, func() bool) { return nil, func() bool { return true } },
	}
	d.w = New(o)
	if err := d.w.start(); err != nil {
		b.Fatal(err)
	}
	return d
}

// agedFile makes a file with what months of use leave behind.
func agedFile(b *testing.B, l aged.Ledger) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "rota.sqlite")
	s, err := store.Open(store.Options{Path: path, Durability: store.Normal, NowMs: l.NowMs})
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Fill(s); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// keepFile puts a closed database away, to be copied: a copy that finds the
// original in its place is only shown.
func keepFile(b *testing.B, path string) (kept string) {
	b.Helper()
	kept = path + ".kept"
	if err := os.Rename(path, kept); err != nil {
		b.Fatal(err)
	}
	return kept
}

func copyFile(b *testing.B, kept string) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "rota.sqlite")
	from, err := os.Open(kept)
	if err != nil {
		b.Fatal(err)
	}
	defer from.Close()
	to, err := os.Create(path)
	if err == nil {
		_, err = io.Copy(to, from)
	}
	if err := errors.Join(err, to.Close()); err != nil {
		b.Fatal(err)
	}
	return path
}

// one does one turn and the upkeep behind it, without the checks that a test
// makes after each, and drops what was handed out.
func (d *desk) one() (more bool) {
	more, err := d.w.turn()
	if err != nil {
		d.t.Fatal(err)
	}
	d.w.orders.take(0)
	d.w.upkeep()
	return more
}

// rest does turns until nothing is left to do now.
func (d *desk) rest() {
	for d.one() {
	}
}

// endActive puts an outcome of every active run before the worker.
func (d *desk) endActive() (runs int) {
	for r := range d.w.st.active.Values() {
		d.w.outcomes.put(Outcome{ReceiptID: r.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: d.nowMs, EndedAtMs: d.nowMs})
		runs++
	}
	return runs
}

// reportMs reports how values in milliseconds are spread, as what-p50-ms and so on.
func reportMs(b *testing.B, what string, ms []float64) {
	b.Helper()
	if len(ms) == 0 {
		b.Fatalf("nothing was measured of %s", what)
	}
	slices.Sort(ms)
	b.ReportMetric(ms[len(ms)/2], what+"-p50-ms")
	b.ReportMetric(ms[len(ms)*99/100], what+"-p99-ms")
	b.ReportMetric(ms[len(ms)-1], what+"-max-ms")
}

func sinceMs(began time.Time) float64 { return float64(time.Since(began).Microseconds()) / 1000 }
