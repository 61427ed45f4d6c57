package worker

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// Sleeps and corrections at their edges; the plain cases are in
// testdata/worker/clock.txt.

// correct is a clock set right after a false time.
func (d *desk) correct(text string) {
	d.t.Helper()
	d.nowMs = at(d.t, text)
	d.turn()
}

// A sleep that many jobs missed slots in takes several turns; meanwhile none of
// them is requested as if it had just come due.
func TestASleepOfManyJobsIsCaughtUpInTurns(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	var all ApplyJobs
	for i := range 600 {
		all.IDs = append(all.IDs, fmt.Sprintf("j%03d", i))
		all.Jobs = append(all.Jobs, json.RawMessage(fmt.Sprintf(
			`{"name":"j%d","schedule":%s,"payload":{"kind":"command","argv":["/bin/true"]},"catchUp":{"policy":"skip"}}`, i, hourly)))
	}
	must[Applied](d, all)
	d.nowMs += 3 * time.Hour.Milliseconds()
	turns := 0
	for more := true; more; turns++ {
		var err error
		if more, err = d.w.turn(); err != nil {
			t.Fatal(err)
		}
	}
	d.checkMemory()
	d.take()
	if len(d.launched) != 0 || turns < 3 {
		t.Errorf("%d launches in %d turns of jobs that skip what they missed", len(d.launched), turns)
	}
	if rows := d.query(`SELECT count(*) || ' ' || sum(slots) FROM rota_slots WHERE rule = 'missed'`); rows[0] != "600 1800" {
		t.Errorf("rows and slots: %v", rows)
	}
	if jumps := d.query(`SELECT detail ->> '$.missedJobs' FROM rota_events WHERE kind = 'clock.jump'`); len(jumps) != 1 || jumps[0] != "600" {
		t.Errorf("events of the sleep: %v", jumps)
	}
}

// A turn that fails after a sleep does not forget the sleep.
func TestAFailedTurnDoesNotForgetASleep(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	d.add("j", hourly, `,"catchUp":{"policy":"skip"}`)
	d.fault = nthFault("commit", 1)
	d.sleep(3 * time.Hour)
	d.fault = nil
	d.wantSlots()
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "missed 2026-05-01T01:00:00Z..2026-05-01T03:00:00Z x3" {
		t.Errorf("decisions %v", rows)
	}
}

// What was planned in a false time: a slot that has passed by the right clock
// runs, one that is yet to come is told as dropped and comes again.
func TestACorrectionRebasesThePlan(t *testing.T) {
	for _, how := range []string{"running", "stopped"} {
		t.Run(how, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:30:00Z")
			d.cfg.CatchUpMaxImmediate, d.cfg.CatchUpStaggerMs = 0, 600_000
			d.add("past", `{"kind":"at","at":"2026-05-01T01:30:00Z"}`)
			d.add("ahead", `{"kind":"at","at":"2026-05-03T00:00:00Z"}`)
			d.add("all", `{"kind":"cron","expr":"0 12 * * *","tz":"UTC","staggerMs":0}`, `,"catchUp":{"policy":"all"}`)
			d.nowMs = at(t, "2026-05-04T00:00:00Z")
			d.restart(0) // planned: past, ahead, and all for the first, second and third of May
			if n := d.query(`SELECT count(*) FROM rota_plan`)[0]; n != "5" {
				t.Fatalf("%s slots are planned", n)
			}
			if how == "running" {
				d.correct("2026-05-01T13:00:00Z")
			} else {
				d.close()
				d.nowMs = at(t, "2026-05-01T13:00:00Z")
				d.open(Options{LogID: "log"})
			}
			d.live(time.Minute, time.Second)
			d.wantSlots("2026-05-01T01:30:00.000Z", "2026-05-01T12:00:00.000Z")
			d.wantNext("ahead", "2026-05-03T00:00:00.000Z")
			d.wantNext("all", "2026-05-02T12:00:00.000Z")
			if rows := d.decisions("all"); len(rows) != 1 || rows[0] != "clock 2026-05-02T12:00:00Z..2026-05-03T12:00:00Z x2" {
				t.Errorf("decisions %v", rows)
			}
			d.live(60*time.Hour, time.Hour)
			d.wantSlots("2026-05-01T01:30:00.000Z", "2026-05-01T12:00:00.000Z", "2026-05-02T12:00:00.000Z", "2026-05-03T00:00:00.000Z", "2026-05-03T12:00:00.000Z")
		})
	}
}

