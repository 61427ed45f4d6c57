package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// What a start makes of jobs that another program left in a file that rota only
// opened: overdue, finished, failed, deferred, off their schedule. The names
// begin with the behaviour's id. All times of a row are seconds before or after
// its start, written as @-90; a state is what the other program wrote.

// openedFile is a desk on a file that rota did not make.
func openedFile(t *testing.T, now string) *desk {
	d := deskAt(t, now)
	d.exec(`PRAGMA application_id = 0`)
	d.restart(0)
	return d
}

// left is a job as the other program left it.
type left struct{ id, schedule, payload, state string }

// leave puts jobs into the file behind rota's back; the next start finds them.
func (d *desk) leave(jobs ...left) {
	d.t.Helper()
	for _, j := range jobs {
		d.add(j.id, daily)
	}
	for _, j := range jobs {
		definition := d.query(`SELECT job_json FROM cron_jobs WHERE job_id = ?`, j.id)[0]
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(definition), &members); err != nil {
			d.t.Fatal(err)
		}
		members["schedule"] = json.RawMessage(j.schedule)
		if j.payload != "" {
			members["payload"] = json.RawMessage(j.payload)
		}
		raw, err := json.Marshal(members)
		if err != nil {
			d.t.Fatal(err)
		}
		d.exec(`UPDATE cron_jobs SET job_json = ?, state_json = ? WHERE job_id = ?`, string(raw), d.times(j.state), j.id)
	}
}

// times writes the instants of a text: @-90 is ninety seconds before now.
func (d *desk) times(text string) string {
	parts := strings.Split(text, "@")
	for i := 1; i < len(parts); i++ {
		var seconds int64
		digits := strings.IndexFunc(parts[i], func(r rune) bool { return r != '-' && (r < '0' || r > '9') })
		if digits < 0 {
			digits = len(parts[i])
		}
		fmt.Sscan(parts[i][:digits], &seconds)
		parts[i] = fmt.Sprint(d.nowMs+seconds*1000) + parts[i][digits:]
	}
	return strings.Join(parts, "")
}

const (
	everyMinute = `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`
	daily       = `{"kind":"cron","expr":"0 9 * * *","tz":"UTC","staggerMs":0}`
	hourly      = `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`
	agentTurn   = `{"kind":"agentTurn","message":"x"}`
)

