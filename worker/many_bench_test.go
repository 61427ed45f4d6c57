package worker

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// Many jobs: what a start costs, what they cost to keep, and what one more of
// them costs.
//
//	go test ./worker -run '^$' -bench 'Start|SnapshotSwap|Move|Add$'
//
// Each benchmark is told how many jobs there are. Compare sizes within one run:
// swap, move and add should hardly grow with them, a start grows with each.

var benchSizes = []int{10, 1_000, 10_000, 100_000}

// manyJobs makes a file with n jobs of every timed kind, none of which is due
// within a month of the epoch. Most have run before.
func manyJobs(b *testing.B, n int) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "rota.sqlite")
	s, err := store.Open(store.Options{Path: path, Durability: store.Normal, NowMs: epoch})
	if err != nil {
		b.Fatal(err)
	}
	tx, err := s.Begin()
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		if _, err := store.InsertJob(tx, manyRow(b, i)); err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// manyRow is the i-th of many jobs.
func manyRow(b testing.TB, i int) store.JobRow {
	b.Helper()
	zones := []string{"Europe/Berlin", "America/New_York", "Asia/Tokyo", "UTC", "Australia/Sydney", "Asia/Kolkata"}
	when := fmt.Sprintf(`{"kind":"cron","expr":"%d %d 1 1 *","tz":%q}`, i%60, i/60%24, zones[i%len(zones)])
	switch i % 4 {
	case 2:
		when = fmt.Sprintf(`{"kind":"every","everyMs":%d}`, 90*86_400_000+i)
	case 3:
		when = fmt.Sprintf(`{"kind":"at","at":%q}`, schedule.FormatInstant(epoch+40*86_400_000+int64(i)*1000))
	}
	id := fmt.Sprintf("%08x-9b1c-4f0e-8a57-%012x", uint32(i)*2_654_435_761, i)
	created, err := job.Create(id, manyParams(i, when), job.Env{NowMs: epoch})
	if err != nil {
		b.Fatal(err)
	}
	j := newJob(store.JobRow{JobID: id, Definition: created.Definition, State: json.RawMessage("{}"), SortOrder: int64(i), UpdatedAtMs: epoch},
		schedule.Vixie, "UTC")
	nextMs, ok := j.naturalNext(epoch)
	if !ok {
		b.Fatalf("job %d never fires", i)
	}
	row := j.row()
	row.State = json.RawMessage(fmt.Sprintf(`{"nextRunAtMs":%d,"scheduleActivatedAtMs":%d}`, nextMs, epoch))
	if i%4 != 3 {
		row.State = json.RawMessage(fmt.Sprintf(`{"nextRunAtMs":%d,"rotaConsumedMs":%d,"lastRunAtMs":%[2]d,"lastRunStatus":"ok","lastStatus":"ok",`+
			`"lastDurationMs":2680,"lastDiagnostics":{"summary":"out","entries":[{"ts":%[2]d,"source":"exec","severity":"info","message":"command ok","exitCode":0}]},"consecutiveErrors":0}`,
			nextMs, epoch-1000))
	}
	return row
}

func manyParams(i int, when string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"name":"nightly report for tenant %d","description":"collects the figures of tenant %[1]d and writes them to the shared folder",`+
		`"schedule":%s,"payload":{"kind":"command","argv":["/usr/local/bin/report","--tenant","t-%[1]d","--out","/var/reports/t-%[1]d.json","--format","json"],`+
		`"cwd":"/var/reports","env":{"TENANT":"t-%[1]d"}}}`, i, when))
}

// BenchmarkStart is the way from a closed file to the first command, and what
// the jobs hold in memory afterwards.
func BenchmarkStart(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := manyJobs(b, n)
			before := liveBytes()
			b.ReportAllocs()
			held := 0.0
			for b.Loop() {
				d := benchDesk(b, path)
				b.StopTimer()
				held = float64(liveBytes()-before) / float64(n)
				if got := d.w.Snapshot().Len(); got != n {
					b.Fatalf("%d jobs, want %d", got, n)
				}
				d.close()
				b.StartTimer()
			}
			b.ReportMetric(held, "held-B/job")
		})
	}
}

// liveBytes is what the program holds after a collection.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC() // finalizers of the first one let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkSnapshotSwap is publishing a commit that moved one of many jobs.
func BenchmarkSnapshotSwap(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := benchDesk(b, manyJobs(b, n))
			defer d.close()
			b.ReportAllocs()
			for b.Loop() {
				d.w.publishSnapshot()
			}
		})
	}
}

// BenchmarkMove is a new deadline for one of many jobs, in memory: the job tree
// and the due queue.
func BenchmarkMove(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := benchDesk(b, manyJobs(b, n))
			defer d.close()
			var ids []string
			for j := range d.w.Snapshot().Jobs() {
				ids = append(ids, j.ID)
			}
			t := &turn{cfg: d.w.cfg, id: &d.w.id, st: d.w.st, now: epoch}
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				j, _ := t.st.jobs.Get(ids[i%n])
				i += 7919
				if _, err := t.editState(j, func(s *store.State) { s.NextRunAtMs.N++ }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkAdd is cron.add as the worker sees it, a commit each.
func BenchmarkAdd(b *testing.B) {
	for _, n := range benchSizes {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			d := benchDesk(b, manyJobs(b, n))
			defer d.close()
			i := n
			b.ReportAllocs()
			for b.Loop() {
				i++
				c := &call{command: AddJob{ID: fmt.Sprintf("%08x-new", uint32(i)*2_654_435_761), Params: manyParams(i, `{"kind":"every","everyMs":7776000000}`)}, reply: make(chan answer, 1)}
				d.w.commands.put(c)
				if _, err := d.w.turn(); err != nil {
					b.Fatal(err)
				}
				if a := <-c.reply; a.err != nil {
					b.Fatal(a.err)
				}
			}
		})
	}
}
