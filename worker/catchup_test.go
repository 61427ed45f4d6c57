package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// Catch-up: field failures by number, the pace of late runs, and how plans
// behave behind runs, crashes and edits.

// sleep is the machine asleep: wall time goes on alone.
func (d *desk) sleep(by time.Duration) {
	d.t.Helper()
	d.nowMs += by.Milliseconds()
	d.turn()
}

// configure pushes the desk's configuration.
func (d *desk) configure() {
	d.t.Helper()
	d.cfg.Version++
	d.w.Configure(d.cfg)
	d.turn()
}

// accounted is how many natural slots of a job up to now ran, have a row, or
// are explained by the job's state; the others are given.
func (d *desk) accounted(id string) (count int, unexplained []string) {
	d.t.Helper()
	j := d.job(id)
	for slotMs, ok := j.timing.Next(j.def().CreatedAtMs); ok && slotMs <= d.nowMs; slotMs, ok = j.timing.Next(slotMs) {
		count++
		why := must[Why](d, WhyQuery{JobID: id, AtMs: slotMs})
		if len(why.Decisions) == 0 || why.Decisions[0].Rule == string(RuleUnrecorded) {
			unexplained = append(unexplained, instantText(slotMs))
		}
	}
	return count, unexplained
}

func TestCase011ReadingWhileASleepIsCaughtUp(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	d.cfg.MaxConcurrent = 0
	d.configure()
	d.add("j", `{"kind":"cron","expr":"0 1 * * *","tz":"UTC","staggerMs":0}`)
	d.sleep(time.Hour)
	before := d.dump()
	for range 10 {
		must[Why](d, WhyQuery{JobID: "j"})
		must[RunsPage](d, RunsQuery{JobID: "j", Limit: 10})
		must[[]Event](d, EventsQuery{})
	}
	if after := d.dump(); after != before {
		t.Errorf("reading changed rows\nbefore:\n%s\nafter:\n%s", before, after)
	}
	d.cfg.MaxConcurrent = 8
	d.configure()
	d.live(time.Hour, time.Minute)
	d.wantSlots("2026-05-01T01:00:00.000Z")
}

func TestCase012DownOrAsleepOverThreeDailySlots(t *testing.T) {
	const nine = "T09:00:00.000Z"
	for policy, want := range map[string][]string{
		"skip": nil,
		"one":  {"2026-02-09" + nine},
		"all":  {"2026-02-07" + nine, "2026-02-08" + nine, "2026-02-09" + nine},
	} {
		for _, how := range []string{"down", "asleep"} {
			t.Run(policy+"/"+how, func(t *testing.T) {
				d := deskAt(t, "2026-02-06T08:00:00Z")
				d.add("j", `{"kind":"cron","expr":"0 4 * * *","tz":"America/New_York","staggerMs":0}`, `,"catchUp":{"policy":"`+policy+`"}`)
				d.live(12*time.Hour, time.Hour)
				d.launched = nil
				if how == "down" {
					d.restart(64 * time.Hour) // 9 February, 12:00
				} else {
					d.sleep(64 * time.Hour)
				}
				d.live(time.Minute, time.Second)
				d.wantSlots(want...)
				d.wantNext("j", "2026-02-10T09:00:00.000Z")
				rows := strings.Join(d.decisions("j"), ", ")
				if missing := map[string]string{
					"skip": "missed 2026-02-07T09:00:00Z..2026-02-09T09:00:00Z x3",
					"one":  "missed 2026-02-07T09:00:00Z..2026-02-08T09:00:00Z x2",
				}[policy]; rows != missing {
					t.Errorf("decisions %q, want %q", rows, missing)
				}
				d.restart(time.Minute)
				d.live(time.Minute, time.Second)
				d.wantSlots(want...)
			})
		}
	}
}