// openedRows all start at 2026-05-01T12:00:30Z.
var openedRows = []struct {
	name, schedule, payload, state string
	runs                           int
	next                           int64 // seconds from the start; -1 = none
	planned                        bool  // the deadline is a late start
}{
	{"RC1 overdue, no history", daily, "", `{"nextRunAtMs":@-10830}`, 1, 75570, false},
	{"RC5 finished one-shot", `{"kind":"at","at":"2026-05-01T11:59:30Z"}`, "", `{"nextRunAtMs":@-60,"lastRunStatus":"ok","lastRunAtMs":@-50}`, 0, -1, false},
	{"RC6 overdue agent turn", daily, agentTurn, `{"nextRunAtMs":@-10830}`, 0, 120, true},
	{"RC7 agent turn whose slot ended ok", daily, agentTurn, `{"nextRunAtMs":@-10830,"lastRunStatus":"ok","lastRunAtMs":@-10830}`, 0, 75570, false},
	{"RC8 and skipped", daily, agentTurn, `{"nextRunAtMs":@-10830,"lastRunStatus":"skipped","lastRunAtMs":@-10830}`, 0, 75570, false},
	{"RC9 the slot after the finished one", everyMinute, "", `{"nextRunAtMs":@-90,"lastRunStatus":"ok","lastRunAtMs":@-90,"lastDurationMs":100}`, 1, 30, false},
	{"RC12 next is ahead, an earlier slot was missed", hourly, "", `{"nextRunAtMs":@3570,"lastRunStatus":"ok","lastRunAtMs":@-3630}`, 1, 3570, false},
	{"RC16 the latest slot ran", hourly, "", `{"nextRunAtMs":@3570,"lastRunStatus":"ok","lastRunAtMs":@-20}`, 0, 3570, false},
	{"RC17 missed within the backoff", everyMinute, "", `{"nextRunAtMs":@30,"lastRunStatus":"error","lastRunAtMs":@-150,"lastDurationMs":0,"consecutiveErrors":4}`, 0, 750, false},
	{"RC18 backoff from the end of a long run", everyMinute, "", `{"nextRunAtMs":@-30,"lastRunStatus":"error","lastRunAtMs":@-110,"lastDurationMs":90000,"consecutiveErrors":1}`, 0, 10, false},
	{"RC19 overdue interval within the backoff", `{"kind":"every","everyMs":60000}`, "", `{"nextRunAtMs":@-30,"lastRunStatus":"error","lastRunAtMs":@-110,"lastDurationMs":90000,"consecutiveErrors":1}`, 0, 10, false},
	{"RC20 the status under its old name", `{"kind":"every","everyMs":60000}`, "", `{"nextRunAtMs":@-30,"lastStatus":"error","lastRunAtMs":@-110,"lastDurationMs":90000,"consecutiveErrors":1}`, 0, 10, false},
	{"RC21 missed, and the backoff is over", hourly, "", `{"nextRunAtMs":@3570,"lastRunStatus":"error","lastRunAtMs":@-3630,"lastDurationMs":0,"consecutiveErrors":1}`, 1, 3570, false},
	{"RP1 a paced deadline ahead", everyMinute, "", `{"nextRunAtMs":@1200,"pacedNextRunAtMs":@1200,"lastRunStatus":"ok","lastRunAtMs":@-20}`, 0, 1200, false},
	{"RP2 a paced deadline that passed", `{"kind":"every","everyMs":3600000}`, agentTurn, `{"nextRunAtMs":@-60,"pacedNextRunAtMs":@-60,"lastRunStatus":"ok","lastRunAtMs":@-1860}`, 0, 120, true},
	{"RP4 inside the first backoff", everyMinute, "", `{"nextRunAtMs":@20,"lastRunStatus":"error","lastRunAtMs":@-10,"lastDurationMs":0,"consecutiveErrors":1}`, 0, 20, false},
	{"another program's deferral ahead stands", daily, "", `{"nextRunAtMs":@40,"startupCatchupAtMs":@40,"lastRunStatus":"ok","lastRunAtMs":@-97230}`, 0, 40, false},
	{"an interval off the grid is due", `{"kind":"every","everyMs":3600000}`, "", `{"nextRunAtMs":@-60,"lastRunStatus":"ok","lastRunAtMs":@-3660}`, 1, 3600, false},
	{"a retry of a one-shot that passed", `{"kind":"at","at":"2026-05-01T11:59:30Z"}`, "", `{"nextRunAtMs":@-5,"lastRunStatus":"error","lastRunAtMs":@-50,"consecutiveErrors":1}`, 1, -1, false},
	{"OC4 a deadline that is no slot, too late", daily, "", `{"nextRunAtMs":@400000}`, 0, 75570, false},
	{"OC4 a deadline that is no slot, too early", daily, "", `{"nextRunAtMs":@3600}`, 0, 75570, false},
	{"an agent turn's early deadline stays", daily, agentTurn, `{"nextRunAtMs":@3600}`, 0, 3600, false},
	{"a deadline that is the slot stays", daily, "", `{"nextRunAtMs":@75570}`, 0, 75570, false},
}

func TestOpenedFileAtAStart(t *testing.T) {
	for _, row := range openedRows {
		t.Run(row.name, func(t *testing.T) {
			d := openedFile(t, "2026-05-01T12:00:30Z")
			d.leave(left{"j", row.schedule, row.payload, row.state})
			d.restart(0)
			if len(d.launched) != row.runs {
				t.Errorf("%d runs, want %d", len(d.launched), row.runs)
			}
			startMs := d.nowMs
			d.runAll()
			j, still := d.w.Snapshot().Job("j")
			if !still { // a one-shot that is over
				if row.next != -1 {
					t.Fatal("the job is gone")
				}
				return
			}
			next, has := j.NextRunMs()
			if want := startMs + row.next*1000; has != (row.next >= 0) || has && next != want {
				t.Errorf("next is %s, want %s: %s", instantText(next), instantText(want), j.State)
			}
			if got := j.state().StartupCatchupAtMs.Set && len(j.plan) > 0; got != row.planned {
				t.Errorf("planned %v, want %v", got, row.planned)
			}
			d.restart(0)
			if len(d.launched) != row.runs {
				t.Errorf("a second start: %d runs", len(d.launched))
			}
		})
	}
}

