package worker

import (
	"fmt"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// What a start makes of what the last one left: recovery and catch-up.

// Catch-up at a start: one run for the newest missed slot of each job, five at
// once, the others five seconds apart, and a row for the rest.
func TestCatchUpOneFiveAtOnceTheRestApart(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	for i := range 8 {
		d.add(fmt.Sprintf("j%d", i), fmt.Sprintf(`{"kind":"cron","expr":"%d * * * *","tz":"UTC","staggerMs":0}`, i))
	}
	d.restart(3 * time.Hour) // at 03:30, three slots each are missed
	if len(d.launched) != 5 {
		t.Fatalf("%d at once, want 5", len(d.launched))
	}
	for _, l := range d.launched {
		if l.Trigger != TriggerCatchUp || schedule.FormatInstant(l.SlotMs)[11:13] != "03" {
			t.Errorf("%s runs slot %s as %s", l.JobID, schedule.FormatInstant(l.SlotMs), l.Trigger)
		}
	}
	if rows := d.decisions("j0"); len(rows) != 1 || rows[0] != "missed 2026-05-01T01:00:00Z..2026-05-01T02:00:00Z x2" {
		t.Errorf("decisions %v", rows)
	}
	d.wantNext("j6", "2026-05-01T03:30:10.000Z")
	d.restart(2 * time.Second) // a second crash reuses the plan
	d.wantNext("j6", "2026-05-01T03:30:10.000Z")
	d.live(20*time.Second, time.Second)
	runs := map[string]int{}
	for _, slot := range d.query(`SELECT source_id || (detail_json ->> '$.slotMs') FROM task_runs WHERE detail_json ->> '$.trigger' = 'catch-up'`) {
		runs[slot]++
	}
	if len(runs) != 8 {
		t.Errorf("%d catch-up runs in the ledger, want one a job: %v", len(runs), runs)
	}
}

// Recovery: what never started resumes under its id, what may have started is
// interrupted once, and neither spends the job's error budget.
func TestRecoveryTellsUnstartedFromUncertain(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("unstarted", `{"kind":"cron","expr":"1 0 * * *","tz":"UTC"}`)
	d.add("uncertain", `{"kind":"cron","expr":"1 0 * * *","tz":"UTC"}`)
	d.advance(time.Minute)
	if len(d.launched) != 2 {
		t.Fatal(d.slots())
	}
	started := d.launched[0]
	if started.JobID != "uncertain" {
		started = d.launched[1]
	}
	d.crash()
	d.launched = nil
	d.open(Options{LogID: "log", Logged: []Logged{{ReceiptID: started.ReceiptID, BootID: "boot-1",
		Process: &Process{BootID: "boot-1", PID: 42, StartTime: 9}}}})
	if len(d.launched) != 1 || d.last().JobID != "unstarted" || schedule.FormatInstant(d.last().SlotMs) != "2026-05-01T00:01:00.000Z" {
		t.Fatalf("relaunched %v", d.launched)
	}
	j := d.job("uncertain")
	if j.state().LastRunStatus != "error" || j.state().ConsecutiveErrors.N != 0 || j.state().LastRunInterruptionReason == "" {
		t.Errorf("state %s", j.State)
	}
	receipts := d.query(`SELECT status FROM cron_run_receipts WHERE receipt_id = ?`, started.ReceiptID)
	if receipts[0] != store.ReceiptInterrupted {
		t.Errorf("receipt %v", receipts)
	}
	if rows := d.query(`SELECT detail_json ->> '$.interrupted.process.pid' FROM task_runs WHERE source_id = 'uncertain'`); len(rows) != 1 || rows[0] != "42" {
		t.Errorf("history %v", rows)
	}
}

// An activation of another boot, or one that no launch log vouches for, may
// have started.
func TestRecoveryWithoutALaunchLogReplaysNothing(t *testing.T) {
	for name, o := range map[string]Options{"other boot": {LogID: "log", BootID: "boot-2"}, "no log": {}} {
		t.Run(name, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:30Z")
			d.add("j", `{"kind":"at","at":"+1s"}`)
			d.advance(2 * time.Second)
			d.crash()
			d.launched = nil
			d.open(o)
			if len(d.launched) != 0 {
				t.Errorf("replayed %v", d.launched)
			}
			if j := d.job("j"); j.Enabled || j.next().Set {
				t.Errorf("an interrupted one-shot stays %s", j.State)
			}
		})
	}
}

