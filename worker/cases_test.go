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

// Field failures of schedulers, as tests of the worker: the number is the
// case's. What a case needs beyond schedules, manual runs and one catch-up run
// a job is tested where it exists.

// at is an instant written out.
func at(t *testing.T, text string) int64 {
	t.Helper()
	ms, err := schedule.ParseAt(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// deskAt is a desk whose clock begins at an instant.
func deskAt(t *testing.T, text string) *desk {
	d := newDesk(t)
	d.nowMs = at(t, text)
	return d
}

// restart stops the worker as a kill does and starts it again at once, or
// after some downtime.
func (d *desk) restart(down time.Duration) {
	d.t.Helper()
	d.close()
	d.nowMs += down.Milliseconds()
	d.open(Options{LogKnown: true})
}

// runAll ends every launched run at once, so that only slots decide.
func (d *desk) runAll() {
	for {
		n := 0
		for r := range d.w.st.active.Values() {
			n++
			d.w.outcomes.put(Outcome{ReceiptID: r.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: d.nowMs, EndedAtMs: d.nowMs})
		}
		if n == 0 {
			return
		}
		d.turn()
	}
}

// live advances the clock in steps, ending runs as they start.
func (d *desk) live(by, step time.Duration) {
	d.t.Helper()
	for until := d.nowMs + by.Milliseconds(); d.nowMs < until; {
		d.advance(min(step, time.Duration(until-d.nowMs)*time.Millisecond))
		d.runAll()
	}
}

// slots are the natural slots of what was launched.
func (d *desk) slots() []string {
	var all []string
	for _, l := range d.launched {
		all = append(all, schedule.FormatInstant(l.SlotMs))
	}
	return all
}

func (d *desk) wantSlots(want ...string) {
	d.t.Helper()
	if got := d.slots(); strings.Join(got, " ") != strings.Join(want, " ") {
		d.t.Errorf("slots run\n  %v\nwant\n  %v", got, want)
	}
}

func (d *desk) wantNext(id, want string) {
	d.t.Helper()
	next, ok := d.job(id).NextRunMs()
	if got := schedule.FormatInstant(next); !ok || got != want {
		d.t.Errorf("next of %s is %s (%v), want %s", id, got, ok, want)
	}
}

// decisions are the rows of rota_slots as "rule from..to xN".
func (d *desk) decisions(id string) []string {
	return d.query(`SELECT rule || ' ' || strftime('%Y-%m-%dT%H:%M:%SZ', from_ms / 1000, 'unixepoch') || '..' ||
		strftime('%Y-%m-%dT%H:%M:%SZ', to_ms / 1000, 'unixepoch') || ' x' || slots FROM rota_slots WHERE job_id = ? ORDER BY from_ms, seq`, id)
}

func TestCase002RepeatedHourRunsADailyJobOnceAlsoOverARestart(t *testing.T) {
	d := deskAt(t, "2026-11-01T05:00:00Z")
	d.add("j", `{"kind":"cron","expr":"30 1 * * *","tz":"America/New_York"}`)
	d.live(70*time.Minute, time.Minute)
	d.restart(0)
	d.live(25*time.Hour, 10*time.Minute)
	d.wantSlots("2026-11-01T05:30:00.000Z", "2026-11-02T06:30:00.000Z")
}

func TestCase004DayAfterTheClockChange(t *testing.T) {
	d := deskAt(t, "2026-10-31T15:00:00Z")
	d.add("ny", `{"kind":"cron","expr":"0 12 * * *","tz":"America/New_York","staggerMs":0}`)
	d.live(2*time.Hour, time.Hour)
	d.restart(22 * time.Hour) // 1 November, 10:00 in New York
	d.wantNext("ny", "2026-11-01T17:00:00.000Z")
	d.live(3*time.Hour, time.Hour)
	d.wantSlots("2026-10-31T16:00:00.000Z", "2026-11-01T17:00:00.000Z")
}

func TestCase009EditAfterTodaysSlotKeepsTomorrow(t *testing.T) {
	d := deskAt(t, "2026-02-06T11:00:00Z")
	d.add("j", `{"kind":"cron","expr":"25 6 * * *","tz":"America/New_York"}`)
	d.live(time.Hour, 30*time.Minute)
	d.nowMs = at(t, "2026-02-07T03:37:00Z")
	d.turn()
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"description":"new words"}`)})
	d.wantNext("j", "2026-02-07T11:25:00.000Z")
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"payload":{"kind":"command","argv":["/bin/echo"]}}`)})
	d.wantNext("j", "2026-02-07T11:25:00.000Z")
}