// OC1: with skipMissedJobs nothing runs; what was missed gets a time ahead and
// keeps its last run, what was not is left byte for byte.
func TestOC1SkipMissedJobs(t *testing.T) {
	d := openedFile(t, "2026-05-01T12:00:30Z")
	d.cfg.SkipMissed = true
	d.leave(
		left{"daily", daily, "", `{"nextRunAtMs":@-10830,"lastRunAtMs":@-97230,"lastRunStatus":"ok"}`},
		left{"interval", `{"kind":"every","everyMs":60000}`, "", `{"nextRunAtMs":@-600,"lastRunAtMs":@-660}`},
		left{"history", daily, "", `{"nextRunAtMs":@75570,"lastRunAtMs":@-97230,"lastRunStatus":"ok"}`},
		left{"future", daily, "", `{"nextRunAtMs":@75570,"lastRunAtMs":@-10830,"lastRunStatus":"ok"}`})
	before := d.query(`SELECT state_json FROM cron_jobs WHERE job_id = 'future'`)[0]
	d.restart(0)
	d.wantSlots()
	d.wantNext("daily", "2026-05-02T09:00:00.000Z")
	d.wantNext("interval", "2026-05-01T12:01:30.000Z")
	d.wantNext("history", "2026-05-02T09:00:00.000Z")
	if last := d.job("daily").state().LastRunAtMs.N; last != d.nowMs-97_230_000 {
		t.Errorf("the last run moved to %s", instantText(last))
	}
	if after := d.query(`SELECT state_json FROM cron_jobs WHERE job_id = 'future'`)[0]; after != before {
		t.Errorf("a job that missed nothing was written: %s", after)
	}
	for _, id := range []string{"daily", "interval", "history"} {
		if rows := d.decisions(id); len(rows) != 1 || !strings.HasPrefix(rows[0], "missed ") {
			t.Errorf("%s: %v", id, rows)
		}
	}
}

// OC2: the sixth overdue job starts five seconds later, a read does not change
// that, nor does a start in between; afterwards its natural slot is next.
func TestOC2OverflowKeepsItsStart(t *testing.T) {
	d := openedFile(t, "2026-05-01T12:00:30Z")
	jobs := []left{{"daily", daily, "", `{"nextRunAtMs":@-10830}`}}
	for i := range 5 {
		jobs = append(jobs, left{fmt.Sprint("hour", i), hourly, "", `{"nextRunAtMs":@-20000}`})
	}
	d.leave(jobs...)
	d.restart(0)
	d.wantNext("daily", "2026-05-01T12:00:35.000Z")
	must[Why](d, WhyQuery{JobID: "daily"})
	d.restart(3 * time.Second)
	d.wantNext("daily", "2026-05-01T12:00:35.000Z")
	if s := d.job("daily").state(); s.StartupCatchupAtMs != s.NextRunAtMs {
		t.Errorf("no deferral mark: %s", d.job("daily").State)
	}
	d.live(10*time.Second, time.Second)
	d.wantNext("daily", "2026-05-02T09:00:00.000Z")
	if d.job("daily").state().StartupCatchupAtMs.Set {
		t.Error("the deferral mark stays")
	}
}

// OC3: a late start beyond the largest date turns the job off, in the commit
// that finds it.
func TestOC3DeferralBeyondTheLargestDate(t *testing.T) {
	d := newDeskAt(t, maxInstantMs-7_202_000)
	d.cfg.CatchUpMaxImmediate = 1
	for i := range 3 {
		d.add(fmt.Sprint("j", i), everyHour)
	}
	d.restart(2*time.Hour + 1999*time.Millisecond)
	for i, id := range []string{"j0", "j1", "j2"} {
		j := d.job(id)
		_, has := j.NextRunMs()
		var off struct {
			Reason            string
			ConsecutiveErrors int
		}
		if i == 0 {
			if !j.Enabled || len(d.launched) != 1 {
				t.Errorf("the first: enabled %v, launched %v", j.Enabled, d.slots())
			}
			continue
		}
		if err := json.Unmarshal(j.state().AutoDisabled, &off); err != nil || j.Enabled || has || off.Reason != "schedule-errors" || off.ConsecutiveErrors != 1 {
			t.Errorf("%s: enabled %v, deadline %v, %s", id, j.Enabled, has, j.State)
		}
		if rows := d.query(`SELECT rule || detail FROM rota_slots WHERE job_id = ? AND detail LIKE '%largest date%'`, id); len(rows) != 1 {
			t.Errorf("%s has no row that says why", id)
		}
	}
}

