package worker

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// Late runs and retention at their edges.

// A manual run in mode due takes one planned slot; the others still run.
func TestManualDueTakesOneOfSeveralPlannedSlots(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("blk", everyHour)
	d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`, `,"catchUp":{"policy":"all"}`)
	d.cfg.CatchUpMaxImmediate, d.cfg.CatchUpStaggerMs = 0, 5000
	d.close()
	d.nowMs += (3 * time.Hour).Milliseconds() + 1000
	d.open(Options{LogID: "log"})
	// wait until it is due, and ask in the very turn
	j := d.job("j")
	d.nowMs = j.next().N
	must[RunAnswer](d, RunJob{ID: "j", Mode: "due", Key: "k"})
	d.runAll()
	d.live(time.Minute, time.Second)
	ran := d.query(`SELECT detail_json ->> '$.slotMs' FROM task_runs WHERE source_id='j' AND detail_json ->> '$.trigger'='catch-up'`)
	if len(ran) != 2 {
		t.Errorf("3 planned, one taken by the manual run, %d of 2 others ran; plan rows %v; decisions %v; next %v", len(ran),
			d.query(`SELECT slot_ms FROM rota_plan WHERE job_id='j'`), d.decisions("j"), d.job("j").next())
	}
}

// A planned slot that could not run is decided, and stays decided when the job is
// repaired.
func TestAPlannedSlotThatWasDecidedIsNotRunLater(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`)
	good := d.query(`SELECT job_json FROM cron_jobs WHERE job_id='j'`)[0]
	var def map[string]any
	json.Unmarshal([]byte(good), &def)
	def["payload"] = map[string]any{"kind": "script", "script": "x"}
	bad, _ := json.Marshal(def)
	d.exec(`UPDATE cron_jobs SET job_json=?, payload_kind='script' WHERE job_id='j'`, string(bad))
	d.restart(2 * time.Hour)                                                                 // 01:00, 02:00 missed; newest planned and cannot run
	d.exec(`UPDATE cron_jobs SET job_json=?, payload_kind='command' WHERE job_id='j'`, good) // repaired
	d.restart(3 * time.Hour)                                                                 // 03:00..05:00 missed
	d.runAll()
	d.runAll()
	d.live(time.Minute, time.Second)
	for _, s := range d.slots() {
		if s == "2026-05-01T02:00:00.000Z" {
			t.Errorf("slot 02:00 was decided (unrunnable) and is run at the next start: %v", d.slots())
		}
	}
}

// An interrupted manual run does not take a planned late run with it.
func TestInterruptedManualRunLeavesThePlan(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`)
	d.cfg.CatchUpMaxImmediate = 0
	d.restart(2 * time.Hour) // planned 5 s later
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	m := d.last()
	d.crash()
	d.nowMs += 60_000
	d.open(Options{LogID: "log", Logged: []Logged{{ReceiptID: m.ReceiptID, BootID: "boot-1"}}})
	d.live(10*time.Minute, time.Second)
	if n := len(d.query(`SELECT slot_ms FROM rota_plan`)); n != 0 {
		t.Errorf("%d plan rows are stuck; slot 02:00 neither ran nor has a decision: %v", n, d.decisions("j"))
	}
}

// A late run that is put off never waits over slots of its own job.
func TestALateRunDoesNotWaitOverItsJobsOwnSlots(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"every","everyMs":1000}`)
	d.cfg.CatchUpMaxImmediate, d.cfg.CatchUpStaggerMs = 0, 60_000
	d.restart(time.Minute)
	start := d.nowMs
	d.live(59*time.Second, 500*time.Millisecond)
	n := 0
	for _, l := range d.launched {
		if l.Trigger == TriggerTimer && l.SlotMs > start {
			n++
		}
	}
	d.live(5*time.Second, 500*time.Millisecond)
	if n == 0 {
		t.Errorf("no natural slot of the every-second job ran in the 59 s before its late run; decisions %v", d.decisions("j"))
	}
}

// A request key is known as long as its receipt.
func TestARequestKeyIsKnownAsLongAsItsReceipt(t *testing.T) {
	d := newDesk(t)
	d.add("j", `{"kind":"every","everyMs":864000000000}`)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k", Given: true})
	d.runAll()
	for range 4 {
		d.nowMs += 3 * dayMs
		d.monoMs += 3 * dayMs
		d.turn()
	}
	a, err := d.do(RunJob{ID: "j", Mode: "force", Key: "k", Given: true})
	if err != nil && codeOf(err) == "" {
		t.Errorf("a bare storage error: %v %v", a, err)
	}
}

// Retention keeps up with whatever the daemon writes.
func TestRetentionKeepsUpWithABusyDaemon(t *testing.T) {
	d := newDesk(t)
	d.cfg.Events = 500
	d.w.cfg = &d.cfg
	for i := range 10 {
		d.add(fmt.Sprint("j", i), `{"kind":"every","everyMs":1000}`)
	}
	var sizes []string
	for range 4 {
		d.live(time.Minute, time.Second)
		sizes = append(sizes, d.query(`SELECT count(*) FROM rota_events`)[0])
	}
	if sizes[3] > "2500" && len(sizes[3]) > 3 {
		t.Errorf("cron.retention events = 500, and the table grows without bound: after each minute %v", sizes)
	}
}
