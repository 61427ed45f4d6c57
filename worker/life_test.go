package worker

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/store"
)

var rewrite = flag.Bool("rewrite", false, "write golden documents anew")

const everyHour = `{"kind":"every","everyMs":3600000}`

// TestEveryPhaseMeetsEveryInput puts a run of each kind into each phase in a
// real file, gives it each input, and reads from the rows what became of it.
// The table is the only expectation.
func TestEveryPhaseMeetsEveryInput(t *testing.T) {
	cells := 0
	for _, timed := range []bool{true, false} {
		for phase := range phases {
			d := newDesk(t)
			d.cfg.MaxConcurrent = 0 // nothing becomes active by itself
			d.w.cfg = &d.cfg
			for in := range inputs {
				cells++
				t.Run(fmt.Sprintf("%s/%s/timed=%v", phase, in, timed), func(t *testing.T) {
					d.t = t
					checkCell(d, fmt.Sprint("j", in), phase, in, timed)
				})
			}
			d.t = t
		}
	}
	if want := 2 * int(phases) * int(inputs); cells != want {
		t.Errorf("%d cells were tried, %d exist", cells, want)
	}
}

// checkCell makes the situation, applies the input and compares the rows.
func checkCell(d *desk, id string, phase Phase, in Input, timed bool) {
	t := d.t
	t.Helper()
	d.nowMs += 1000
	d.add(id, everyHour)
	r := d.runAt(id, phase, timed)
	d.launched, d.canceled, d.sending = nil, nil, nil
	cell := life[phase][in]
	before := d.rows(r)
	circumstance := d.circumstanceOf(r, in)
	if in == InUnrunnable {
		d.spoil(id)
	}
	if phase == PhaseNone && in == InSlotDue {
		r = d.dueRun(id)
	}
	if phase != PhaseNone && in == InSlotDue {
		d.nowMs = d.job(id).next().N
	}
	var refusal error
	d.apply(func(t *turn) error {
		_, refused, fatal := t.apply(func(t *turn) (any, error) { return nil, t.step(r, in, circumstance) })
		refusal = refused
		return fatal
	})
	after := d.rows(r)
	if (refusal != nil) != (cell.Effect == DoRefuse) {
		t.Fatalf("refusal %v, but the table says %s", refusal, cell.Effect)
	}
	// What may not start never reaches the ledger: there is no receipt to end.
	unrequested := phase == PhaseNone && in == InUnrunnable
	if after.phase != cell.To && !unrequested {
		t.Errorf("phase is %s, the table says %s\nbefore %+v\nafter %+v", after.phase, cell.To, before, after)
	}
	ends := cell.To == PhaseDone && phase != PhaseDone && cell.Effect != DoRestore
	if grown := after.history - before.history; (grown == 1) != ends {
		t.Errorf("history grew by %d, the end is %v", grown, ends)
	}
	if want := d.receiptWanted(cell, before); after.receipt != want && !unrequested {
		t.Errorf("receipt is %q, want %q", after.receipt, want)
	}
	if after.queued && after.running {
		t.Error("both markers are set")
	}
	if (cell.Effect == DoActivate) != (len(d.launched) == 1) {
		t.Errorf("%d launches for effect %s", len(d.launched), cell.Effect)
	}
	if (cell.Effect == DoDeliver || cell.Effect == DoResume) != (len(d.sending) == 1) {
		t.Errorf("%d deliveries for effect %s", len(d.sending), cell.Effect)
	}
	if (cell.Effect == DoCancel) != (len(d.canceled) == 1) {
		t.Errorf("%d cancellations for effect %s", len(d.canceled), cell.Effect)
	}
	if decided := after.decisions - before.decisions; cell.Effect == DoOverlap && decided != 1 {
		t.Errorf("%d decision rows for an overlap", decided)
	}
	d.checkMemory()
}

// situation is what the rows say about one run and its job.
type situation struct {
	phase           Phase
	receipt         string
	queued, running bool
	history         int
	decisions       int
}

func (d *desk) rows(r *Run) situation {
	d.t.Helper()
	var s situation
	for _, status := range d.query(`SELECT status FROM cron_run_receipts WHERE receipt_id = ?`, r.ReceiptID) {
		s.receipt = status
	}
	s.history = len(d.query(`SELECT task_id FROM task_runs WHERE source_id = ?`, r.JobID))
	s.decisions = len(d.query(`SELECT rule FROM rota_slots WHERE job_id = ?`, r.JobID))
	for _, raw := range d.query(`SELECT state_json FROM cron_jobs WHERE job_id = ?`, r.JobID) {
		st, err := store.DecodeState(json.RawMessage(raw))
		if err != nil {
			d.t.Fatal(err)
		}
		s.queued, s.running = st.QueuedAtMs.Set, st.RunningAtMs.Set
	}
	switch {
	case s.receipt == "":
		s.phase = PhaseNone
	case s.receipt != store.ReceiptRunning:
		s.phase = PhaseDone
	case len(d.query(`SELECT receipt_id FROM rota_outbox WHERE receipt_id = ?`, r.ReceiptID)) == 1:
		s.phase = PhaseDelivering
	case s.running:
		s.phase = PhaseActive
	default:
		s.phase = PhaseRequested
	}
	return s
}

// receiptWanted is the receipt status that the table promises.
func (d *desk) receiptWanted(cell Transition, before situation) string {
	switch {
	case cell.Receipt == byOutcome:
		return store.ReceiptOK
	case cell.Receipt != "":
		return cell.Receipt
	case cell.Effect == DoRequest:
		return store.ReceiptRunning
	}
	return before.receipt
}

