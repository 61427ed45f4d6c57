package worker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Deadlines after a change of zone, daylight-saving rule or zone data.

const (
	atNine     = `{"kind":"cron","expr":"0 9 * * *","staggerMs":0}` // in the configuration's zone
	atNineOslo = `{"kind":"cron","expr":"0 9 * * *","tz":"Europe/Oslo","staggerMs":0}`
)

// retimedEvents are the events that told of moved deadlines.
func (d *desk) retimedEvents() []string {
	return d.query(`SELECT detail ->> '$.jobs' FROM rota_events WHERE kind = 'jobs.retimed' ORDER BY seq`)
}

// zoneless takes the zone out of a job's stored schedule, as other programs
// leave it out: cron.add writes the zone it means.
func (d *desk) zoneless(id string) {
	d.t.Helper()
	d.exec(`UPDATE cron_jobs SET job_json = json_remove(job_json, '$.schedule.tz') WHERE job_id = ?`, id)
	d.restart(0)
}

func TestAnotherZoneMovesNaturalDeadlinesAhead(t *testing.T) {
	for _, how := range []string{"pushed", "at a start"} {
		t.Run(how, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T06:00:00Z")
			d.add("host", atNine)
			d.add("own", atNineOslo)
			d.add("once", `{"kind":"at","at":"2026-05-01T09:00:00Z"}`)
			d.zoneless("host")
			d.wantNext("host", "2026-05-01T09:00:00.000Z")
			d.cfg.Zone = "America/New_York"
			if how == "pushed" {
				d.configure()
			} else {
				d.restart(0)
			}
			d.wantNext("host", "2026-05-01T13:00:00.000Z")
			d.wantNext("own", "2026-05-01T07:00:00.000Z")
			d.wantNext("once", "2026-05-01T09:00:00.000Z")
			if told := d.retimedEvents(); len(told) != 1 || told[0] != "1" {
				t.Errorf("events %v", told)
			}
			d.restart(0) // and not again
			if told := d.retimedEvents(); len(told) != 1 {
				t.Errorf("events %v", told)
			}
		})
	}
}

// What has come, what is planned and what a mark covers stay.
func TestAnotherZoneLeavesWhatHasCome(t *testing.T) {
	d := deskAt(t, "2026-05-01T08:00:00Z")
	d.add("host", atNine)
	d.zoneless("host")
	must[RunAnswer](d, RunJob{ID: "host", Mode: "force", Key: "k"})
	d.advance(90 * time.Minute) // 09:00 has come and waits behind the manual run
	d.cfg.Zone = "America/New_York"
	d.configure()
	d.wantNext("host", "2026-05-01T09:00:00.000Z")
	d.runAll()
	if d.last().SlotMs != at(t, "2026-05-01T09:00:00Z") {
		t.Errorf("ran %v", d.slots())
	}
	d.wantNext("host", "2026-05-01T13:00:00.000Z")
	d.live(4*time.Hour, time.Hour)
	d.cfg.Zone = "UTC" // 13:00 is the mark; nine o'clock UTC of today is behind it
	d.configure()
	d.wantNext("host", "2026-05-02T09:00:00.000Z")

	d.cfg.CatchUpMaxImmediate = 0
	d.restart(24 * time.Hour)
	planned, _ := d.job("host").NextRunMs()
	d.cfg.Zone = "Asia/Tokyo"
	d.configure()
	if next, _ := d.job("host").NextRunMs(); next != planned || !d.job("host").state().StartupCatchupAtMs.Set {
		t.Errorf("the planned start moved from %s to %s", instantText(planned), instantText(next))
	}
}

func TestAnotherDaylightSavingRuleMovesTheNight(t *testing.T) {
	d := deskAt(t, "2026-03-29T00:00:00Z")
	d.add("gap", `{"kind":"cron","expr":"30 2 * * *","tz":"Europe/Oslo"}`)
	own := d.add("own", `{"kind":"cron","expr":"30 2 * * *","tz":"Europe/Oslo"}`, `,"dst":"vixie"`)
	d.wantNext("gap", "2026-03-29T01:00:00.000Z")
	d.cfg.DST = 1 // skip
	d.configure()
	d.wantNext("gap", "2026-03-30T00:30:00.000Z")
	if next, _ := d.job("own").NextRunMs(); next != own.next().N {
		t.Errorf("a job's own rule was overruled: %s", instantText(next))
	}
}

