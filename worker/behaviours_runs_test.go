package worker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// Rows of testdata/behaviours.md that a script cannot show: several things in
// one turn, and what the loop waits for.

// agentKind is the patch that makes a job one that this build cannot run.
const agentKind = `UPDATE cron_jobs SET payload_kind = 'agentTurn', job_json = json_set(job_json, '$.payload', json('{"kind":"agentTurn","message":"hello"}')) WHERE job_id = 'j'`

// TestOR1AnAcknowledgedRunNeedsItsCallerNoMore, and is handed what the job says
// (OR8).
//
// covers: OR1 OR8
func TestOR1AnAcknowledgedRunNeedsItsCallerNoMore(t *testing.T) {
	d := newDesk(t)
	must[Added](d, AddJob{ID: "j", Params: json.RawMessage(`{"name":"j","schedule":` + everyHour + `,
		"payload":{"kind":"command","argv":["/bin/echo","the stored words"],"input":"more of them","timeoutSeconds":7}}`)})
	asked := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	l := d.last() // the caller has its answer, and the run goes on
	if l.RunID != asked.RunID || d.w.st.active.Len() != 1 {
		t.Fatalf("asked for %s, launched %s", asked.RunID, l.RunID)
	}
	c := l.Payload.Command
	if c == nil || strings.Join(c.Argv, " ") != "/bin/echo the stored words" || c.Input != "more of them" || c.TimeoutMs != 7000 {
		t.Errorf("launched with %+v", c)
	}
	d.end(l, StatusOK)
	d.wantHistory("j", "ok succeeded not-requested")
}

// TestOR3NothingIsAcceptedWhileRotaStops.
func TestOR3NothingIsAcceptedWhileRotaStops(t *testing.T) {
	d := newDesk(t)
	d.add("j", everyHour)
	events := len(d.query(`SELECT seq FROM rota_events`))
	was := string(d.job("j").State)
	d.w.stopping.Store(true)
	if _, err := d.do(RunJob{ID: "j", Mode: "force", Key: "k"}); codeOf(err) != "stopping" {
		t.Errorf("a request in the lane is answered %v", err)
	}
	if _, err := ask[RunAnswer](context.Background(), d.w, RunJob{ID: "j", Mode: "force", Key: "k"}); codeOf(err) != "stopping" {
		t.Errorf("a new request is answered %v", err)
	}
	if n := len(d.query(`SELECT receipt_id FROM cron_run_receipts`)); n != 0 {
		t.Errorf("%d receipts", n)
	}
	if n := len(d.query(`SELECT seq FROM rota_events`)); n != events || string(d.job("j").State) != was {
		t.Errorf("%d events after %d, state %s", n, events, d.job("j").State)
	}
}

// TestMA3AReceiptThatCannotBeInsertedIsNoAcknowledgement: nothing of the
// request is kept, and the next one is served.
func TestMA3AReceiptThatCannotBeInsertedIsNoAcknowledgement(t *testing.T) {
	d := newDesk(t)
	d.add("j", everyHour)
	was := string(d.job("j").State)
	d.exec(`CREATE TRIGGER full BEFORE INSERT ON cron_run_receipts BEGIN SELECT RAISE(ABORT, 'no more receipts'); END`)
	if a, err := d.do(RunJob{ID: "j", Mode: "force", Key: "k", Given: true}); err == nil {
		t.Errorf("acknowledged: %+v", a)
	}
	if n := len(d.query(`SELECT receipt_id FROM cron_run_receipts`)); n != 0 || string(d.job("j").State) != was || len(d.launched) != 0 {
		t.Errorf("%d receipts, %d launches, state %s", n, len(d.launched), d.job("j").State)
	}
	d.exec(`DROP TRIGGER full`)
	if a := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k", Given: true}); a.RunID == "" {
		t.Errorf("asked again: %+v", a)
	}
}

