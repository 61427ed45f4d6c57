package worker

import (
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/schedule"
)

// The words in which tests tell what happens on a desk.

// at is an instant written out.
func at(t testing.TB, text string) int64 {
	t.Helper()
	ms, err := schedule.ParseAt(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// deskAt is a desk whose clock begins at an instant.
func deskAt(t *testing.T, text string) *desk { return newDeskAt(t, at(t, text)) }

// restart stops the worker as a kill does and starts it again at once, or
// after some downtime.
func (d *desk) restart(down time.Duration) {
	d.t.Helper()
	d.close()
	d.nowMs += down.Milliseconds()
	d.open(Options{LogID: "log"})
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