func TestCase014FortyFiveOverdueJobsStartApart(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.cfg.MaxConcurrent = 4
	d.configure()
	for i := range 45 {
		d.add(fmt.Sprintf("j%02d", i), fmt.Sprintf(`{"kind":"cron","expr":"%d 1 * * *","tz":"UTC"}`, i))
	}
	d.restart(5 * time.Hour)
	startMs := d.nowMs
	for i := range 45 {
		runAt := d.query(`SELECT run_at_ms FROM rota_plan WHERE job_id = ?`, fmt.Sprintf("j%02d", i))
		if want := fmt.Sprint(startMs + int64(max(0, i-4))*5000); len(runAt) != 1 || runAt[0] != want {
			t.Errorf("job %d starts at %v, want %s", i, runAt, want)
		}
	}
	must[*Job](d, UpdateJob{ID: "j44", Patch: json.RawMessage(`{"enabled":false}`)})
	for range 300 { // each run takes twenty seconds
		d.advance(time.Second)
		if n := d.w.st.active.Len(); n > 4 {
			t.Fatalf("%d run at once", n)
		}
		for r := range d.w.st.active.Values() {
			if d.nowMs-r.ActiveAtMs >= 20_000 {
				d.w.outcomes.put(Outcome{ReceiptID: r.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: r.ActiveAtMs, EndedAtMs: d.nowMs})
			}
		}
		d.turn()
	}
	ran := map[string]int{}
	for _, l := range d.launched {
		ran[l.JobID]++
	}
	if len(ran) != 44 || ran["j44"] != 0 || len(d.launched) != 44 {
		t.Errorf("%d runs of %d jobs, want one each of all but the disabled one", len(d.launched), len(ran))
	}
	if rows := d.decisions("j44"); len(rows) != 1 || !strings.HasPrefix(rows[0], "disabled ") {
		t.Errorf("the disabled one: %v", rows)
	}
}

func TestCase016ADayOfMinutes(t *testing.T) {
	for policy, want := range map[string]struct {
		runs int
		row  string
	}{
		`{"policy":"skip"}`:           {0, "missed 2026-05-01T00:01:00Z..2026-05-02T00:00:00Z x1440"},
		`{"policy":"one"}`:            {1, "missed 2026-05-01T00:01:00Z..2026-05-01T23:59:00Z x1439"},
		`{"policy":"all","limit":10}`: {10, "missed 2026-05-01T00:01:00Z..2026-05-01T23:50:00Z x1430"},
	} {
		t.Run(policy, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:30Z")
			d.add("j", `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`, `,"catchUp":`+policy)
			d.restart(24 * time.Hour)
			for range want.runs {
				d.runAll()
			}
			if len(d.launched) != want.runs {
				t.Errorf("%d late runs, want %d", len(d.launched), want.runs)
			}
			if rows := d.decisions("j"); len(rows) != 1 || rows[0] != want.row {
				t.Errorf("decisions %v, want %q", rows, want.row)
			}
			d.live(3*time.Minute, time.Second)
			if n := len(d.launched) - want.runs; n != 3 {
				t.Errorf("%d runs in the next three minutes", n)
			}
		})
	}
	t.Run("400 days of seconds", func(t *testing.T) {
		d := deskAt(t, "2026-05-01T00:00:30Z")
		d.add("s", `{"kind":"every","everyMs":1000}`)
		d.restart(400 * 24 * time.Hour)
		d.runAll()
		if rows := d.decisions("s"); len(rows) != 1 || !strings.HasSuffix(rows[0], " x34559999") {
			t.Errorf("decisions %v", rows)
		}
		if len(d.launched) != 1 {
			t.Errorf("%d late runs", len(d.launched))
		}
	})
}

func TestCase017TimeSpentDisabledWasNeverMissed(t *testing.T) {
	d := deskAt(t, "2026-05-01T12:15:00Z") // a Friday
	d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`, `,"catchUp":{"policy":"all"}`)
	d.live(15*time.Minute, time.Minute)
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":false}`)})
	d.restart(20 * time.Hour)
	d.restart(20 * time.Hour)
	d.nowMs = at(t, "2026-05-04T09:10:00Z")
	d.turn()
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":true}`)})
	d.restart(time.Minute)
	d.wantSlots()
	d.wantNext("j", "2026-05-04T10:00:00.000Z")
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "disabled 2026-05-01T13:00:00Z..2026-05-04T09:00:00Z x69" {
		t.Errorf("the pause is told as %v", rows)
	}
	d.live(time.Hour, time.Minute)
	d.wantSlots("2026-05-04T10:00:00.000Z")
}