// TestOW8ASkipGoesByTheRowsOfItsOwnTurn: a job that may not start comes due in
// the very turn in which something else happens to it. One owner decides and
// commits, so nothing changes between the two: no skip is written for what is not
// so any more.
//
// covers: OW8 OW9 OW12 OW13 OW14
func TestOW8ASkipGoesByTheRowsOfItsOwnTurn(t *testing.T) {
	for _, c := range []struct {
		row, what string
		before    func(d *desk) // a restart follows
		meanwhile func(d *desk)
		runs      int
		slots     string
	}{
		{"OW8", "disabled", nil, patched(`{"enabled":false}`), 0, "disabled 2026-10-01T12:01:00Z..2026-10-01T12:01:00Z x1"},
		{"OW9", "moved to another time", nil, patched(`{"schedule":{"kind":"cron","expr":"30 18 * * *","tz":"UTC","staggerMs":0}}`), 0,
			"rescheduled 2026-10-01T12:01:00Z..2026-10-01T12:01:00Z x1"},
		{"OW12", "edited so that it can run", nil, patched(`{"payload":{"kind":"command","argv":["/bin/true"]}}`), 1, ""},
		{"OW13", "waiting with a manual run", func(d *desk) {
			d.cfg.MaxConcurrent = 0
			d.restart(0)
			must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
		}, func(*desk) {}, 0, ""},
		{"OW14", "delivering a result", func(d *desk) {
			must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
			d.ran("42 files")
			d.launched = nil
		}, func(*desk) {}, 0, ""},
	} {
		t.Run(c.row+" "+c.what, func(t *testing.T) {
			d := deskAt(t, "2026-10-01T12:00:10Z")
			d.add("j", everyMinute, toHook)
			if c.before != nil {
				c.before(d)
			}
			d.exec(agentKind)
			d.restart(0)
			slotMs, _ := d.job("j").NextRunMs()
			d.monoMs += slotMs - d.nowMs
			d.nowMs = slotMs
			c.meanwhile(d)
			d.turn()
			if len(d.launched) != c.runs {
				t.Errorf("%d runs", len(d.launched))
			}
			if got := d.history("j"); len(got) != 0 {
				t.Errorf("history %v", got)
			}
			if got := strings.Join(d.decisions("j"), "\n"); got != c.slots {
				t.Errorf("decisions %q, want %q", got, c.slots)
			}
		})
	}
}

// patched edits the job in the turn that is about to come.
func patched(patch string) func(d *desk) {
	return func(d *desk) { must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(patch)}) }
}

// TestOW10AnEndInTheSameTurnComesFirst: the run's end and the next slot of a job
// that may not start any more meet in one turn. The end is recorded, and the slot
// is skipped on top of it: both are true, in this order.
//
// covers: OW10 OW11
func TestOW10AnEndInTheSameTurnComesFirst(t *testing.T) {
	d := deskAt(t, "2026-10-01T12:00:10Z")
	d.add("j", everyMinute, toHook)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	d.ran("42 files")
	d.exec(agentKind)
	d.restart(0)
	slotMs, _ := d.job("j").NextRunMs()
	d.monoMs += slotMs - d.nowMs
	d.nowMs = slotMs
	d.answer(Delivered, "") // the last run and its status change in the turn of the slot
	if got := strings.Join(d.query(`SELECT detail_json ->> '$.status' || ' ' || (detail_json ->> '$.trigger') FROM task_runs ORDER BY rowid`), "; "); got != "ok manual; skipped timer" {
		t.Errorf("history %s", got)
	}
	s := *d.job("j").state()
	if s.LastOutcome() != "skipped" || s.ConsecutiveSkipped.N != 1 || s.RunningAtMs.Set {
		t.Errorf("state %s", d.job("j").State)
	}
}

// waits is how long the loop would sleep now.
func (d *desk) waits() time.Duration {
	d.t.Helper()
	var asked time.Duration
	d.w.clock.Timer = func(wait time.Duration) (<-chan time.Time, func() bool) {
		asked = wait
		fired := make(chan time.Time, 1)
		fired <- time.Time{}
		return fired, func() bool { return true }
	}
	for len(d.w.commands.ready)+len(d.w.outcomes.ready)+len(d.w.poke) > 0 { // what has been taken care of
		select {
		case <-d.w.commands.ready:
		case <-d.w.outcomes.ready:
		case <-d.w.poke:
		}
	}
	d.w.sleep(context.Background())
	return asked
}

// TestTR19TheLoopLooksAtTheClockOnceAMinute, however far the next deadline is,
// and no more often while a run is open whose job is due again (TR20).
//
// covers: TR19 TR20
func TestTR19TheLoopLooksAtTheClockOnceAMinute(t *testing.T) {
	t.Run("a one-shot far ahead", func(t *testing.T) {
		d := deskAt(t, "2026-10-01T12:00:00Z")
		d.add("far", `{"kind":"at","at":"2031-01-01T00:00:00Z"}`)
		if got := d.waits(); got != time.Minute {
			t.Errorf("waits %s", got)
		}
		d.add("near", everyMinute)
		d.advance(18 * time.Second)
		if got := d.waits(); got != 42*time.Second {
			t.Errorf("with a slot in 42 s it waits %s", got)
		}
	})
	for _, mode := range []string{"timed", "manual"} {
		t.Run("a "+mode+" run is open", func(t *testing.T) {
			d := deskAt(t, "2026-10-01T12:00:30Z")
			d.add("j", everyMinute)
			if mode == "manual" {
				must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
			}
			d.advance(2 * time.Minute) // at 12:02:30
			commits := d.w.Stats().Commits
			if got := d.waits(); got < 30*time.Second {
				t.Errorf("waits %s", got)
			}
			if more, err := d.w.turn(); more || err != nil || d.w.Stats().Commits != commits {
				t.Errorf("a turn with nothing to do: more %v, %v, %d commits", more, err, d.w.Stats().Commits-commits)
			}
			if len(d.launched) != 1 {
				t.Errorf("%d launches", len(d.launched))
			}
		})
	}
}
