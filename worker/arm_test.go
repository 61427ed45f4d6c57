package worker

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// armDesk has 40 jobs that are due every minute, and places for them all.
func armDesk(t *testing.T, crowd int) *desk {
	d := newDesk(t)
	d.cfg.Version, d.cfg.MaxConcurrent = 2, 60
	d.w.Configure(d.cfg)
	d.w.crowd = crowd
	d.turn()
	for i := range 40 {
		d.add(fmt.Sprintf("j%02d", i), `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	}
	return d
}

// armed are the rows of rota_armed, and the receipts and markers they stand for.
func (d *desk) armed() (rows, receipts, markers int) {
	count := func(query string) (n int) {
		_, _ = fmt.Sscan(d.query(query)[0], &n)
		return n
	}
	return count(`SELECT count(*) FROM rota_armed`), count(`SELECT count(*) FROM cron_run_receipts WHERE status = 'running'`),
		count(`SELECT count(*) FROM cron_jobs WHERE state_json ->> '$.runningAtMs' IS NOT NULL`)
}

// A crowd is committed ahead of its minute and nobody sees it. At the minute the
// runs go out with nothing but their events to write.
func TestACrowdIsArmedAheadOfItsMoment(t *testing.T) {
	d := armDesk(t, armCrowd)
	d.advance(59 * time.Second)
	if rows, receipts, markers := d.armed(); rows != 40 || receipts != 40 || markers != 40 {
		t.Fatalf("a second before: %d armed, %d receipts, %d markers", rows, receipts, markers)
	}
	if requested, active := d.w.Snapshot().Counts(); requested+active != 0 || len(d.launched) != 0 {
		t.Errorf("a second before: %d requested, %d active, %d launched", requested, active, len(d.launched))
	}
	if next, _ := d.job("j07").NextRunMs(); next != epoch+60_000 {
		t.Errorf("the job is due at %d", next)
	}
	d.advance(time.Second)
	if rows, receipts, markers := d.armed(); rows != 0 || receipts != 40 || markers != 40 || len(d.launched) != 40 {
		t.Fatalf("at the minute: %d armed, %d receipts, %d markers, %d launched", rows, receipts, markers, len(d.launched))
	}
	for _, l := range d.launched {
		if l.SlotMs != epoch+60_000 || l.RunAtMs != l.SlotMs {
			t.Errorf("%s runs at %d for %d", l.JobID, l.RunAtMs, l.SlotMs)
		}
	}
}

// A job alone in its moment, or without a place, gains nothing by it.
func TestAFewJobsAreNotArmed(t *testing.T) {
	d := newDesk(t)
	for i := range 40 { // more than there are places
		d.add(fmt.Sprint("j", i), `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
	}
	d.advance(59 * time.Second)
	if rows, _, _ := d.armed(); rows != 0 {
		t.Errorf("%d runs are armed", rows)
	}
}

// A kill before the moment leaves nothing of what was armed: the next start puts
// it back, and the slot is missed, or runs, as it would have been.
func TestWhatWasArmedIsPutBackAtAStart(t *testing.T) {
	for _, down := range []time.Duration{0, time.Minute} {
		d := armDesk(t, armCrowd)
		was := string(d.job("j00").State)
		d.advance(59 * time.Second)
		d.crash()
		d.nowMs += down.Milliseconds()
		d.open(Options{BootID: "another", LogID: "another"}) // a power cut: nothing is known of launches
		if got := string(d.job("j00").State); down == 0 && got != was {
			t.Errorf("the state is %s, was %s", got, was)
		}
		if texts := d.query(`SELECT status FROM cron_run_receipts WHERE status NOT IN ('running', 'ok')`); len(texts) > 0 {
			t.Errorf("receipts that say %v", texts)
		}
		d.advance(time.Second)
		ran := map[string]bool{}
		for _, l := range d.launched {
			ran[fmt.Sprint(l.JobID, l.SlotMs)] = true
		}
		if len(d.launched) != len(ran) || down == 0 && len(ran) != 40 {
			t.Errorf("%d launches of %d slots", len(d.launched), len(ran))
		}
	}
}

// A stop in order leaves a file in which nothing is armed.
func TestAStopDisarms(t *testing.T) {
	d := armDesk(t, armCrowd)
	d.advance(59 * time.Second)
	d.w.stopping.Store(true)
	d.turn()
	if rows, receipts, markers := d.armed(); rows+receipts+markers != 0 {
		t.Errorf("%d armed, %d receipts, %d markers", rows, receipts, markers)
	}
	d.w.stopping.Store(false)
}

// TestArmingChangesNothing plays the same random commands, ends and waits on two
// files, one of which arms every slot it can: the launches, answers and rows must
// be the same.
func TestArmingChangesNothing(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 8
	}
	armedRuns := 0
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			arms, plain := newDesk(t), newDesk(t)
			var told [2]string
			for i, d := range []*desk{arms, plain} {
				d.w.crowd = []int{1, 1 << 30}[i]
				told[i] = playBeside(t, d, rand.New(rand.NewPCG(seed, 5)))
			}
			armed, plainly := strings.Split(numbered.ReplaceAllString(told[0], "#"), "\n"), strings.Split(numbered.ReplaceAllString(told[1], "#"), "\n")
			for i := range min(len(armed), len(plainly)) {
				if armed[i] != plainly[i] {
					t.Fatalf("line %d, armed:\n%s\nplain:\n%s\nafter:\n%s", i, armed[i], plainly[i], strings.Join(armed[max(0, i-12):i], "\n"))
				}
			}
			if len(armed) != len(plainly) {
				t.Fatalf("%d lines, and %d where nothing is armed", len(armed), len(plainly))
			}
			armedRuns += int(arms.w.st.armCount)
		})
	}
	if armedRuns < int(seeds)*3 {
		t.Errorf("only %d runs were armed", armedRuns)
	}
}

