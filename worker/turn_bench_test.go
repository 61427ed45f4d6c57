package worker

import (
	"fmt"
	"math"
	"testing"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/aged"
)

// Turns: what a run costs on a file of a thousand jobs that have run for months.
//
//	go test ./worker -run '^$' -bench 'Turn|Step'
//
// One iteration is one turn, ns/run is its share of one run. At runs=1 it is what
// a turn costs at all, at runs=256 what a run costs beside that. Nothing waits for
// the disk but in BenchmarkTurn/durable, whose difference is one sync a turn.

// thousandJobs is the file that turns start from.
var thousandJobs = aged.Ledger{Jobs: 1_000, Receipts: 16, History: 32_000, NowMs: epoch}

// BenchmarkTurn is a turn that starts so many runs, which are requested and
// activated in one commit, and a turn that settles them.
func BenchmarkTurn(b *testing.B) {
	kept := keepFile(b, agedFile(b, thousandJobs))
	for _, part := range []string{"start", "settle"} {
		for _, runs := range []int{1, 16, 64, 256} {
			b.Run(fmt.Sprintf("%s/runs=%d", part, runs), func(b *testing.B) {
				benchmarkPart(b, kept, store.Normal, Options{}, part, runs)
			})
		}
	}
	for _, part := range []string{"start", "settle"} {
		b.Run(fmt.Sprintf("durable/%s/runs=64", part), func(b *testing.B) {
			benchmarkPart(b, kept, store.Full, Options{}, part, 64)
		})
	}
}

// BenchmarkStep is each step of 64 runs as a turn of its own.
func BenchmarkStep(b *testing.B) {
	kept := keepFile(b, agedFile(b, thousandJobs))
	for _, part := range []string{"request", "activate", "settle"} {
		b.Run(part, func(b *testing.B) { benchmarkPart(b, kept, store.Normal, Options{TwoSteps: true}, part, 64) })
	}
}

// benchmarkPart takes runs from their deadline to their end, again and again, and
// measures one part of the way.
func benchmarkPart(b *testing.B, kept string, durability store.Durability, o Options, part string, runs int) {
	d := benchDeskAt(b, copyFile(b, kept), epoch, durability, o)
	defer d.close()
	d.rest()
	d.w.retainDueMonoMs = math.MaxInt64 // it has a benchmark of its own
	parts := []string{"start", "settle"}
	if o.TwoSteps {
		parts = []string{"request", "activate", "settle"}
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		d.untilDue(runs)
		for _, p := range parts {
			if p == "settle" && d.endActive() != runs {
				b.Fatalf("%d runs are active, want %d", d.w.st.active.Len(), runs)
			}
			if p == part {
				b.StartTimer()
			}
			if _, err := d.w.turn(); err != nil {
				b.Fatal(err)
			}
			if p == part {
				b.StopTimer()
			}
		}
		d.w.orders.take(0)
		d.w.upkeep()
		b.StartTimer()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*runs), "ns/run")
}

// untilDue moves both clocks to where so many jobs are due.
func (d *desk) untilDue(jobs int) {
	for key := range d.w.st.due.All() {
		if jobs--; jobs == 0 {
			d.monoMs += max(0, key.deadlineMs-d.nowMs)
			d.nowMs = max(d.nowMs, key.deadlineMs)
			return
		}
	}
	d.t.Fatal("there are fewer jobs")
}