func TestCase018ShortRestartAcrossTheSlot(t *testing.T) {
	for _, c := range []struct {
		stop, start string
		lateMs      string
	}{
		{"2026-05-01T08:29:47Z", "2026-05-01T08:31:05Z", "65000"},
		{"2026-05-01T08:29:59.900Z", "2026-05-01T08:30:00.100Z", "100"},
	} {
		t.Run(c.stop, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T08:00:00Z")
			d.add("j", `{"kind":"cron","expr":"30 8 * * *","tz":"UTC"}`)
			d.advance(time.Duration(at(t, c.stop)-d.nowMs) * time.Millisecond)
			d.restart(time.Duration(at(t, c.start)-d.nowMs) * time.Millisecond)
			d.runAll()
			d.wantSlots("2026-05-01T08:30:00.000Z")
			d.wantNext("j", "2026-05-02T08:30:00.000Z")
			if late := d.query(`SELECT detail_json ->> '$.lateMs' FROM task_runs`); len(late) != 1 || late[0] != c.lateMs {
				t.Errorf("lateness recorded as %v, want %s ms", late, c.lateMs)
			}
		})
	}
}

func TestCase030OneShotDueWhileDown(t *testing.T) {
	for _, c := range []struct {
		catchUp string
		runs    int
		row     string
	}{
		{"", 1, ""},
		{`,"catchUp":{"policy":"skip"}`, 0, "missed 2026-05-01T00:10:00Z..2026-05-01T00:10:00Z x1"},
		{`,"catchUp":{"policy":"one","maxLatenessMs":3600000}`, 0, "missed 2026-05-01T00:10:00Z..2026-05-01T00:10:00Z x1"},
	} {
		t.Run(c.catchUp, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:00Z")
			d.add("j", `{"kind":"at","at":"2026-05-01T00:10:00Z"}`, c.catchUp, `,"deleteAfterRun":false`)
			d.advance(9 * time.Minute)
			d.restart(72 * time.Hour)
			d.runAll()
			d.restart(time.Minute)
			d.restart(time.Minute)
			d.runAll()
			if len(d.launched) != c.runs || strings.Join(d.decisions("j"), "") != c.row {
				t.Errorf("%d runs, decisions %v", len(d.launched), d.decisions("j"))
			}
			j := d.job("j")
			if next, has := j.NextRunMs(); j.Enabled || has {
				t.Errorf("it stays scheduled: enabled %v, next %d", j.Enabled, next)
			}
		})
	}
	t.Run("killed in its late run", func(t *testing.T) {
		d := deskAt(t, "2026-05-01T00:00:00Z")
		d.add("j", `{"kind":"at","at":"2026-05-01T00:10:00Z"}`)
		d.restart(72 * time.Hour)
		run := d.last()
		d.crash()
		d.open(Options{LogID: "log", Logged: []Logged{{ReceiptID: run.ReceiptID, BootID: "boot-1"}}})
		d.restart(time.Minute)
		d.live(time.Hour, time.Minute)
		if j := d.job("j"); len(d.launched) != 1 || j.Enabled || len(j.plan) != 0 {
			t.Errorf("%d starts, enabled %v, plan %v", len(d.launched), j.Enabled, j.plan)
		}
	})
}