// apply runs one turn that does only this.
func (d *desk) apply(f func(*turn) error) {
	d.t.Helper()
	if err := d.w.commitTurn(instant{d.nowMs, d.monoMs}, &batch{}, f); err != nil {
		d.t.Fatal(err)
	}
	if d.w.trouble.attempts > 0 {
		d.t.Fatal("the turn failed")
	}
	d.take()
}

// dueRun is the run that the job's deadline would ask for.
func (d *desk) dueRun(id string) *Run {
	d.nowMs = d.job(id).next().N
	t := &turn{edit: new(edit), id: &d.w.id, st: d.w.st, now: d.nowMs, cfg: d.w.cfg}
	return t.timedRun(d.job(id))
}

// runAt brings a run of a job to a phase by the inputs that lead there.
func (d *desk) runAt(id string, phase Phase, timed bool) *Run {
	d.t.Helper()
	t := &turn{edit: new(edit), id: &d.w.id, st: d.w.st, now: d.nowMs, cfg: d.w.cfg}
	r, in := t.manualRun(d.job(id), RunJob{ID: id, Mode: "force", Key: "k"}), InAsked
	if timed {
		r, in = d.dueRun(id), InSlotDue
	}
	path := []Input{in, InPlaceFree, InExecuted, InDelivered}[:phase]
	for _, in := range path {
		d.apply(func(t *turn) error { return t.step(r, in, d.circumstanceOf(r, in)) })
		d.launched, d.canceled, d.sending = nil, nil, nil
		if open, ok := d.w.st.open.Get(id); ok {
			r = open
		} else {
			gone := *r
			gone.Phase = PhaseDone
			r = &gone
		}
	}
	return r
}

// circumstanceOf is what usually comes with an input.
func (d *desk) circumstanceOf(r *Run, in Input) *circumstance {
	switch in {
	case InOutcome:
		return &circumstance{outcome: &Outcome{ReceiptID: r.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: d.nowMs, EndedAtMs: d.nowMs}}
	case InExecuted:
		return &circumstance{outcome: &Outcome{ReceiptID: r.ReceiptID, Status: StatusOK, Kind: KindExit, Summary: "done", StartedAtMs: d.nowMs, EndedAtMs: d.nowMs}}
	case InDelivered:
		return &circumstance{outcome: &Outcome{ReceiptID: r.ReceiptID, Delivery: &DeliveryEnd{Status: Delivered, Answered: 1, EndedAtMs: d.nowMs}}}
	case InUnsent:
		return &circumstance{outcome: &Outcome{ReceiptID: r.ReceiptID, Delivery: &DeliveryEnd{Stopped: true, Answered: 1}}}
	case InRefused, InUnlaunched:
		return &circumstance{outcome: &Outcome{ReceiptID: r.ReceiptID, Status: StatusSkipped, Kind: KindRefused, Error: "disabled"}}
	case InRestartFinalized:
		return &circumstance{row: store.HistoryRow{StartedAtMs: r.ActiveAtMs, EndedAtMs: d.nowMs, Detail: json.RawMessage(`{"status":"ok"}`)}}
	case InStopped, InRemoved:
		return &circumstance{cancel: Cancel{Reason: "stopped"}}
	}
	return nil
}

// spoil makes the job impossible to start, as a file from elsewhere may hold it.
func (d *desk) spoil(id string) {
	d.t.Helper()
	d.apply(func(t *turn) error {
		j, _ := t.st.jobs.Get(id)
		next := *j
		next.Definition = []byte(strings.Replace(string(j.Definition), `"kind":"command"`, `"kind":"heartbeat"`, 1))
		next.kept = nil
		t.wrote = true
		t.putJob(&next)
		return store.UpdateDefinition(t.tx, next.row())
	})
}

// TestRulesDocument keeps the printed list of rules equal to the one in the code.
func TestRulesDocument(t *testing.T) {
	checkDocument(t, "rules.md", rulesDocument())
}

// rulesDocument prints the rules by verdict.
func rulesDocument() string {
	var b strings.Builder
	b.WriteString("# What rota why can answer\n\nGenerated from `worker/rules.go`. Rules and verdicts are only ever added.\n\n| rule | verdict | what it says |\n|---|---|---|\n")
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", rule, rules[rule].Verdict, rules[rule].Text)
	}
	return b.String()
}

// TestLifeDocument keeps the printed table of a run's life equal to the one in
// the code.
func TestLifeDocument(t *testing.T) {
	checkDocument(t, "life.md", lifeDocument())
}

// checkDocument compares a printed table with its document, or writes it anew.
func checkDocument(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("..", "testdata", "worker", name)
	if *rewrite {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(kept) != text {
		t.Errorf("%s is not the table in the code; go test ./worker -run %s -rewrite", path, t.Name())
	}
}

// lifeDocument prints the table, one section a phase, inputs that do nothing
// at the end of each.
func lifeDocument() string {
	var b strings.Builder
	b.WriteString("# The life of a run\n\nGenerated from `worker/life.go`. A cell writes all of its effect in one commit.\n")
	for phase := range phases {
		fmt.Fprintf(&b, "\n## %s\n\n| input | to | effect | receipt | why |\n|---|---|---|---|---|\n", phase)
		var idle []string
		for in := range inputs {
			switch c := life[phase][in]; c.Effect {
			case DoNothing:
				idle = append(idle, fmt.Sprintf("%s (%s)", in, c.Why))
			default:
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", in, c.To, c.Effect, c.Receipt, c.Why)
			}
		}
		fmt.Fprintf(&b, "\nNothing happens on: %s.\n", strings.Join(idle, "; "))
	}
	return b.String()
}
