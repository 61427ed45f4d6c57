package worker

import (
	"encoding/json"
	"testing"
	"time"
)

// Edits, stops and removals beside runs.

// A manual run in mode due stands for a one-shot's only slot, and ends it.
func TestManualDueEndsAOneShot(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"at","at":"+10s"}`, `,"deleteAfterRun":true`)
	d.nowMs += 10_000
	must[RunAnswer](d, RunJob{ID: "j", Mode: "due", Key: "k"})
	d.runAll()
	if j, ok := d.w.Snapshot().Job("j"); ok {
		_, has := j.NextRunMs()
		t.Errorf("the slot was taken and ran ok; the one-shot is still there: enabled=%v deadline=%v", j.Enabled, has)
	}
}

// Disabled and moved in one edit, during the run: both are the newer word.
func TestDisableAndMoveDuringARunKeepsTheJob(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"at","at":"+1s"}`, `,"deleteAfterRun":true`)
	d.advance(time.Second)
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":false,"schedule":{"kind":"at","at":"2026-05-01T05:00:00Z"}}`)})
	d.end(d.last(), StatusOK)
	if _, ok := d.w.Snapshot().Job("j"); !ok {
		t.Errorf("the postponed job was deleted by the end of the run before the edit")
	}
}

// Moved, then enabled again, during the run: its end undoes neither.
func TestMoveAndEnableDuringARunStand(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"at","at":"+1s"}`, `,"deleteAfterRun":false`)
	d.advance(time.Second)
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":false,"schedule":{"kind":"at","at":"2026-05-01T05:00:00Z"}}`)})
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":true}`)})
	d.end(d.last(), StatusOK)
	if j := d.job("j"); !j.Enabled {
		t.Errorf("moved to 05:00 and enabled during the run; its end disabled it: next %v", j.next())
	}
}

// An edit that leaves the schedule alone leaves a planned late run alone.
func TestEditWhilePlannedMakesNoSlotOfAWakeUpTime(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":0}`)
	d.cfg.CatchUpMaxImmediate = 0
	d.restart(2 * time.Hour)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	d.advance(10 * time.Second) // the plan is due and waits behind the manual run
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"dst":"skip"}`)})
	d.runAll()
	if s := d.last().SlotMs; s%3600_000 != 0 && d.last().Trigger != TriggerManual {
		t.Errorf("ran a slot that the schedule does not have: %v (trigger %s)", d.slots(), d.last().Trigger)
	}
}

// The same for a one-shot.
func TestEditOfAPlannedOneShotKeepsIt(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"at","at":"2026-05-01T01:00:00Z"}`)
	d.cfg.CatchUpMaxImmediate = 0
	d.restart(2 * time.Hour)
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"dst":"skip"}`)})
	d.live(time.Minute, time.Second)
	j, there := d.w.Snapshot().Job("j")
	if !there {
		return
	}
	if _, has := j.NextRunMs(); len(d.launched) == 0 && j.Enabled && !has {
		t.Errorf("the missed one-shot was planned, an edit of dst dropped the plan: enabled, no deadline, never run, decisions %v", d.decisions("j"))
	}
}

// A slot that a reschedule decided stays decided, also after a small correction of
// the clock and another edit.
func TestASlotDecidedByARescheduleStaysDecided(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	d.advance(31 * time.Second) // 00:01:00 is due and waits
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"schedule":{"kind":"cron","expr":"*/2 * * * *","tz":"UTC"}}`)})
	d.nowMs -= 3000 // a small correction of the clock
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"schedule":{"kind":"cron","expr":"* * * * *","tz":"UTC"}}`)})
	d.runAll()
	d.live(20*time.Second, time.Second)
	for _, s := range d.slots() {
		if s == "2026-05-01T00:01:00.000Z" {
			t.Errorf("slot 00:01 was decided against (rescheduled) and ran")
		}
	}
}

// A stop that was acknowledged before the launch holds over a kill.
func TestAnAcknowledgedStopHoldsOverAKill(t *testing.T) {
	d := newDesk(t)
	d.add("j", everyHour)
	a := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	must[struct{}](d, StopRun{RunID: a.RunID})
	d.crash()
	d.launched = nil
	d.open(Options{LogID: "log"})
	if len(d.launched) != 0 {
		t.Errorf("stop was acknowledged, the run had not started, and it starts after the restart")
	}
}

// And over a shutdown.
func TestAnAcknowledgedStopHoldsOverAShutdown(t *testing.T) {
	d := newDesk(t)
	d.add("j", everyHour)
	a := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	must[struct{}](d, StopRun{RunID: a.RunID})
	d.w.outcomes.put(Outcome{ReceiptID: d.last().ReceiptID, Status: StatusError, Kind: KindRefused, Interrupted: "shutdown", EndedAtMs: d.nowMs})
	d.w.stopping.Store(true)
	d.turn()
	d.crash()
	d.launched = nil
	d.open(Options{LogID: "log"})
	if len(d.launched) != 0 {
		t.Errorf("stop was acknowledged, the run had not started, and it starts after the restart")
	}
}

// A run of a removed job that was never launched ends in the ledger.
func TestARemovedJobsUnlaunchedRunIsEnded(t *testing.T) {
	d := newDesk(t)
	d.add("j", everyHour)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	must[Removed](d, RemoveJob{ID: "j"})
	d.w.outcomes.put(Outcome{ReceiptID: d.last().ReceiptID, Status: StatusError, Kind: KindRefused, Interrupted: "shutdown", EndedAtMs: d.nowMs})
	d.w.stopping.Store(true)
	d.turn()
	if rows := d.query(`SELECT status FROM cron_run_receipts`); rows[0] == "running" {
		t.Errorf("the outcome was refused: receipt %v, active %d", rows, d.w.st.active.Len())
	}
}

// A one-shot moved to a time at which it still runs is requested when it has ended.
func TestAOneShotMovedIntoItsOwnRunWaits(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"at","at":"+1s"}`)
	d.advance(time.Second)
	run := d.last()
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"schedule":{"kind":"at","at":"2026-05-01T00:01:00Z"}}`)})
	d.advance(2 * time.Minute)
	d.end(run, StatusOK)
	j := d.job("j")
	if _, has := j.NextRunMs(); j.Enabled && !has && len(d.launched) < 2 {
		t.Errorf("enabled, no deadline, will never run: launched %v, decisions %v", d.slots(), d.decisions("j"))
	}
}

// Enabling a one-shot that has succeeded would leave it waiting for nothing: it
// is refused, with what to type. One that failed is opened again, under an id of
// its own.
func TestEnablingAOneShotAgain(t *testing.T) {
	for _, status := range []Status{StatusOK, StatusError} {
		t.Run(string(status), func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:00Z")
			d.add("j", `{"kind":"at","at":"+1s"}`, `,"deleteAfterRun":false`)
			d.advance(time.Second)
			first := d.last()
			d.end(first, status)
			_, err := d.do(UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":true}`)})
			if status == StatusOK {
				if codeOf(err) != "conflict" || d.job("j").Enabled {
					t.Errorf("enabled %v, %v", d.job("j").Enabled, err)
				}
				return
			}
			if err != nil || len(d.launched) != 2 || d.last().SlotMs != first.SlotMs || d.last().ReceiptID == first.ReceiptID {
				t.Errorf("opened again: %v, %d launches, %s", err, len(d.launched), d.last().ReceiptID)
			}
		})
	}
}
