package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/schedule"
)

// Field failures of schedulers in what runs, how often and beside what, as tests
// of the turn: the number is the case's.

func TestCase020NoSlotTwiceUnderConstantWakeUps(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	for i := range 30 {
		d.add(fmt.Sprintf("m%02d", i), `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	}
	d.add("second", `{"kind":"every","everyMs":1000}`)
	d.cfg.MaxConcurrent = 64
	for i := range 600 {
		d.advance(time.Second)
		if i%60 == 59 { // wake-ups by add, edit and remove in the due second
			d.add("x", everyHour)
			must[*Job](d, UpdateJob{ID: "x", Patch: json.RawMessage(`{}`)})
			must[Removed](d, RemoveJob{ID: "x"})
		}
		d.runAll()
	}
	seen := map[string]bool{}
	for _, l := range d.launched {
		key := fmt.Sprint(l.JobID, l.SlotMs)
		if seen[key] {
			t.Errorf("%s ran slot %d twice", l.JobID, l.SlotMs)
		}
		seen[key] = true
	}
	if want := 30*10 + 600; len(d.launched) != want {
		t.Errorf("%d runs, want %d: no slot is missing", len(d.launched), want)
	}
}

func TestCase023OneShotFiresOnce(t *testing.T) {
	for _, status := range []Status{StatusOK, StatusError, StatusSkipped} {
		t.Run(string(status), func(t *testing.T) {
			d := deskAt(t, "2026-05-01T00:00:00Z")
			d.add("j", `{"kind":"at","at":"2026-05-01T00:00:02Z"}`)
			d.advance(3 * time.Second)
			d.turn()
			d.end(d.last(), status)
			d.restart(3 * time.Second)
			d.restart(27 * time.Second)
			d.live(time.Hour, time.Minute)
			if len(d.launched) != 1 {
				t.Errorf("%d starts", len(d.launched))
			}
			j, still := d.w.Snapshot().Job("j")
			if still != (status != StatusOK) || still && (j.Enabled || j.next().Set) {
				t.Errorf("after %s: job there %v", status, still)
			}
			if page := must[RunsPage](d, RunsQuery{JobID: "j", Limit: 5}); page.Total != 1 {
				t.Errorf("history has %d entries", page.Total)
			}
		})
	}
}

func TestCase076LongJobHoldsUpNobody(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("a", `{"kind":"at","at":"+1s"}`)
	d.advance(2 * time.Second)
	long := d.last()
	d.add("b", `{"kind":"cron","expr":"*/1 * * * *","tz":"UTC"}`)
	d.add("c", `{"kind":"at","at":"+5s"}`)
	for i := range 20 {
		d.add(fmt.Sprintf("later%02d", i), `{"kind":"at","at":"+60s"}`)
	}
	most := 0
	for range 100 {
		d.advance(time.Second)
		most = max(most, d.w.st.active.Len())
		for _, l := range d.launched {
			if l != long && d.nowMs-l.RunAtMs >= 2000 { // every other run takes two seconds
				d.w.outcomes.put(Outcome{ReceiptID: l.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: l.RunAtMs, EndedAtMs: d.nowMs})
			}
		}
		d.turn()
	}
	if most != 8 {
		t.Errorf("at most %d ran at once, want the limit of 8 reached and kept", most)
	}
	for _, l := range d.launched {
		if late := l.RunAtMs - l.SlotMs; (l.JobID == "b" || l.JobID == "c") && late > 1000 {
			t.Errorf("%s started %d ms after its slot", l.JobID, late)
		}
	}
	if len(d.launched) < 23 {
		t.Errorf("only %d runs", len(d.launched))
	}
}

func TestCase077ManualRunWithALimitOfOne(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.cfg.MaxConcurrent = 1
	d.w.cfg = &d.cfg
	d.add("a", everyHour)
	d.add("b", everyHour)
	first := must[RunAnswer](d, RunJob{ID: "a", Mode: "force", Key: "1"})
	second := must[RunAnswer](d, RunJob{ID: "b", Mode: "force", Key: "2"}) // from inside a's command
	again := must[RunAnswer](d, RunJob{ID: "a", Mode: "force", Key: "3"})
	if first.RunID == "" || second.RunID == "" || again.Reason != "already-running" || again.OpenRunID != first.RunID {
		t.Fatal(first, second, again)
	}
	if len(d.launched) != 1 {
		t.Fatalf("%d run at once", len(d.launched))
	}
	d.end(d.last(), StatusOK)
	if len(d.launched) != 2 || d.last().RunID != second.RunID {
		t.Fatalf("the queued run did not follow: %v", d.launched)
	}
}

func TestCase106SameRequestKeySameRun(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", everyHour)
	first := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k", Given: true})
	second := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k", Given: true})
	d.end(d.last(), StatusOK)
	d.restart(time.Second)
	third := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k", Given: true})
	if first.RunID == "" || second != first || third != first || len(d.launched) != 1 {
		t.Errorf("answers %v %v %v, %d launches", first, second, third, len(d.launched))
	}
	other := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "l", Given: true})
	if other.RunID == first.RunID || len(d.launched) != 2 {
		t.Errorf("another key got %v, %d launches", other, len(d.launched))
	}
	if _, err := d.do(RunJob{ID: "j", Mode: "due", Key: "k", Given: true}); codeOf(err) != "conflict" {
		t.Errorf("the same key for another mode: %v", err)
	}
}

func TestCase107ManualRunDoesNotConsumeTheOneShot(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"at","at":"+60s"}`)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	d.end(d.last(), StatusOK)
	d.wantNext("j", "2026-05-01T00:01:00.000Z")
	if s := d.job("j").state(); s.ConsecutiveErrors.N != 0 || s.ConsecutiveSkipped.N != 0 {
		t.Errorf("counters %+v", s)
	}
	d.advance(61 * time.Second)
	d.runAll()
	if len(d.launched) != 2 {
		t.Errorf("%d runs, want the manual one and the timed one", len(d.launched))
	}
}

func TestCase119WaitingForAPlaceIsNotPartOfTheRun(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.cfg.MaxConcurrent = 1
	d.w.cfg = &d.cfg
	d.add("a", `{"kind":"at","at":"+1s"}`)
	d.add("b", `{"kind":"at","at":"+1s"}`)
	d.advance(time.Second)
	a := d.last()
	d.advance(20 * time.Second)
	d.end(a, StatusOK)
	b := d.last()
	if b.JobID != "b" || b.RunAtMs-b.SlotMs != 20_000 {
		t.Fatalf("%s was activated %d ms after its slot", b.JobID, b.RunAtMs-b.SlotMs)
	}
	d.advance(time.Second)
	d.end(b, StatusOK)
	page := must[RunsPage](d, RunsQuery{JobID: "b", Limit: 1})
	var e entry
	if err := json.Unmarshal(page.Entries[0], &e); err != nil {
		t.Fatal(err)
	}
	if e.WaitedMs != 20_000 || e.DurationMs != 1000 {
		t.Errorf("waited %d ms and ran %d ms are told apart as 20000 and 1000", e.WaitedMs, e.DurationMs)
	}
}

func TestCase126SlotsDuringARunAreSkippedWithItsID(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	d.advance(30 * time.Second)
	first := d.last()
	d.advance(90 * time.Second)
	if len(d.launched) != 1 {
		t.Fatalf("%d at once", len(d.launched))
	}
	answer := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	if answer.Reason != "already-running" || answer.OpenRunID != first.RunID {
		t.Errorf("a manual run meanwhile: %+v", answer)
	}
	why := must[Why](d, WhyQuery{JobID: "j", AtMs: at(t, "2026-05-01T00:02:00Z")})
	if len(why.Decisions) != 1 || why.Decisions[0].Rule != "overlap" || !strings.Contains(string(why.Decisions[0].Detail), first.RunID) {
		t.Errorf("why: %+v", why)
	}
}

// A slot that comes due behind a manual run is not lost: the first one is
// requested in the commit that settles the run, later ones overlap it.
func TestSlotBehindAManualRunWaits(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	manual := d.last()
	d.advance(3 * time.Minute)
	if len(d.launched) != 1 {
		t.Fatalf("%d launches beside an open run", len(d.launched))
	}
	d.end(manual, StatusOK)
	if len(d.launched) != 2 || schedule.FormatInstant(d.last().SlotMs) != "2026-05-01T00:01:00.000Z" {
		t.Fatalf("after it: %v", d.slots())
	}
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "overlap 2026-05-01T00:02:00Z..2026-05-01T00:03:00Z x2" {
		t.Errorf("decisions %v", rows)
	}
}

func TestCase039EditDuringARunSurvivesItsEnd(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:30Z")
	d.add("j", `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	d.advance(30 * time.Second)
	run := d.last()
	d.advance(2 * time.Second)
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(
		`{"enabled":false,"schedule":{"kind":"cron","expr":"0 9 * * *","tz":"UTC"},"payload":{"kind":"command","argv":["/bin/other"]}}`)})
	d.advance(3 * time.Second)
	d.end(run, StatusOK)
	j := d.job("j")
	if _, has := j.NextRunMs(); j.Enabled || has || j.def().Schedule.Expr != "0 9 * * *" || j.def().Payload.Command.Argv[0] != "/bin/other" {
		t.Errorf("the end of the run undid the edit: %s %s", j.Definition, j.State)
	}
	if ends := d.query(`SELECT status FROM task_runs`); len(ends) != 1 || ends[0] != "succeeded" {
		t.Errorf("history %v", ends)
	}
}

// A one-shot moved to a later time during its run runs again then.
func TestCase039OneShotMovedDuringItsRunRunsAgain(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"at","at":"+1s"}`)
	d.advance(time.Second)
	run := d.last()
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"schedule":{"kind":"at","at":"2026-05-01T01:00:00Z"}}`)})
	d.end(run, StatusOK)
	d.wantNext("j", "2026-05-01T01:00:00.000Z")
	d.live(time.Hour, time.Minute)
	d.wantSlots("2026-05-01T00:00:01.000Z", "2026-05-01T01:00:00.000Z")
}

func TestCase113HistoryIsBounded(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.cfg.HistoryRowsPerJob = 100
	d.w.cfg = &d.cfg
	d.add("a", everyHour)
	d.add("b", everyHour)
	run := func(id string, n int) {
		for i := range n {
			must[RunAnswer](d, RunJob{ID: id, Mode: "force", Key: fmt.Sprint(id, d.nowMs, i)})
			d.runAll()
			d.nowMs++
			d.monoMs++
		}
	}
	run("a", 130)
	run("b", 3)
	must[RunAnswer](d, RunJob{ID: "b", Mode: "force", Key: "open"})
	for range 3 {
		d.nowMs += 61_000
		d.monoMs += 61_000
		d.turn()
	}
	kept := func(id string) string { return d.query(`SELECT count(*) FROM task_runs WHERE source_id = ?`, id)[0] }
	if kept("a") != "100" || kept("b") != "3" {
		t.Errorf("a keeps %s rows and b %s, want 100 and 3", kept("a"), kept("b"))
	}
	if open := d.query(`SELECT count(*) FROM cron_run_receipts WHERE status = 'running'`); open[0] != "1" {
		t.Errorf("%s open receipts, want the one that runs", open[0])
	}
}
