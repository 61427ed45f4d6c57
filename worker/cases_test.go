package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/schedule"
)

// Field failures of schedulers in when things run, as tests of the turn: the
// number is the case's.

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
