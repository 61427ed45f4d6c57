package worker

import (
	"testing"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/aged"
)

// Recovery: a start after a kill in the middle of very much work.
//
//	go test ./worker -run '^$' -bench Recover
//
// One iteration is a start to its end, with 10,000 active runs and 10,000 that
// wait. interrupted: the launch log knows the active ones, so each gets a row of
// history. unstarted: it knows none of them, and they wait again. ns/run is the
// share of one of the 20,000; a start without any of them is in BenchmarkStart.

const openEach = 10_000

// BenchmarkRecover is a start that finds 10,000 active and 10,000 queued runs.
func BenchmarkRecover(b *testing.B) {
	path := agedFile(b, aged.Ledger{Jobs: 2 * openEach, Receipts: 1, History: 2 * openEach, NowMs: epoch, DueMs: epoch + 1000})
	d := benchDesk(b, path)
	d.rest()
	d.untilDue(2 * openEach)
	d.rest()
	var logged []Logged
	for r := range d.w.st.active.Values() {
		logged = append(logged, Logged{ReceiptID: r.ReceiptID})
	}
	if len(logged) != openEach || d.w.st.queue.Len() != openEach {
		b.Fatalf("%d runs are active and %d wait", len(logged), d.w.st.queue.Len())
	}
	killedMs := d.nowMs
	d.crash()
	kept := keepFile(b, path)
	for _, c := range []struct {
		name   string
		logged []Logged
		wait   int // afterwards
	}{{"interrupted", logged, openEach}, {"unstarted", nil, 2 * openEach}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				copied := copyFile(b, kept)
				b.StartTimer()
				d := benchDeskAt(b, copied, killedMs, store.Normal, Options{Logged: c.logged})
				b.StopTimer()
				if d.w.st.queue.Len() != c.wait || d.w.st.active.Len() != 0 {
					b.Fatalf("%d runs wait and %d are active", d.w.st.queue.Len(), d.w.st.active.Len())
				}
				d.close()
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*2*openEach), "ns/run")
		})
	}
}