// RP5 to RP7: a slot before the schedule took effect was never missed, a later
// one was, and is caught up once however often rota starts.
func TestRP5ActivationTime(t *testing.T) {
	d := deskAt(t, "2026-05-01T18:00:00Z")
	d.add("j", `{"kind":"cron","expr":"0 19 * * *","tz":"UTC","staggerMs":0}`)
	d.live(2*time.Hour, time.Hour)
	d.launched = nil
	d.nowMs = at(t, "2026-05-02T10:18:00Z")
	d.turn()
	edit := func(patch string) int64 {
		must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(patch)})
		return d.job("j").state().ScheduleActivatedAtMs.N
	}
	stamped := edit(`{"schedule":{"kind":"cron","expr":"0 21 * * *","tz":"UTC","staggerMs":0}}`)
	d.nowMs += 3_600_000
	d.monoMs += 3_600_000
	for _, patch := range []string{`{"name":"renamed"}`, `{"schedule":{"kind":"cron","expr":"0 21 * * *","tz":"UTC","staggerMs":0}}`, `{"description":"x"}`} {
		if again := edit(patch); again != stamped || stamped != at(t, "2026-05-02T10:18:00Z") {
			t.Errorf("%s stamps %s, the real edit %s", patch, instantText(again), instantText(stamped))
		}
	}
	d.restart(2 * time.Hour) // 13:18
	d.wantSlots()
	d.wantNext("j", "2026-05-02T21:00:00.000Z")
	d.restart(12 * time.Hour) // RP6: over 21:00
	d.runAll()
	d.restart(time.Minute)
	d.runAll()
	d.wantSlots("2026-05-02T21:00:00.000Z")
}

func TestRP7WithoutAnActivationStamp(t *testing.T) {
	d := openedFile(t, "2026-05-01T12:00:30Z")
	d.leave(left{"j", daily, "", `{"nextRunAtMs":@75570,"lastRunAtMs":@-97230,"lastRunStatus":"ok"}`})
	d.restart(0)
	d.runAll()
	d.restart(time.Minute)
	d.runAll()
	d.wantSlots("2026-05-01T09:00:00.000Z")
	stamped := openedFile(t, "2026-05-01T12:00:30Z")
	stamped.leave(left{"j", daily, "", `{"nextRunAtMs":@75570,"lastRunAtMs":@-97230,"lastRunStatus":"ok","scheduleActivatedAtMs":@-600}`})
	stamped.restart(0)
	stamped.wantSlots()
}

// A system event into the main session counts as agent work when it wakes the
// agent now.
func TestAgentWork(t *testing.T) {
	for definition, want := range map[string]bool{
		`{"payload":{"kind":"agentTurn"}}`:                                                      true,
		`{"payload":{"kind":"heartbeat"}}`:                                                      true,
		`{"payload":{"kind":"systemEvent"},"sessionTarget":"main","wakeMode":"now"}`:            true,
		`{"payload":{"kind":"systemEvent"},"sessionTarget":"main","wakeMode":"next-heartbeat"}`: false,
		`{"payload":{"kind":"systemEvent"},"sessionTarget":"isolated","wakeMode":"now"}`:        false,
		`{"payload":{"kind":"command","argv":["x"]}}`:                                           false,
	} {
		full := strings.TrimSuffix(definition, "}") + `,"name":"n","schedule":` + everyHour + `}`
		j := newJob(store.JobRow{JobID: "j", Definition: json.RawMessage(full), State: json.RawMessage("{}")}, 0, "UTC")
		if j.SetAside != "" || j.agentWork() != want {
			t.Errorf("%s: %v %s", definition, j.agentWork(), j.SetAside)
		}
	}
}

// TestAnOpenedFileKeepsItsDaylightSavingRule until somebody chooses: a removed
// time is skipped, where a file of rota's own runs it as the gap ends.
func TestAnOpenedFileKeepsItsDaylightSavingRule(t *testing.T) {
	const spring = `{"kind":"cron","expr":"30 2 * * *","tz":"America/New_York","staggerMs":0}`
	for _, c := range []struct {
		opened bool
		chosen bool
		next   string
	}{
		{false, false, "2026-03-08T07:00:00.000Z"},
		{true, false, "2026-03-09T06:30:00.000Z"},
		{true, true, "2026-03-08T07:00:00.000Z"},
	} {
		t.Run(fmt.Sprintf("opened=%v chosen=%v", c.opened, c.chosen), func(t *testing.T) {
			d := deskAt(t, "2026-03-08T00:00:00Z")
			if c.opened {
				d = openedFile(t, "2026-03-08T00:00:00Z")
			}
			d.add("j", spring)
			if c.chosen {
				d.cfg.DST, d.cfg.DSTChosen, d.cfg.Version = schedule.Vixie, true, 2
				d.w.Configure(d.cfg)
				d.turn()
			}
			d.wantNext("j", c.next)
			d.restart(time.Minute)
			d.wantNext("j", c.next)
		})
	}
}
