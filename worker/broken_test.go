package worker

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rota-scheduler/rota/store"
)

// Broken rows, foreign rows and failed turns.

// exec changes rows behind the worker's back, as another program would.
func (d *desk) exec(q string, args ...any) {
	d.t.Helper()
	d.looking = true
	defer func() { d.looking = false }()
	tx, err := d.w.store.Begin()
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := tx.Exec(q, args...); err != nil {
		d.t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		d.t.Fatal(err)
	}
}

// A turn that fails after a configuration was installed does not forget it:
// schedules that were turned on fire, and those that were turned off do not.
func TestConfigurationOutlivesAFailedTurn(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		t.Run(fmt.Sprint("enabled=", enabled), func(t *testing.T) {
			d := newDesk(t)
			d.cfg.Enabled = !enabled
			d.restart(0)
			d.add("j", everyHour)
			cfg := d.cfg
			cfg.Version, cfg.Enabled = 2, enabled
			d.w.Configure(cfg)
			failed := false
			d.fault = func(at string) error {
				if failed || at != "begin" {
					return nil
				}
				failed = true
				return store.IO
			}
			if _, err := d.w.turn(); err != nil { // it fails: the jobs stay stale until the next one
				t.Fatal(err)
			}
			d.monoMs = d.w.trouble.untilMs
			for range 180 {
				d.nowMs += 60_000
				d.monoMs += 60_000
				d.turn()
			}
			if !failed || (len(d.launched) > 0) != enabled {
				t.Errorf("failed %v, %d runs in three hours", failed, len(d.launched))
			}
		})
	}
}

// An interrupted one-shot under an old random id is over with that run.
func TestInterruptedOneShotOfAnotherProgramIsNotRunAgain(t *testing.T) {
	for _, how := range []string{"receipt", "marker only"} {
		t.Run(how, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:00Z")
			d.add("j", `{"kind":"at","at":"+10s"}`)
			at := d.job("j").next().N
			if how == "receipt" {
				d.exec(`INSERT INTO cron_run_receipts (receipt_id, store_key, job_id, config_revision, agent_id, status, owner_pid, started_at_ms)
				VALUES ('5f2c1f0e-3f1c-4c8f-9b3e-0e6f0a1b2c3d','rota','j','x','','running',1,?)`, at+5)
				d.exec(`UPDATE cron_jobs SET state_json=? WHERE job_id='j'`, fmt.Sprintf(`{"nextRunAtMs":%d,"runningAtMs":%d,"runningReceiptId":"5f2c1f0e-3f1c-4c8f-9b3e-0e6f0a1b2c3d"}`, at, at+5))
			} else {
				d.exec(`UPDATE cron_jobs SET state_json=? WHERE job_id='j'`, fmt.Sprintf(`{"nextRunAtMs":%d,"runningAtMs":%d}`, at, at+5))
			}
			d.crash()
			d.launched = nil
			d.nowMs = at + 60_000
			d.open(Options{})
			if len(d.launched) != 0 {
				t.Errorf("interrupted and run again: slots %v trigger %s; state %s; history %v", d.slots(), d.last().Trigger, d.job("j").State, d.query(`SELECT detail_json FROM task_runs`))
			}
		})
	}
}

// One row that cannot be read, with an open receipt, does not keep the daemon from starting.
func TestOneBrokenStateDoesNotStopTheStart(t *testing.T) {
	d := newDesk(t)
	d.add("good", everyHour)
	d.add("bad", everyHour)
	must[RunAnswer](d, RunJob{ID: "bad", Mode: "force", Key: "k"})
	d.exec(`UPDATE cron_jobs SET state_json='{"runningAtMs":' WHERE job_id='bad'`)
	d.crash()
	s, err := store.Open(store.Options{Path: d.path, Durability: store.Normal, NowMs: d.nowMs})
	if err != nil {
		t.Fatal(err)
	}
	w := New(Options{Store: s, BootID: "b"})
	if err := w.start(); err != nil {
		t.Errorf("the daemon does not start at all: %v", err)
	}
	s.Close()
	d.w = nil
}

