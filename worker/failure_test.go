package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/rota-scheduler/rota/store"
)

// A failed step of a turn, by the point where the store fails and what is true
// of the file afterwards.
var faults = []struct {
	point string
	class store.ErrorClass
}{
	{"begin", store.IO},
	{"exec", store.IO},
	{"exec", store.DiskFull},
	{"savepoint", store.IO},
	{"commit", store.IO},
	{"commit", store.DiskFull},
	{"commit-lost", store.IO},    // not there, and nobody can say so
	{"commit-unknown", store.IO}, // there, and nobody can say so
}

// TestCommitFailureAtEachStep lets a run go through its life (asked or due,
// requested, active, ended) while one store call fails, for every fault and
// every call in turn: the run still ends once, it was launched once and only
// after the commit that activated it, and memory equals the file all along.
func TestCommitFailureAtEachStep(t *testing.T) {
	for _, f := range faults {
		for _, timed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/%s/timed=%v", f.point, f.class, timed), func(t *testing.T) {
				for nth := 1; ; nth++ {
					if !lifeWithFault(t, f.point, f.class, nth, timed) {
						if nth == 1 {
							t.Fatal("the fault was never met")
						}
						return
					}
				}
			})
		}
	}
}

// lifeWithFault lives one life with the nth call at a point failing; met says
// whether there was an nth call.
func lifeWithFault(t *testing.T, point string, class store.ErrorClass, nth int, timed bool) (met bool) {
	d := newDesk(t)
	d.w.opt.TwoSteps = nth%2 == 0 // request and activation in one commit, and in two
	d.w.careful = point == "savepoint"
	d.add("j", everyHour)
	commits, calls := 0, 0
	armed := false
	d.fault = func(at string) error {
		if at == "commit" {
			commits++
		}
		if !armed || at != point {
			return nil
		}
		if calls++; calls == nth {
			met = true
			return errors.Join(class, fmt.Errorf("planted at %s, call %d", at, nth))
		}
		return nil
	}
	armed = true
	if timed {
		d.nowMs = d.job("j").next().N
		d.turn()
	} else if a, err := d.do(RunJob{ID: "j", Mode: "force", Key: "k", Given: true}); err != nil {
		// The caller was told that nothing was kept: that must be true, and
		// asking again must work.
		if n := len(d.query(`SELECT receipt_id FROM cron_run_receipts`)); n != 0 {
			t.Fatalf("%s %d: the command failed and left %d receipts: %v", point, nth, n, err)
		}
		again := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k", Given: true})
		if again.RunID == "" {
			t.Fatalf("%s %d: refused after a failed try: %+v", point, nth, again)
		}
	} else if a.(RunAnswer).RunID == "" {
		t.Fatalf("%s %d: %+v", point, nth, a)
	}
	if len(d.launched) != 1 {
		t.Fatalf("%s %d: %d launches", point, nth, len(d.launched))
	}
	if running := d.query(`SELECT json_extract(state_json, '$.runningReceiptId') FROM cron_jobs`); running[0] != d.last().ReceiptID {
		t.Fatalf("%s %d: launched %s while the file says %v is active", point, nth, d.last().ReceiptID, running)
	}
	d.end(d.last(), StatusOK)
	armed = false
	d.turn()
	if len(d.launched) != 1 {
		t.Errorf("%s %d: %d launches in the end", point, nth, len(d.launched))
	}
	if ends := d.query(`SELECT status FROM task_runs`); len(ends) != 1 || ends[0] != "succeeded" {
		t.Errorf("%s %d: history %v", point, nth, ends)
	}
	if receipts := d.query(`SELECT status FROM cron_run_receipts`); len(receipts) != 1 || receipts[0] != "ok" {
		t.Errorf("%s %d: receipts %v", point, nth, receipts)
	}
	d.close()
	return met
}

// TestFullDiskTakesOutcomesAndReadsOnly keeps the disk full for a while: what
// runs may end in memory, reads answer, writes are refused with a sentence, and
// everything is recorded when there is space again, without a restart.
func TestFullDiskTakesOutcomesAndReadsOnly(t *testing.T) {
	d := newDesk(t)
	d.add("j", everyHour)
	d.nowMs = d.job("j").next().N
	d.turn()
	full := true
	d.fault = func(at string) error {
		if full && at == "exec" {
			return store.DiskFull
		}
		return nil
	}
	d.w.outcomes.put(Outcome{ReceiptID: d.last().ReceiptID, Status: StatusOK, Kind: KindExit, EndedAtMs: d.nowMs})
	if _, err := d.w.turn(); err != nil {
		t.Fatal(err)
	}
	write := &call{command: AddJob{ID: "k", Params: json.RawMessage(`{}`)}, reply: make(chan answer, 1)}
	read := &call{command: RunsQuery{Limit: 1}, reply: make(chan answer, 1)}
	d.w.commands.put(write)
	d.w.commands.put(read)
	if _, err := d.w.turn(); err != nil { // still within the hold
		t.Fatal(err)
	}
	if a := <-write.reply; codeOf(a.err) != "storage_full" {
		t.Errorf("a write on a full disk answers %v", a.err)
	}
	if a := <-read.reply; a.err != nil {
		t.Errorf("a read on a full disk answers %v", a.err)
	}
	d.monoMs = d.w.trouble.untilMs
	if _, err := d.w.turn(); err != nil { // looks for space, and finds none
		t.Fatal(err)
	}
	if d.w.outcomes.len() != 1 {
		t.Errorf("%d outcomes are kept, want 1", d.w.outcomes.len())
	}
	full = false
	d.monoMs = d.w.trouble.untilMs
	d.turn()
	if ends := d.query(`SELECT status FROM task_runs`); len(ends) != 1 || ends[0] != "succeeded" {
		t.Errorf("history after there was space again: %v", ends)
	}
	must[Added](d, AddJob{ID: "k", Params: json.RawMessage(`{"name":"k","schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["/bin/true"]}}`)})
}

// TestCase012ASleepWhileTheDiskIsFull lets the machine sleep while the disk is
// full, and wakes the worker before the disk is looked at again: the slots of that
// time were missed, and the job's policy decides about them.
func TestCase012ASleepWhileTheDiskIsFull(t *testing.T) {
	d := newDesk(t)
	d.add("j", everyHour, `,"catchUp":{"policy":"skip"}`)
	full := true
	d.fault = func(at string) error {
		if full && at == "exec" {
			return store.DiskFull
		}
		return nil
	}
	write := &call{command: RunJob{ID: "j", Mode: "force", Key: "k"}, reply: make(chan answer, 1)}
	d.w.commands.put(write)
	for _, sleepMs := range []int64{0, 8 * 3_600_000} { // it wakes within the hold
		d.nowMs += sleepMs
		if _, err := d.w.turn(); err != nil {
			t.Fatal(err)
		}
	}
	if a := <-write.reply; codeOf(a.err) != "storage_full" {
		t.Fatalf("the disk is not full: %v", a.err)
	}
	full = false
	d.monoMs += 5000
	d.turn()
	if len(d.launched) != 0 {
		t.Errorf("%d missed slots ran", len(d.launched))
	}
	if got := d.query(`SELECT rule || ' x' || slots FROM rota_slots`); len(got) != 1 || got[0] != "missed x8" {
		t.Errorf("decisions %q", got)
	}
}