func TestCase010IntervalKeepsItsGridOverRestartsAndEdits(t *testing.T) {
	d := deskAt(t, "2026-05-01T04:42:00Z")
	d.add("j", `{"kind":"every","everyMs":12600000}`)
	d.wantNext("j", "2026-05-01T08:12:00.000Z")
	d.restart(86 * time.Minute)
	d.restart(122 * time.Minute)
	d.nowMs += 60_000
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"name":"other"}`)})
	d.wantNext("j", "2026-05-01T08:12:00.000Z")
	d.live(2*time.Minute, time.Minute)
	d.wantSlots("2026-05-01T08:12:00.000Z")

	often := deskAt(t, "2026-05-01T00:00:00Z")
	often.add("k", `{"kind":"every","everyMs":14400000}`)
	for range 8 {
		often.live(3*time.Hour-time.Minute, time.Minute)
		often.restart(time.Minute)
		often.turn()
	}
	often.runAll()
	if n := len(often.launched); n != 6 {
		t.Errorf("a four-hour job ran %d times in a day of restarts, want 6: %v", n, often.slots())
	}
}

func TestCase011ReadingNeverMovesADeadline(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	d.cfg.MaxConcurrent = 0 // every place is taken
	d.w.cfg = &d.cfg
	d.add("j", `{"kind":"cron","expr":"0 1 * * *","tz":"UTC","staggerMs":0}`)
	d.advance(time.Hour)
	before := d.dump()
	for range 10 {
		must[RunsPage](d, RunsQuery{JobID: "j", Limit: 10})
		must[Why](d, WhyQuery{JobID: "j"})
		must[[]Event](d, EventsQuery{})
		d.w.Snapshot().NextWakeMs()
	}
	if after := d.dump(); after != before {
		t.Errorf("reading changed rows\nbefore:\n%s\nafter:\n%s", before, after)
	}
	d.cfg.MaxConcurrent = 8
	d.turn()
	d.runAll()
	d.live(time.Hour, time.Minute)
	d.wantSlots("2026-05-01T01:00:00.000Z")
}

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
			if still != (status != StatusOK) || still && (j.Enabled || j.state.NextRunAtMs.Set) {
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

func TestCase098StoredNextRunIsNotRepairedAway(t *testing.T) {
	d := deskAt(t, "2026-05-07T19:30:00Z")
	d.add("j", `{"kind":"cron","expr":"0 9 * * *","tz":"Pacific/Honolulu","staggerMs":0}`)
	d.wantNext("j", "2026-05-08T19:00:00.000Z")
	d.restart(30 * time.Minute)
	d.wantNext("j", "2026-05-08T19:00:00.000Z")
	d.nowMs = at(t, "2026-05-08T18:59:59.500Z")
	d.restart(0)
	d.wantNext("j", "2026-05-08T19:00:00.000Z")
	d.live(time.Hour, 10*time.Minute)
	d.wantSlots("2026-05-08T19:00:00.000Z")
}

func TestCase099IntervalStaysOnItsGridBehindALongRun(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"every","everyMs":120000,"anchorMs":`+fmt.Sprint(d.nowMs+120_000)+`}`)
	d.advance(120 * time.Second)
	d.advance(430 * time.Second)
	d.end(d.last(), StatusOK)
	d.live(6*time.Minute, time.Second)
	got := d.slots()
	want := []string{"2026-05-01T00:02:00.000Z", "2026-05-01T00:10:00.000Z", "2026-05-01T00:12:00.000Z", "2026-05-01T00:14:00.000Z"}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("slots %v, want %v", got, want)
	}
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "overlap 2026-05-01T00:04:00Z..2026-05-01T00:08:00Z x3" {
		t.Errorf("decisions %v", rows)
	}
}

func TestCase100ManualRunMovesNoTimetable(t *testing.T) {
	d := deskAt(t, "2026-05-01T06:00:00Z")
	d.add("every", `{"kind":"every","everyMs":86400000,"anchorMs":`+fmt.Sprint(at(t, "2026-05-01T07:00:00Z"))+`}`)
	d.add("cron", `{"kind":"cron","expr":"0 7 * * *","tz":"UTC","staggerMs":0}`)
	d.live(7*time.Hour, time.Hour) // 13:00 on day 1
	for _, when := range []string{"2026-05-01T13:00:00Z", "2026-05-02T06:59:59Z"} {
		d.nowMs = at(t, when)
		d.turn()
		for _, id := range []string{"every", "cron"} {
			must[RunAnswer](d, RunJob{ID: id, Mode: "force", Key: when})
		}
		d.runAll()
		d.wantNext("every", "2026-05-02T07:00:00.000Z")
		d.wantNext("cron", "2026-05-02T07:00:00.000Z")
	}
	d.live(time.Minute, time.Second)
	timed := 0
	for _, l := range d.launched {
		if l.Trigger == TriggerTimer {
			timed++
		}
	}
	if timed != 4 || len(d.launched) != 8 {
		t.Errorf("%d timed runs of %d, want 4 of 8", timed, len(d.launched))
	}
}