// Nor does another program's history entry that cannot be read.
func TestOneOddHistoryRowDoesNotStopTheStart(t *testing.T) {
	d := newDesk(t)
	d.add("good", everyHour)
	d.add("j", everyHour)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	r := d.last()
	d.exec(`INSERT INTO task_runs (task_id, runtime, task_kind, source_id, requester_session_key, owner_key, scope_kind, run_id, task, status, delivery_status, notify_policy, created_at, started_at, ended_at, last_event_at, detail_json)
	 VALUES ('t','cron','automation_run','j','','','system',?,'j','succeeded','not_applicable','silent',1,?,?,1,?)`,
		store.InternalRunID("j", r.RunAtMs, r.ReceiptID, r.RunID), r.RunAtMs, r.RunAtMs+5, `{"kind":"cron-run","status":"ok","storeKey":"rota","durationMs":12.5}`)
	d.crash()
	s, err := store.Open(store.Options{Path: d.path, Durability: store.Normal, NowMs: d.nowMs})
	if err != nil {
		t.Fatal(err)
	}
	w := New(Options{Store: s, BootID: "b"})
	if err := w.start(); err != nil {
		t.Errorf("the daemon does not start at all: %v", err)
	}
	s.Close()
	d.w = nil
}

// A commit that is unknown and cannot be read back: the caller is told just that.
func TestACallerIsToldThatTheOutcomeIsUnknown(t *testing.T) {
	d := newDesk(t)
	dead := false
	d.fault = func(at string) error {
		if at == "commit-unknown" && !dead || at == "reopen" && dead {
			dead = true
			return store.IO
		}
		return nil
	}
	c := &call{reply: make(chan answer, 1), command: AddJob{ID: "j",
		Params: json.RawMessage(`{"name":"j","schedule":` + everyHour + `,"payload":{"kind":"command","argv":["/bin/true"]}}`)}}
	d.w.commands.put(c)
	if _, err := d.w.turn(); err == nil {
		t.Error("the worker goes on with a file that it cannot reopen")
	}
	d.w.finish()
	select {
	case a := <-c.reply:
		if codeOf(a.err) != "unknown" {
			t.Errorf("the caller is told %v", a.err)
		}
	default:
		t.Error("the caller gets no answer")
	}
	_ = d.w.store.Close() // it is broken
	d.fault = nil
	d.open(Options{})
	d.job("j") // it was kept
}

// Another program recorded the end and died before it settled the job.
func TestARestoredRunIsNotRunAgain(t *testing.T) {
	for _, kind := range []string{`{"kind":"at","at":"+10s"}`, `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`} {
		t.Run(kind, func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:59:50Z")
			d.add("j", kind)
			at := d.job("j").next().N
			id := "5f2c1f0e-3f1c-4c8f-9b3e-0e6f0a1b2c3d"
			d.exec(`INSERT INTO cron_run_receipts (receipt_id, store_key, job_id, config_revision, agent_id, status, owner_pid, started_at_ms)
				VALUES (?,'rota','j','x','','running',1,?)`, id, at+5)
			d.exec(`UPDATE cron_jobs SET state_json=? WHERE job_id='j'`, fmt.Sprintf(`{"nextRunAtMs":%d,"runningAtMs":%d,"runningReceiptId":%q}`, at, at+5, id))
			d.exec(`INSERT INTO task_runs (task_id, runtime, task_kind, source_id, requester_session_key, owner_key, scope_kind, run_id, task, status, delivery_status, notify_policy, created_at, started_at, ended_at, last_event_at, detail_json)
	 VALUES ('t','cron','automation_run','j','','','system',?,'j','succeeded','not_applicable','silent',1,?,?,1,?)`,
				store.InternalRunID("j", at+5, id, ""), at+5, at+500, `{"kind":"cron-run","status":"ok","completionStatus":"succeeded","storeKey":"rota","durationMs":495}`)
			d.crash()
			d.nowMs = at + 60_000
			d.open(Options{})
			if len(d.launched) != 0 {
				t.Errorf("its end (ok) was restored and it runs again: %v %s; receipts %v", d.slots(), d.last().Trigger, d.query(`SELECT receipt_id || ' ' || status FROM cron_run_receipts`))
			}
		})
	}
}
