package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// Retention takes what is past its time and nothing else: rows of the last
// days, open runs and what they need stay.
func TestRetentionTakesOnlyWhatIsOld(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"every","everyMs":3600000}`)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k", Given: true})
	d.runAll()
	d.live(8*24*time.Hour, time.Hour)
	d.live(2*time.Minute, time.Minute) // retention looks once more
	oldest := d.nowMs - 7*dayMs - time.Hour.Milliseconds()
	for table, column := range map[string]string{"rota_events": "at_ms", "rota_slots": "at_ms", "rota_requests": "at_ms", "task_runs": "ended_at"} {
		if left := d.query(`SELECT count(*) FROM `+table+` WHERE `+column+` < ?`, oldest); left[0] != "0" {
			t.Errorf("%s keeps %s rows past their time", table, left[0])
		}
	}
	if kept := d.query(`SELECT count(*) FROM task_runs WHERE ended_at > ?`, d.nowMs-6*dayMs); kept[0] != "144" {
		t.Errorf("six days of hourly runs leave %s history rows, want 144", kept[0])
	}
	if receipts := d.query(`SELECT count(*) FROM cron_run_receipts`); receipts[0] != "16" {
		t.Errorf("%s receipts are kept, want 16", receipts[0])
	}
	d.add("gone", `{"kind":"at","at":"+1s"}`)
	d.live(2*time.Second, time.Second)
	d.live(8*24*time.Hour, time.Hour)
	if orphans := d.query(`SELECT count(*) FROM cron_run_receipts WHERE job_id = 'gone'`); orphans[0] != "0" {
		t.Error("the receipt of a removed job is kept for ever")
	}
}

// keepLittle has every job keep two receipts and three rows of history.
func (d *desk) keepLittle() {
	cfg := d.cfg
	cfg.Version, cfg.ReceiptsPerJob, cfg.HistoryRowsPerJob = cfg.Version+1, 2, 3
	d.w.Configure(cfg)
	d.turn()
}

// kept is how many finished receipts and history rows a job has.
func (d *desk) kept(job string) string {
	return d.query(`SELECT (SELECT count(*) FROM cron_run_receipts WHERE job_id = ?1 AND status <> 'running') || ' ' ||
		(SELECT count(*) FROM task_runs WHERE source_id = ?1)`, job)[0]
}

// look is one look of retention and all its pieces.
func (d *desk) look() {
	d.monoMs += retainEveryMs
	d.turn()
}

// A job that ran too often before a start, and never after it, is trimmed all
// the same; so it is when the bounds are lowered.
func TestRetentionLooksAtEveryJobOnceAfterAStartAndAChange(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	for i := range 100 { // more than one piece looks at
		d.add(fmt.Sprintf("j%03d", i), `{"kind":"every","everyMs":86400000}`)
	}
	for n := range 5 {
		must[RunAnswer](d, RunJob{ID: "j099", Mode: "force", Key: fmt.Sprint(n), Given: true})
		d.runAll()
	}
	d.look()
	if got := d.kept("j099"); got != "5 5" {
		t.Errorf("within its bounds a job keeps %s of 5", got)
	}
	d.keepLittle()
	d.look()
	if got := d.kept("j099"); got != "2 3" {
		t.Errorf("by lower bounds it keeps %s, want 2 receipts and 3 rows", got)
	}
	for n := range 5 {
		must[RunAnswer](d, RunJob{ID: "j050", Mode: "force", Key: fmt.Sprint(n), Given: true})
		d.runAll()
	}
	d.crash()
	d.cfg.ReceiptsPerJob, d.cfg.HistoryRowsPerJob = 2, 3
	d.open(Options{LogID: "log"})
	d.look()
	if got := d.kept("j050"); got != "2 3" {
		t.Errorf("after a start it keeps %s, want 2 receipts and 3 rows", got)
	}
}

// Jobs that run all the time do not keep retention from those behind them.
func TestRetentionGoesRoundTheJobs(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.look() // what a start looks at is done
	jobs := 2*pieceRuns + 1
	for i := range jobs {
		d.add(fmt.Sprintf("j%03d", i), `{"kind":"every","everyMs":86400000}`)
	}
	last := fmt.Sprintf("j%03d", jobs-1)
	for i := range jobs {
		d.w.st.grown = d.w.st.grown.Put(new(edit), fmt.Sprintf("j%03d", i), struct{}{})
	}
	d.monoMs += retainEveryMs
	for range 4 {
		if _, waits := d.w.st.grown.Get(last); !waits {
			return
		}
		d.monoMs += retainPauseMs
		d.once()
		for i := range pieceRuns { // the first ones ran again
			d.w.st.grown = d.w.st.grown.Put(new(edit), fmt.Sprintf("j%03d", i), struct{}{})
		}
	}
	t.Error("the last job was never looked at")
}

// A turn with much other work removes nothing, until the look has waited for so
// long that each turn removes more than it adds.
func TestRetentionLeavesBusyTurnsAloneForSomeTime(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.cfg.Version, d.cfg.MaxConcurrent = 2, 1000
	d.w.Configure(d.cfg)
	d.turn()
	d.exec(overfullRequests, 10_000, d.nowMs-8*dayMs)
	busy := func(minute int) (removed int) {
		before := d.expirable()
		for i := range commandsPerTurn {
			id := fmt.Sprintf("m%d-%03d", minute, i)
			d.w.commands.put(&call{command: AddJob{ID: id, Params: manyParams(i, `{"kind":"every","everyMs":7776000000}`)}, reply: make(chan answer, 1)})
			d.w.commands.put(&call{command: RunJob{ID: id, Mode: "force", Key: id, Given: true}, reply: make(chan answer, 1)})
		}
		d.monoMs += retainPauseMs
		d.once()
		return before - d.expirable()
	}
	d.monoMs += retainEveryMs
	if busy(1); d.w.st.retention.underWay == false {
		t.Error("no look began")
	}
	if left := d.query(`SELECT count(*) FROM rota_requests WHERE run_id LIKE 'run-%'`)[0]; left != "10000" {
		t.Errorf("a busy turn removed rows: %s are left", left)
	}
	d.monoMs += retainPatienceMs
	if removed := busy(2); removed <= 0 {
		t.Errorf("after its patience a busy turn adds %d rows more than it removes", -removed)
	}
	d.turn()
	if left := d.query(`SELECT count(*) FROM rota_requests WHERE run_id LIKE 'run-%'`)[0]; left != "0" {
		t.Errorf("%s rows past their time are left when all is quiet", left)
	}
}

// Receipts of a time that has not come, which a clock that was ahead left, count
// as the oldest: they fill up what a job may keep, and go first.
func TestRetentionTakesReceiptsOfTheFutureFirst(t *testing.T) {
	for _, c := range []struct {
		past, future int
		want         string
	}{{0, 5, "3 of the future"}, {2, 5, "2, 1 of the future"}, {5, 5, "3"}, {2, 0, "2"}} {
		d := deskAt(t, "2026-05-01T00:00:00Z")
		tx, err := d.w.store.Begin()
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.past + c.future {
			atMs := d.nowMs - int64(i)
			if i >= c.past {
				atMs = d.nowMs + int64(i+1)*dayMs
			}
			id := fmt.Sprint("r", i)
			if err := store.InsertReceipt(tx, store.Receipt{ID: id, JobID: "j", StartedAtMs: atMs}); err != nil {
				t.Fatal(err)
			}
			if _, err := store.FinishReceipt(tx, id, store.ReceiptOK, atMs, ""); err != nil {
				t.Fatal(err)
			}
		}
		removed, err := store.TrimReceipts(tx, "j", d.nowMs, 3, 100)
		if err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		left := d.query(`SELECT trim(iif(past, past, '') || iif(past AND future, ', ', '') || iif(future, future || ' of the future', '')) FROM
			(SELECT coalesce(sum(started_at_ms <= ?1), 0) AS past, coalesce(sum(started_at_ms > ?1), 0) AS future FROM cron_run_receipts)`, d.nowMs)[0]
		if left != c.want || int(removed) != c.past+c.future-min(3, c.past+c.future) {
			t.Errorf("of %d and %d of the future are left: %s, want %s; %d were removed", c.past, c.future, left, c.want, removed)
		}
	}
}