func TestCase101StaggerIsTheSameAfterEachRestart(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:30:00Z")
	d.add("spread", `{"kind":"cron","expr":"0 * * * *","tz":"UTC","staggerMs":3600000}`)
	offset := schedule.StaggerOffset("spread", 3_600_000)
	first, _ := d.job("spread").NextRunMs()
	if (first-offset)%3_600_000 != 0 {
		t.Fatalf("next %s is not an hour plus %d ms", schedule.FormatInstant(first), offset)
	}
	for range 5 {
		d.restart(time.Second)
		if next, _ := d.job("spread").NextRunMs(); next != first {
			t.Errorf("next moved to %s", schedule.FormatInstant(next))
		}
	}
	d.nowMs = first - 5*60_000
	d.restart(15 * time.Minute) // down over the slot
	d.runAll()
	if len(d.launched) != 1 || d.last().SlotMs != first {
		t.Fatalf("the missed slot was not caught up once: %v", d.slots())
	}
	if next, _ := d.job("spread").NextRunMs(); next != first+3_600_000 {
		t.Errorf("next is %s, want the same minute of the next hour", schedule.FormatInstant(next))
	}
}

func TestCase102FarAwaySlotsWait(t *testing.T) {
	d := deskAt(t, "2026-02-01T04:00:01Z")
	d.add("month", `{"kind":"cron","expr":"0 4 1 * *","tz":"UTC"}`)
	d.add("year", `{"kind":"cron","expr":"0 0 1 1 *","tz":"UTC"}`)
	d.add("quarter", `{"kind":"every","everyMs":7776000000}`)
	d.wantNext("month", "2026-03-01T04:00:00.000Z")
	d.wantNext("year", "2027-01-01T00:00:00.000Z")
	d.wantNext("quarter", "2026-05-02T04:00:01.000Z")
	d.live(28*24*time.Hour-2*time.Second, 6*time.Hour)
	d.wantSlots()
	d.live(2*time.Second, time.Second)
	d.wantSlots("2026-03-01T04:00:00.000Z")
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
	if s := d.job("j").state; s.ConsecutiveErrors.N != 0 || s.ConsecutiveSkipped.N != 0 {
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

// A cron job that ends within two seconds of its next slot gives that slot up,
// with a row.
func TestRefireGapLeavesARow(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("j", `{"kind":"cron","expr":"* * * * * *","tz":"UTC"}`)
	d.advance(time.Second)
	d.nowMs += 100
	d.end(d.last(), StatusOK)
	d.wantNext("j", "2026-05-01T00:00:04.000Z")
	if rows := d.decisions("j"); len(rows) != 1 || rows[0] != "refire-gap 2026-05-01T00:00:02Z..2026-05-01T00:00:03Z x2" {
		t.Errorf("decisions %v", rows)
	}
}

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
	d.open(Options{LogKnown: true, Logged: []Logged{{ReceiptID: started.ReceiptID, BootID: "boot-1",
		Process: &Process{BootID: "boot-1", PID: 42, StartTime: 9}}}})
	if len(d.launched) != 1 || d.last().JobID != "unstarted" || schedule.FormatInstant(d.last().SlotMs) != "2026-05-01T00:01:00.000Z" {
		t.Fatalf("relaunched %v", d.launched)
	}
	j := d.job("uncertain")
	if j.state.LastRunStatus != "error" || j.state.ConsecutiveErrors.N != 0 || j.state.LastRunInterruptionReason == "" {
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
	for name, o := range map[string]Options{"other boot": {LogKnown: true, BootID: "boot-2"}, "no log": {}} {
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
			if j := d.job("j"); j.Enabled || j.state.NextRunAtMs.Set {
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
	if after, _ := d.job("j").NextRunMs(); after != next || d.job("j").state.QueuedAtMs.Set {
		t.Errorf("state %s", d.job("j").State)
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
	if _, has := j.NextRunMs(); j.Enabled || has || j.def.Schedule.Expr != "0 9 * * *" || j.def.Payload.Command.Argv[0] != "/bin/other" {
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

func TestCase125NeverEarlyUnderASlewingClock(t *testing.T) {
	d := deskAt(t, "2026-05-01T00:00:00Z")
	d.add("s", `{"kind":"every","everyMs":1000}`)
	d.add("m", `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	steps := []int64{50, -50, 0, 1, -1}
	for i := range 5000 { // 1000 s in steps of 200 ms, with small corrections
		d.monoMs += 200
		d.nowMs += 200 + steps[i%len(steps)]
		d.turn()
		d.runAll()
	}
	seen := map[string]int{}
	for _, l := range d.launched {
		seen[fmt.Sprint(l.JobID, l.SlotMs)]++
		if l.RunAtMs < l.SlotMs {
			t.Errorf("%s was started %d ms before its slot", l.JobID, l.SlotMs-l.RunAtMs)
		}
	}
	if len(seen) != len(d.launched) || len(seen) < 1010 {
		t.Errorf("%d runs of %d slots", len(d.launched), len(seen))
	}
}