// numbered is what is made from numbers of the sequence: arming takes some of them.
var numbered = regexp.MustCompile(`"rota-\d+"|[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// playBeside plays one file and tells all that can be seen from outside.
func playBeside(t *testing.T, d *desk, rng *rand.Rand) string {
	var told strings.Builder
	for i, schedule := range []string{`{"kind":"every","everyMs":7000}`, `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`,
		`{"kind":"every","everyMs":20000}`, `{"kind":"at","at":"+40s"}`, `{"kind":"cron","expr":"*/2 * * * *","tz":"Europe/Berlin"}`} {
		d.add(fmt.Sprint("j", i), schedule)
	}
	for range 60 {
		id := fmt.Sprint("j", rng.IntN(5))
		patch := []string{`{"enabled":false}`, `{"enabled":true}`, `{"description":"x"}`, `{"schedule":{"kind":"every","everyMs":9000}}`, `{"dst":"skip"}`}[rng.IntN(5)]
		var answer any
		var err error
		switch rng.IntN(9) {
		case 0:
			answer, err = d.do(UpdateJob{ID: id, Patch: json.RawMessage(patch)})
		case 1:
			answer, err = d.do(RunJob{ID: id, Mode: []string{"force", "due", "if-enabled"}[rng.IntN(3)], Key: fmt.Sprint(rng.IntN(20)), Given: true})
		case 2:
			d.cfg.Version, d.cfg.MaxConcurrent = d.cfg.Version+1, 1+rng.IntN(4)
			d.w.Configure(d.cfg)
			d.turn()
		case 3, 4:
			for _, l := range d.launched {
				if r, ok := d.w.st.active.Get(l.ReceiptID); ok && rng.IntN(2) == 0 {
					d.end(l, []Status{StatusOK, StatusError}[rng.IntN(2)])
					fmt.Fprintln(&told, "ended", r.RunID)
				}
			}
		case 5:
			if rng.IntN(6) == 0 {
				d.nowMs += []int64{-2 * 3_600_000, 8 * 3_600_000}[rng.IntN(2)]
				d.turn()
			}
		default:
			d.advance(time.Duration(rng.IntN(9000)) * time.Millisecond)
		}
		fmt.Fprintln(&told, answerText(answer), err)
		for _, l := range d.launched {
			if _, ok := d.w.st.active.Get(l.ReceiptID); ok {
				fmt.Fprintln(&told, "launch", l.RunID, l.Trigger, l.SlotMs, l.RunAtMs)
			}
		}
	}
	d.w.stopping.Store(true)
	d.turn()
	d.w.stopping.Store(false)
	rows := strings.Split(numbered.ReplaceAllString(d.dump(), "#"), "\n")
	slices.Sort(rows)
	told.WriteString(strings.Join(rows, "\n"))
	if tx, err := d.w.store.Begin(); err != nil {
		t.Error(err)
	} else if n, err := store.RestoreArmed(tx); n != 0 || err != nil || tx.Rollback() != nil {
		t.Errorf("%d runs were left armed, %v", n, err)
	}
	return told.String()
}