// Other zone data at a start recomputes what lies ahead and says how much.
func TestOtherZoneDataAtAStart(t *testing.T) {
	d := deskAt(t, "2026-05-01T06:00:00Z")
	for _, id := range []string{"right", "wrong", "failed", "late"} {
		d.add(id, atNineOslo)
	}
	set := func(id, state string) {
		d.exec(`UPDATE cron_jobs SET state_json = ? WHERE job_id = ?`, d.times(state), id)
	}
	set("wrong", `{"nextRunAtMs":@7200}`) // as data of before had it
	set("failed", `{"nextRunAtMs":@600,"lastRunAtMs":@-60,"lastRunStatus":"error","consecutiveErrors":1}`)
	set("late", `{"nextRunAtMs":@-60,"rotaConsumedMs":@-90000}`)
	d.exec(`UPDATE rota_meta SET value = '2019a UTC vixie' WHERE key = 'time_rules'`)
	d.restart(0)
	d.wantNext("right", "2026-05-01T07:00:00.000Z")
	d.wantNext("wrong", "2026-05-01T07:00:00.000Z")
	d.wantNext("failed", "2026-05-01T06:10:00.000Z")
	if told := d.retimedEvents(); len(told) != 1 || told[0] != "1" {
		t.Errorf("events %v", told)
	}
	if len(d.launched) != 1 || d.last().JobID != "late" {
		t.Errorf("a deadline that has come: %v", d.slots())
	}
	if rules := d.query(`SELECT value FROM rota_meta WHERE key = 'time_rules'`); strings.HasPrefix(rules[0], "2019a") {
		t.Errorf("the file remembers %v", rules)
	}
}

// Edits of other fields move no deadline, also not one that waits for the clock.
func TestEditsOfOtherFieldsMoveNothing(t *testing.T) {
	d := deskAt(t, "2026-05-01T09:30:00Z")
	d.add("j", hourly)
	d.live(time.Hour, time.Minute)
	d.nowMs -= 2 * time.Hour.Milliseconds()
	d.turn()
	for _, patch := range []string{`{"name":"x"}`, `{"description":"y"}`, `{"catchUp":{"policy":"all"}}`, `{"enabled":true}`,
		`{"payload":{"kind":"command","argv":["/bin/false"]}}`} {
		must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(patch)})
		d.wantNext("j", "2026-05-01T11:00:00.000Z")
	}
	why := must[Why](d, WhyQuery{JobID: "j", AtMs: at(t, "2026-05-01T09:00:00Z")})
	if why.Decisions[0].Rule != string(RuleWaitsClock) {
		t.Errorf("09:00 at 08:30, with a mark at 10:00: %+v", why)
	}
}

// Schedules off: nothing is requested and no deadline moves, over starts too;
// what was requested before still runs. Turning them on is a start.
func TestSchedulesOffFreezeDeadlines(t *testing.T) {
	d := deskAt(t, "2026-05-01T09:59:00Z")
	d.add("j", hourly)
	d.add("k", hourly)
	d.cfg.Enabled = false
	d.configure()
	d.advance(2 * time.Hour)
	d.restart(time.Hour)
	d.wantNext("j", "2026-05-01T10:00:00.000Z")
	d.sleep(time.Hour)
	d.wantSlots()
	d.wantNext("j", "2026-05-01T10:00:00.000Z")
	if why := must[Why](d, WhyQuery{JobID: "j", AtMs: at(t, "2026-05-01T11:00:00Z")}); why.Decisions[0].Rule != string(RuleOff) {
		t.Errorf("why: %+v", why)
	}
	if d.w.Snapshot().Cron {
		t.Error("the snapshot says that schedules fire")
	}
	d.cfg.Enabled = true
	d.configure()
	d.live(30*time.Second, time.Second)
	d.wantSlots("2026-05-01T13:00:00.000Z", "2026-05-01T13:00:00.000Z")
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "missed 2026-05-01T10:00:00Z..2026-05-01T12:00:00Z x3" {
		t.Errorf("decisions %v", rows)
	}
}
