package worker

import (
	"testing"
	"time"
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