// A waiting request resumes over a restart while anybody can still expect it.
func TestRecoveryOfWaitingRequests(t *testing.T) {
	for _, c := range []struct {
		name  string
		mode  string
		down  time.Duration
		after string // a patch before the crash
		runs  int
	}{
		{"fresh force", "force", time.Minute, "", 1},
		{"fresh if-enabled", "if-enabled", time.Minute, "", 1},
		{"old force", "force", 11 * time.Minute, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:30Z")
			d.cfg.MaxConcurrent = 0
			d.w.cfg = &d.cfg
			d.add("j", everyHour)
			asked := must[RunAnswer](d, RunJob{ID: "j", Mode: c.mode, Key: "k"})
			d.cfg.MaxConcurrent = 8
			d.restart(c.down)
			d.runAll()
			if len(d.launched) != c.runs {
				t.Errorf("%d runs, want %d", len(d.launched), c.runs)
			}
			page := must[RunsPage](d, RunsQuery{RunID: asked.RunID, Limit: 5})
			if page.Total != 1 {
				t.Fatalf("run %s has %d entries", asked.RunID, page.Total)
			}
		})
	}
}

// An old random receipt id cannot be resumed: it ends skipped with a reason,
// and the natural deadline stays.
func TestRecoverySkipsOldIDs(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", everyHour)
	next, _ := d.job("j").NextRunMs()
	d.apply(func(t *turn) error {
		t.wrote = true
		j, _ := t.st.jobs.Get("j")
		if _, err := t.editState(j, func(s *store.State) { s.QueuedAtMs = store.Some(t.now) }); err != nil {
			return err
		}
		return store.InsertReceipt(t.tx, store.Receipt{ID: "5f2c1f0e-3f1c-4c8f-9b3e-0e6f0a1b2c3d", JobID: "j", StartedAtMs: t.now})
	})
	d.restart(time.Second)
	if got := d.query(`SELECT status FROM cron_run_receipts`); got[0] != store.ReceiptSkipped {
		t.Errorf("receipt %v", got)
	}
	if after, _ := d.job("j").NextRunMs(); after != next || d.job("j").state().QueuedAtMs.Set {
		t.Errorf("state %s", d.job("j").State)
	}
}

func TestCase103WeeklyIntervalUnderDailyRestarts(t *testing.T) {
	d := deskAt(t, "2026-05-01T12:00:00Z")
	d.add("j", `{"kind":"every","everyMs":604800000}`)
	for range 6 {
		d.live(21*time.Hour, time.Hour)
		d.restart(3 * time.Hour)
	}
	d.live(23*time.Hour, time.Hour)
	d.restart(2 * time.Hour) // down from 11:00 to 13:00 on day 7
	d.runAll()
	d.wantSlots("2026-05-08T12:00:00.000Z")
	d.wantNext("j", "2026-05-15T12:00:00.000Z")
}

// A launch log that is not the one kept at the activation vouches for nothing: a
// start that made a new one and was killed in the middle of recovery must not
// make the next start believe that nothing ever ran.
func TestRecoveryTrustsOnlyTheLogOfThatTime(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"at","at":"+1s"}`)
	d.advance(2 * time.Second)
	d.crash()
	d.launched = nil
	s, err := store.Open(store.Options{Path: d.path, Durability: store.Normal, NowMs: d.nowMs})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil { // killed before it settled anything
		t.Fatal(err)
	}
	d.open(Options{LogID: "a new log"})
	if len(d.launched) != 0 {
		t.Errorf("it runs again: %v", d.slots())
	}
	if got := d.query(`SELECT status FROM cron_run_receipts`); got[0] != store.ReceiptInterrupted {
		t.Errorf("receipt %v", got)
	}
}
