package worker

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store/aged"
)

// Retention: how fast it removes, how long one piece of it holds up the loop, and
// whether it keeps up.
//
//	go test ./worker -run '^$' -bench 'Retain$'
//	go test ./worker -run '^$' -bench RetainSoak
//	go test ./worker -run '^$' -bench RetainSoak/quiet -benchtime 3600x     # an hour of it
//
// BenchmarkRetain removes everything past its bound from a file that has far too
// much of one kind, or of all. rows/s is while nothing else is done; a piece is
// one turn with its commit, which is what a slot may wait for.

// tooMuch is a file with more than it should keep: 100,000 receipts and 100,000
// rows of history of a thousand jobs, and what overfull adds to that.
var tooMuch = aged.Ledger{Jobs: 1_000, Receipts: 100, History: 100_000, NowMs: epoch}

// overfull fills the tables that aged leaves empty: rows of each, from when.
const (
	overfullEvents = `INSERT INTO rota_events (seq, at_ms, kind, job_id, run_id, slot_ms, status)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		SELECT 1000 + i, ?2, 'finished', printf('job-%04d', i % 1000), printf('cron-slot-v1.WyJyb3RhIiwiam9iLTAwMDAiLDE3OTAwMDAwMDAwMDBd%08d', i), ?2, 'ok' FROM n`
	overfullSlots = `INSERT INTO rota_slots (seq, job_id, from_ms, to_ms, slots, rule, verdict, detail, at_ms)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		SELECT 1000 + i, printf('job-%04d', i % 1000), ?2 + i, ?2 + i, 1, 'overlap', 'skipped', '{"runId":"cron-slot-v1.WyJyb3RhIiwiam9iLTAwMDAi"}', ?2 FROM n`
	overfullRequests = `INSERT INTO rota_requests (job_id, key, run_id, mode, at_ms)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
		SELECT printf('job-%04d', i % 1000), printf('%08x', i * 2654435761 & 4294967295), printf('run-%d', i), 'force', ?2 FROM n`
)

// BenchmarkRetain sweeps a file with far too much in it; one iteration is a whole
// sweep.
func BenchmarkRetain(b *testing.B) {
	path := agedFile(b, tooMuch)
	d := benchDesk(b, path)
	for _, fill := range []string{overfullEvents, overfullSlots, overfullRequests} {
		d.exec(fill, 100_000, epoch-8*dayMs)
	}
	d.crash()
	kept := keepFile(b, path)
	huge := DefaultConfig()
	huge.ReceiptsPerJob, huge.HistoryRowsPerJob, huge.DecisionDays, huge.Events = 1_000_000, 1_000_000, 3650, 1_000_000_000
	for _, c := range []struct {
		name  string
		bound func(*Config)
	}{
		{"receipts", func(c *Config) { c.ReceiptsPerJob = 16 }},
		{"history", func(c *Config) { c.HistoryRowsPerJob = 10 }},
		{"decisions", func(c *Config) { c.DecisionDays = 7 }}, // events and request keys too
		{"all", func(c *Config) { c.ReceiptsPerJob, c.HistoryRowsPerJob, c.DecisionDays = 16, 10, 7 }},
	} {
		b.Run(c.name, func(b *testing.B) {
			cfg := huge
			cfg.Version = 2
			c.bound(&cfg)
			var pieces []float64
			rows := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				d := benchDesk(b, copyFile(b, kept))
				d.rest()
				d.w.Configure(cfg)
				d.rest()
				before := d.expirable()
				d.monoMs += retainEveryMs
				for more := true; more; {
					b.StartTimer()
					began := time.Now()
					var err error
					if more, err = d.w.turn(); err != nil {
						b.Fatal(err)
					}
					pieces = append(pieces, sinceMs(began))
					b.StopTimer()
					d.w.upkeep()
				}
				rows += before - d.expirable()
				d.close()
				b.StartTimer()
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
			reportMs(b, "piece", pieces)
		})
	}
}