// A schedule edited in a false time took effect now: what is missed afterwards
// counts.
func TestACorrectionRebasesTheActivation(t *testing.T) {
	d := deskAt(t, "2098-01-01T00:00:30Z")
	d.add("j", everyHour)
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"schedule":` + hourly + `}`)})
	d.correct("2026-05-01T12:00:00Z")
	if s := d.job("j").state(); s.ScheduleActivatedAtMs.N != d.nowMs {
		t.Errorf("activated %s", instantText(s.ScheduleActivatedAtMs.N))
	}
	d.restart(3 * time.Hour)
	d.wantSlots("2026-05-01T15:00:00.000Z")
}

// Rows written in a false time do not hold up retention for ever.
func TestRetentionAfterACorrection(t *testing.T) {
	d := deskAt(t, "2098-01-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"* * * * * *","tz":"UTC"}`)
	for range 300 { // each end within the refire gap leaves a row
		d.advance(time.Second)
		d.nowMs += 7
		d.runAll()
	}
	false2098 := d.query(`SELECT count(*) FROM rota_slots`)[0]
	d.correct("2026-05-01T12:00:00Z")
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":false}`)})
	for range 12 {
		d.nowMs += dayMs
		d.monoMs += dayMs
		d.turn()
	}
	if left := d.query(`SELECT count(*) FROM rota_slots`)[0]; left != "0" || false2098 == "0" {
		t.Errorf("%s of %s decisions are kept twelve days later", left, false2098)
	}
}

// A file whose events are gone is judged by its marks; an interval that was
// anchored ahead on purpose keeps its anchor.
func TestACorrectionWithoutEvents(t *testing.T) {
	d := deskAt(t, "2026-05-01T12:00:00Z")
	d.add("j", hourly)
	d.add("chosen", `{"kind":"every","everyMs":3600000,"anchorMs":`+fmt.Sprint(at(t, "2099-01-01T00:00:00Z"))+`}`)
	mark := at(t, "2098-01-01T00:00:00Z")
	d.exec(`UPDATE cron_jobs SET state_json = ? WHERE job_id = 'j'`, fmt.Sprintf(`{"nextRunAtMs":%d,"rotaConsumedMs":%d}`, mark+3_600_000, mark))
	d.exec(`DELETE FROM rota_events`)
	d.restart(time.Minute)
	d.wantNext("j", "2026-05-01T13:00:00.000Z")
	d.wantNext("chosen", "2099-01-01T00:00:00.000Z")
	if told := d.query(`SELECT kind FROM rota_events WHERE kind = 'clock.back'`); len(told) != 1 {
		t.Errorf("events %v", told)
	}
	d.restart(time.Hour) // and is not a correction again
	if told := d.query(`SELECT kind FROM rota_events WHERE kind = 'clock.back'`); len(told) != 1 {
		t.Errorf("events %v", told)
	}
	d.wantSlots("2026-05-01T13:00:00.000Z")
}

// A small step back before a start and another after it add up.
func TestStepsBackAddUpOverAStart(t *testing.T) {
	d := deskAt(t, "2026-05-01T12:30:00Z")
	d.add("j", hourly)
	d.live(time.Hour, time.Minute)
	d.restart(-2 * time.Hour)
	d.wantNext("j", "2026-05-01T14:00:00.000Z")
	d.nowMs -= 2 * time.Hour.Milliseconds()
	d.turn()
	d.wantNext("j", "2026-05-01T10:00:00.000Z")
}

// A sleep while the disk is full is acted on when there is space again.
func TestASleepWhileTheDiskIsFull(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	d.add("j", hourly, `,"catchUp":{"policy":"skip"}`)
	d.w.trouble.full, d.w.trouble.attempts, d.w.trouble.untilMs = true, 1, d.monoMs+5000
	d.nowMs += 3 * time.Hour.Milliseconds()
	c := &call{command: WhyQuery{JobID: "j"}, reply: make(chan answer, 1)}
	d.w.commands.put(c)
	if _, err := d.w.turn(); err != nil || len(c.reply) != 1 {
		t.Fatal("no reads while the disk is full", err)
	}
	if rows := d.decisions("j"); len(rows) != 0 {
		t.Fatalf("written to a full disk: %v", rows)
	}
	d.monoMs += 5000
	d.nowMs += 5000
	d.turn()
	d.wantSlots()
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "missed 2026-05-01T01:00:00Z..2026-05-01T03:00:00Z x3" {
		t.Errorf("decisions %v", rows)
	}
}
