package worker

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// why gives the rules that answer a question, in order.
func (d *desk) why(id, instant string) string {
	d.t.Helper()
	q := WhyQuery{JobID: id}
	if instant != "" {
		q.AtMs = at(d.t, instant)
	}
	var rules []string
	for _, decision := range must[Why](d, q).Decisions {
		rules = append(rules, decision.Rule)
	}
	return strings.Join(rules, " ")
}

// TestWhyNothingHappens is what people ask after the fact and in the middle of
// it: the answer does not change because the job was turned on again, a manual
// run is no slot, and what holds the job now is told beside its last slot.
func TestWhyNothingHappens(t *testing.T) {
	d := deskAt(t, "2026-10-01T12:00:30Z")
	d.add("j", everyMinute)
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	d.end(d.last(), StatusOK)
	if got := d.why("j", ""); got != "future" {
		t.Errorf("after a manual run: %s", got)
	}
	d.advance(time.Minute)
	d.end(d.last(), StatusOK)
	if got := d.why("j", ""); got != "due finished" {
		t.Errorf("after a slot: %s", got)
	}
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":false}`), Reason: "holidays"})
	d.advance(3 * time.Minute)
	if got := d.why("j", ""); got != "due finished disabled" {
		t.Errorf("while it is off: %s", got)
	}
	if got := d.why("j", "2026-10-01T12:03:00Z"); got != "disabled" {
		t.Errorf("a slot of that time: %s", got)
	}
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":true}`)})
	if got := d.why("j", "2026-10-01T12:03:00Z"); got != "disabled" {
		t.Errorf("the same slot, once it is on again: %s", got)
	}
	if got := d.why("j", "2026-10-01T12:03:30Z"); got != "not-a-slot" {
		t.Errorf("between two slots: %s", got)
	}
	d.cfg.Enabled, d.cfg.Version = false, 2
	d.w.Configure(d.cfg)
	d.turn()
	if got := d.why("j", ""); !strings.HasSuffix(got, " off") && got != "disabled off" {
		t.Errorf("while schedules are off: %s", got)
	}
}

// TestWhyTakesASecondForItsSlot: slots of an interval carry milliseconds that
// nobody types.
func TestWhyTakesASecondForItsSlot(t *testing.T) {
	d := deskAt(t, "2026-10-01T12:00:30.893Z")
	d.add("j", `{"kind":"every","everyMs":60000}`)
	d.advance(time.Minute)
	d.end(d.last(), StatusOK)
	if got := d.why("j", "2026-10-01T12:01:30Z"); got != "due finished" {
		t.Errorf("%s", got)
	}
}