func TestCase092EveryTickLeavesATrace(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"cron","expr":"*/10 * * * *","tz":"UTC"}`)
	edit := func(patch string) { must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(patch)}) }
	d.live(3*time.Hour, time.Minute)
	d.restart(35 * time.Minute)
	d.live(145*time.Minute, time.Minute)
	edit(`{"enabled":false}`) // a pause of an hour
	d.live(time.Hour, time.Minute)
	edit(`{"enabled":true}`)
	d.live(time.Hour, time.Minute)
	d.restart(0)
	edit(`{"description":"edited"}`)
	d.cfg.MaxConcurrent = 0 // no place for two hours
	d.configure()
	d.advance(2 * time.Hour)
	d.cfg.MaxConcurrent = 8
	d.configure()
	d.live(3*time.Hour, time.Minute)
	d.sleep(90 * time.Minute)
	d.live(2*time.Hour+30*time.Minute, time.Minute)
	d.restart(20 * time.Minute)
	d.live(time.Duration(at(t, "2026-05-02T00:00:00Z")-d.nowMs)*time.Millisecond, time.Minute)
	count, unexplained := d.accounted("j")
	if count != 144 || len(unexplained) > 0 {
		t.Errorf("%d slots, unexplained %v", count, unexplained)
	}
	ran := map[int64]bool{}
	for _, l := range d.launched {
		if ran[l.SlotMs] {
			t.Errorf("slot %s ran twice", instantText(l.SlotMs))
		}
		ran[l.SlotMs] = true
	}
}

func TestCase105EachLateRunIsToldItsOwnSlot(t *testing.T) {
	d := deskAt(t, "2026-02-06T05:00:00Z")
	d.add("j", `{"kind":"cron","expr":"30 5 * * *","tz":"UTC"}`, `,"catchUp":{"policy":"all"}`)
	d.live(time.Hour, time.Minute)
	d.launched = nil
	d.nowMs = at(t, "2026-02-09T12:00:00Z")
	d.restart(0)
	d.live(time.Minute, time.Second)
	d.wantSlots("2026-02-07T05:30:00.000Z", "2026-02-08T05:30:00.000Z", "2026-02-09T05:30:00.000Z")
	for _, l := range d.launched {
		if l.RunAtMs < at(t, "2026-02-09T12:00:00Z") || l.Trigger != TriggerCatchUp {
			t.Errorf("%+v", l)
		}
	}
}

func TestCase108RapidRestartsFreezeNothing(t *testing.T) {
	d := deskAt(t, "2026-05-01T11:59:00Z")
	want := map[string]int64{}
	for i := range 22 {
		id := fmt.Sprintf("j%02d", i)
		d.add(id, fmt.Sprintf(`{"kind":"cron","expr":"%d %d * * *","tz":"UTC"}`, 5+i, 12+i%3))
		want[id], _ = d.job(id).NextRunMs()
	}
	for i := range 10 {
		d.close()
		d.nowMs += 5000
		if i%2 == 1 { // killed at some point of the start
			d.fault = nthFault([]string{"exec", "commit", "commit-lost", "begin", "commit-unknown"}[i/2], 1+i)
			_ = d.tryStart(Options{LogID: "log"}) // it may fail: the next start must not
			d.fault = nil
		}
		d.open(Options{LogID: "log"})
		for id, ms := range want {
			if next, _ := d.job(id).NextRunMs(); next != ms {
				t.Fatalf("restart %d moved %s to %s", i, id, instantText(next))
			}
		}
	}
	d.live(4*time.Hour, time.Minute)
	if len(d.launched) != 22 {
		t.Errorf("%d runs of 22 jobs", len(d.launched))
	}
	for _, l := range d.launched {
		if l.SlotMs != want[l.JobID] {
			t.Errorf("%s ran slot %s", l.JobID, instantText(l.SlotMs))
		}
	}
}

// nth is a fault of the nth call at a point.
func nthFault(point string, n int) func(string) error {
	return func(at string) error {
		if at == point {
			if n--; n == 0 {
				return store.IO
			}
		}
		return nil
	}
}

// tryStart begins a start that may fail in the middle of recovery.
func (d *desk) tryStart(o Options) error {
	d.t.Helper()
	s, err := store.Open(store.Options{Path: d.path, Durability: store.Normal, NowMs: d.nowMs, Fault: func(point string) error {
		if d.fault == nil {
			return nil
		}
		return d.fault(point)
	}})
	if err != nil {
		d.t.Fatal(err)
	}
	o.Store, o.Config, o.PID, o.BootID = s, d.cfg, 7, "boot-1"
	o.Clock = Clock{WallMs: func() int64 { return d.nowMs }, MonoMs: func() int64 { return d.monoMs }, Timer: func(time.Duration) (<-chan time.Time, func() bool) {
		fired := make(chan time.Time, 1)
		fired <- time.Time{}
		return fired, func() bool { return true }
	}}
	w := New(o)
	err = w.start()
	s.Close()
	return err
}

// The pace of late jobs: five at once, the others apart, agent work two minutes
// later at a start, beside the five and in the same spacing.
func TestPaceOfLateJobs(t *testing.T) {
	cfg := DefaultConfig()
	for _, c := range []struct {
		name    string
		atStart bool
		atOnce  int
		jobs    string // c command, a agent work
		want    string // seconds from now
	}{
		{"commands only", true, 5, "ccccccc", "0 0 0 0 0 5 10"},
		{"RC23 one at once", true, 1, "ccc", "0 5 10"},
		{"RC6 agent work waits", true, 5, "a", "120"},
		{"agent work does not count", true, 1, "aca", "120 0 125"},
		{"spacing is shared", true, 1, "ccac", "0 5 125 15"},
		{"not after a sleep", false, 1, "aca", "0 5 10"},
		{"none at once", true, 0, "cc", "5 10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg.CatchUpMaxImmediate = c.atOnce
			turn := &turn{edit: new(edit), cfg: &cfg, st: newState(), now: epoch}
			p := turn.paceOf(c.atStart)
			var got []string
			for _, kind := range c.jobs {
				got = append(got, fmt.Sprint((p.next(epoch, kind == 'a')-epoch)/1000))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("starts %v, want %s", got, c.want)
			}
		})
	}
}

// A crash in the middle of a start goes on with the pace of the plan that
// stands: what was planned keeps its start, and the rest comes behind it.
func TestACrashInTheMiddleOfPlanningKeepsThePace(t *testing.T) {
	for n := range 4 { // what was missed, two turns of planning, what runs at once
		d := deskAt(t, "2026-05-01T00:30:00Z")
		d.cfg.CatchUpMaxImmediate = 2
		var all ApplyJobs
		for i := range 300 {
			all.IDs = append(all.IDs, fmt.Sprintf("j%03d", i))
			all.Jobs = append(all.Jobs, json.RawMessage(fmt.Sprintf(
				`{"name":"j%d","schedule":{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0},"payload":{"kind":"command","argv":["/bin/true"]}}`, i)))
		}
		must[Applied](d, all)
		d.close()
		d.nowMs += time.Hour.Milliseconds()
		d.fault = nthFault("commit", 1+n)
		_ = d.tryStart(Options{LogID: "log"}) // it may fail: that is the crash
		d.fault = nil
		d.nowMs += 2000
		d.open(Options{LogID: "log"})
		if n := d.query(`SELECT count(*) FROM rota_plan`)[0]; n != "300" {
			t.Fatalf("%s planned", n)
		}
		atOnce := d.query(`SELECT count(*) FROM rota_plan WHERE run_at_ms <= ?`, d.nowMs)[0]
		if twice := d.query(`SELECT count(*) FROM (SELECT run_at_ms FROM rota_plan WHERE run_at_ms > ? GROUP BY run_at_ms HAVING count(*) > 1)`, d.nowMs)[0]; atOnce != "2" || twice != "0" {
			t.Errorf("crash at commit %d: %s start at once, %s starts are shared", n+1, atOnce, twice)
		}
	}
}

// A deferral survives a label edit and another start, and a schedule change
// takes it away with a row.
func TestADeferralSurvivesALabelEdit(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	d.cfg.CatchUpMaxImmediate = 0
	d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`)
	d.restart(time.Hour)
	d.wantNext("j", "2026-05-01T01:30:05.000Z")
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"name":"other","description":"x"}`)})
	d.restart(time.Second)
	d.wantNext("j", "2026-05-01T01:30:05.000Z")
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"schedule":{"kind":"cron","expr":"30 * * * *","tz":"UTC"}}`)})
	d.wantNext("j", "2026-05-01T02:30:00.000Z")
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "rescheduled 2026-05-01T01:00:00Z..2026-05-01T01:00:00Z x1" {
		t.Errorf("decisions %v", rows)
	}
}