// expirable counts all that retention may remove.
func (d *desk) expirable() (n int) {
	d.t.Helper()
	for _, line := range d.query(`SELECT (SELECT count(*) FROM rota_events) + (SELECT count(*) FROM rota_slots) + (SELECT count(*) FROM rota_requests)
		+ (SELECT count(*) FROM cron_run_receipts) + (SELECT count(*) FROM task_runs)`) {
		if _, err := fmt.Sscan(line, &n); err != nil {
			d.t.Fatal(err)
		}
	}
	return n
}

// BenchmarkRetainSoak has 4,000 runs a second of 4,000 jobs, each of which has all
// the receipts and history it may have, so each run makes as many rows too many
// as it adds. One iteration is one second of the worker's clock, so ns/op is what
// the loop works of a second: it keeps up below a second. Compare with off, which
// is without retention.
//
// quiet: what is left of a second is retention's. busy: nothing is left and every
// turn is full, for longer than retention is patient. over-max-rows is the most
// that there ever was beyond all bounds, over-end-rows what was at the end: they
// grow with the iterations exactly if retention does not keep up.
func BenchmarkRetainSoak(b *testing.B) {
	for _, mode := range []string{"off", "quiet", "busy"} {
		b.Run(mode, func(b *testing.B) { soak(b, mode) })
	}
}

func soak(b *testing.B, mode string) {
	stepMs := int64(16)
	if mode == "busy" {
		stepMs = 64
	}
	const jobs = 4_000
	d := benchDesk(b, agedFile(b, aged.Ledger{Jobs: jobs, Receipts: 16, History: jobs * 20, NowMs: epoch, DueMs: epoch + 3_600_000, EveryMs: 1_000}))
	defer d.close()
	cfg := DefaultConfig()
	cfg.Version, cfg.HistoryRowsPerJob, cfg.Events, cfg.MaxConcurrent = 2, 20, 10_000, 10_000
	d.w.Configure(cfg)
	d.rest()
	d.nowMs, d.monoMs = epoch+3_600_000, 3_600_000
	d.rest()
	var turns []float64
	most, runs := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		for range 1024 / stepMs {
			d.nowMs, d.monoMs = d.nowMs+stepMs, d.monoMs+stepMs
			d.w.retainDueMonoMs = d.monoMs // once a minute is too seldom to be seen in a few seconds
			switch mode {
			case "off":
				d.w.retainDueMonoMs = math.MaxInt64
			case "busy":
				d.w.st.retention.underWay, d.w.st.retention.sinceMonoMs = true, d.monoMs-retainPatienceMs
			}
			began := time.Now()
			for more := true; more; {
				at := time.Now()
				var err error
				if more, err = d.w.turn(); err != nil {
					b.Fatal(err)
				}
				turns = append(turns, sinceMs(at))
				d.w.orders.take(0)
				d.w.upkeep()
				if ended := d.endActive(); ended > 0 {
					runs, more = runs+ended, true
				} else if mode == "busy" || sinceMs(began) >= float64(stepMs) {
					break // what is left is for the next step
				}
			}
			most = max(most, d.beyond(jobs))
		}
	}
	b.ReportMetric(float64(runs)/float64(b.N), "runs/op")
	b.ReportMetric(float64(most), "over-max-rows")
	b.ReportMetric(float64(d.beyond(jobs)), "over-end-rows")
	reportMs(b, "turn", turns)
}

// beyond is how many events and history rows there are beyond their bounds, by
// what the worker remembers of them.
func (d *desk) beyond(jobs int) int {
	oldest := int64(0)
	tx, err := d.w.store.Begin()
	if err == nil {
		err = tx.Query(`SELECT coalesce(min(seq), 0) FROM rota_events`, nil, func(scan func(...any) error) error { return scan(&oldest) })
	}
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		d.t.Fatal(err)
	}
	events := int(d.w.st.seq-oldest) - d.w.cfg.Events
	return max(0, events) + max(0, d.w.st.totals.all-jobs*d.w.cfg.HistoryRowsPerJob)
}