// Policy all behind an open run: over a restart and over a sleep the missed
// slots wait for its end, oldest first.
func TestPlannedSlotsWaitBehindARun(t *testing.T) {
	for _, end := range []string{"ends", "is killed"} {
		t.Run(end, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:59:30Z")
			d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`, `,"catchUp":{"policy":"all"}`)
			d.advance(time.Minute)
			run := d.last()
			d.sleep(2 * time.Hour)
			d.advance(time.Minute)
			if len(d.launched) != 1 {
				t.Fatalf("beside the open run: %v", d.slots())
			}
			if end == "ends" {
				d.end(run, StatusOK)
			} else {
				d.crash()
				d.open(Options{LogID: "log", Logged: []Logged{{ReceiptID: run.ReceiptID, BootID: "boot-1"}}})
			}
			d.live(time.Minute, time.Second)
			d.wantSlots("2026-05-01T01:00:00.000Z", "2026-05-01T02:00:00.000Z", "2026-05-01T03:00:00.000Z")
			d.wantNext("j", "2026-05-01T04:00:00.000Z")
			if rows := d.decisions("j"); len(rows) != 0 {
				t.Errorf("decisions %v", rows)
			}
		})
	}
}

// Slots missed behind a plan that stands join it within the policy's limit, or
// are told as missed behind it.
func TestSlotsMissedBehindAPlan(t *testing.T) {
	for policy, want := range map[string]string{
		`{"policy":"one"}`:           "missed 2026-05-01T02:00:00Z..2026-05-01T04:00:00Z x3",
		`{"policy":"all","limit":3}`: "missed 2026-05-01T02:00:00Z..2026-05-01T02:00:00Z x1",
	} {
		t.Run(policy, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:30:00Z")
			d.cfg.CatchUpMaxImmediate = 0
			d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`, `,"catchUp":`+policy)
			d.restart(time.Hour)     // 01:00 is planned
			d.restart(3 * time.Hour) // and 02:00 to 04:00 pass
			if rows := d.decisions("j"); len(rows) != 1 || rows[0] != want {
				t.Errorf("decisions %v, want %s", rows, want)
			}
			d.live(time.Minute, time.Second)
			if n := len(d.launched); d.slots()[0] != "2026-05-01T01:00:00.000Z" || n != map[bool]int{true: 3, false: 1}[strings.Contains(policy, "all")] {
				t.Errorf("ran %v", d.slots())
			}
			d.wantNext("j", "2026-05-01T05:00:00.000Z")
		})
	}
}

// A late run that waits in the queue over another restart is given up once it is
// later than the job allows.
func TestLatenessAppliesAgainToAWaitingRun(t *testing.T) {
	for down, runs := range map[time.Duration]int{10 * time.Minute: 1, 40 * time.Minute: 0} {
		d := deskAt(t, "2026-05-01T00:59:00Z")
		d.cfg.MaxConcurrent = 0
		d.configure()
		d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`, `,"catchUp":{"policy":"one","maxLatenessMs":1800000}`)
		d.advance(2 * time.Minute)
		d.cfg.MaxConcurrent = 8
		d.restart(down)
		if len(d.launched) != runs {
			t.Errorf("down %v: %d runs, want %d", down, len(d.launched), runs)
		}
		if got := d.query(`SELECT status FROM cron_run_receipts`); runs == 0 && got[0] != store.ReceiptSkipped {
			t.Errorf("receipt %v", got)
		}
	}
}
