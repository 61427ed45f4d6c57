package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const toHook = `,"delivery":{"mode":"webhook","to":"https://hooks.example/run?key=hidden"}`

// ran ends the newest launch well, with some output.
func (d *desk) ran(summary string) {
	d.t.Helper()
	l := d.last()
	d.w.outcomes.put(Outcome{ReceiptID: l.ReceiptID, Status: StatusOK, Kind: KindExit, Summary: summary,
		StartedAtMs: l.RunAtMs, EndedAtMs: d.nowMs, DurationMs: d.nowMs - l.RunAtMs})
	d.turn()
}

// answer ends the newest delivery.
func (d *desk) answer(status DeliveryStatus, text string) {
	d.t.Helper()
	s := d.sending[len(d.sending)-1]
	d.w.outcomes.put(Outcome{ReceiptID: s.ReceiptID, Delivery: &DeliveryEnd{Status: status, Error: text, Answered: 1, EndedAtMs: d.nowMs}})
	d.turn()
}

// history is what clients read of a job's ended runs: status, completion and
// what became of the delivery.
func (d *desk) history(id string) []string {
	d.t.Helper()
	return d.query(`SELECT detail_json ->> '$.status' || ' ' || (detail_json ->> '$.completionStatus') || ' ' ||
		(detail_json ->> '$.deliveryStatus') || coalesce(' ' || (detail_json ->> '$.deliverySuppressionReason'), '')
		FROM task_runs WHERE source_id = ? ORDER BY ended_at, task_id`, id)
}

func (d *desk) wantHistory(id string, want ...string) {
	d.t.Helper()
	if got := d.history(id); strings.Join(got, "; ") != strings.Join(want, "; ") {
		d.t.Errorf("history of %s: %v, want %v", id, got, want)
	}
}

// outbox counts the results that wait for the end of their delivery.
func (d *desk) outbox() int {
	d.t.Helper()
	return len(d.query(`SELECT receipt_id FROM rota_outbox`))
}

// delivering is a desk with one job whose run has ended and whose result is
// being delivered.
func delivering(t *testing.T, more ...string) *desk {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.add("j", everyMinute, append([]string{toHook}, more...)...)
	d.advance(time.Minute)
	d.ran("42 files")
	if len(d.sending) != 1 || d.outbox() != 1 || len(d.history("j")) != 0 {
		t.Fatalf("%d deliveries, %d results kept, history %v", len(d.sending), d.outbox(), d.history("j"))
	}
	return d
}

// TestTheResultIsCommittedBeforeItIsSent, with all that the receiver needs and
// nothing that it must not see.
func TestTheResultIsCommittedBeforeItIsSent(t *testing.T) {
	d := delivering(t)
	s := d.sending[0]
	if s.To != "https://hooks.example/run?key=hidden" || s.RunID != d.last().RunID || s.Token != "" {
		t.Errorf("sent to %s for %s with a token: %v", s.To, s.RunID, s.Token != "")
	}
	var body struct {
		JobID, Action, Status, CompletionStatus, Summary, JobName, RunID, Trigger string
		RunAtMs, SlotMs, Ts                                                       int64
	}
	if err := json.Unmarshal(s.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.JobID != "j" || body.Action != "finished" || body.Status != "ok" || body.CompletionStatus != "succeeded" ||
		body.Summary != "42 files" || body.JobName != "j" || body.RunID != s.RunID || body.SlotMs != at(t, "2026-10-01T12:00:00Z") {
		t.Errorf("the body is %s", s.Body)
	}
	d.answer(Delivered, "")
	d.wantHistory("j", "ok succeeded delivered")
	if d.outbox() != 0 {
		t.Error("the result is still kept")
	}
	st := *d.job("j").state()
	if string(st.LastDelivered) != "true" || st.LastDeliveryStatus != "delivered" || st.LastDeliveryError != "" {
		t.Errorf("state %s", d.job("j").State)
	}
	stored := strings.Join(d.query(`SELECT detail_json FROM task_runs`), "")
	if strings.Contains(stored, "hidden") || !strings.Contains(stored, `"to":"https://hooks.example/run"`) {
		t.Errorf("history shows the secret of the address, or no address: %s", stored)
	}
}

// TestAnErrorIsDeliveredWithoutItsOutput, which may hold anything.
func TestAnErrorIsDeliveredWithoutItsOutput(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.add("j", everyMinute, toHook)
	d.advance(time.Minute)
	l := d.last()
	d.w.outcomes.put(Outcome{ReceiptID: l.ReceiptID, Status: StatusError, Kind: KindExit, Error: "command exited with code 3", ErrorReason: "unknown",
		Summary: "secret words", Diagnostics: []Diagnostic{{Message: "secret words"}}, EndedAtMs: d.nowMs})
	d.turn()
	if body := string(d.sending[0].Body); strings.Contains(body, "secret") || !strings.Contains(body, "code 3") {
		t.Errorf("the body is %s", body)
	}
	d.answer(Delivered, "")
	d.wantHistory("j", "error failed delivered")
	d.wantNext("j", "2026-10-01T12:01:00.000Z")
	if n := d.job("j").state().ConsecutiveErrors.N; n != 1 {
		t.Errorf("%d consecutive errors", n)
	}
}

// TestNothingToSay: a good run that printed nothing, or only that it has
// nothing to say, is complete without being delivered.
func TestNothingToSay(t *testing.T) {
	for _, c := range []struct{ summary, reason string }{{"", "empty"}, {" \n", "empty"}, {"NO_REPLY\n", "silent"}} {
		t.Run(c.reason+fmt.Sprintf("%q", c.summary), func(t *testing.T) {
			d := deskAt(t, "2026-10-01T11:59:00Z")
			d.add("j", everyMinute, toHook)
			d.advance(time.Minute)
			d.ran(c.summary)
			if len(d.sending) != 0 {
				t.Error("something was sent")
			}
			d.wantHistory("j", "ok succeeded not-delivered "+c.reason)
			if got := d.job("j").state().LastSuppressionReason; got != c.reason {
				t.Errorf("the job says %q", got)
			}
		})
	}
}

// TestCase057AFailedDeliveryIsNoFailedRun: the run is ok, the streak stays
// empty, the timetable as it is, and the job says what was not delivered.
func TestCase057AFailedDeliveryIsNoFailedRun(t *testing.T) {
	d := delivering(t)
	d.answer(NotDelivered, "the receiver answered 503 four times")
	d.wantHistory("j", "ok failed not-delivered")
	j := d.job("j")
	if j.state().LastOutcome() != "ok" || j.state().ConsecutiveErrors.N != 0 || j.state().LastDeliveryStatus != "not-delivered" ||
		j.state().LastDeliveryError != "the receiver answered 503 four times" {
		t.Errorf("state %s", j.State)
	}
	d.wantNext("j", "2026-10-01T12:01:00.000Z")
	if got := d.query(`SELECT status FROM task_runs`); got[0] != "failed" {
		t.Errorf("the row says %v", got)
	}
}

// TestAOneShotIsDeletedOnlyWhenItsResultArrived, unless the delivery was a
// best effort.
func TestAOneShotIsDeletedOnlyWhenItsResultArrived(t *testing.T) {
	for _, c := range []struct {
		end        DeliveryStatus
		bestEffort bool
		deleted    bool
	}{{Delivered, false, true}, {NotDelivered, false, false}, {DeliveryUnknown, false, false}, {NotDelivered, true, true}} {
		t.Run(fmt.Sprint(c.end, c.bestEffort), func(t *testing.T) {
			d := deskAt(t, "2026-10-01T11:59:00Z")
			hook := strings.Replace(toHook, `"mode"`, fmt.Sprintf(`"bestEffort":%v,"mode"`, c.bestEffort), 1)
			d.add("j", `{"kind":"at","at":"2026-10-01T12:00:00Z"}`, `,"deleteAfterRun":true`, hook)
			d.advance(time.Minute)
			d.ran("done")
			if j := d.job("j"); !j.Enabled {
				t.Error("disabled before its delivery has ended")
			}
			d.answer(c.end, "")
			j, kept := d.w.Snapshot().Job("j")
			if kept == c.deleted || kept && (j.Enabled || j.next().Set) {
				t.Errorf("kept %v", kept)
			}
		})
	}
}

// TestADeliveryHoldsItsJobAndNoPlace.
func TestADeliveryHoldsItsJobAndNoPlace(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.cfg.MaxConcurrent, d.cfg.Version = 1, 2
	d.w.Configure(d.cfg)
	d.add("j", everyMinute, toHook)
	d.add("k", everyMinute)
	d.advance(time.Minute)
	d.ran("done") // j ran first: k was waiting for the place
	if l := d.last(); l.JobID != "k" {
		t.Errorf("the place went to %s", l.JobID)
	}
	d.advance(time.Minute)
	if got := d.decisions("j"); len(got) != 1 || !strings.HasPrefix(got[0], "overlap") {
		t.Errorf("the slot during the delivery: %v", got)
	}
	if a := must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "x"}); a.Reason != "already-running" {
		t.Errorf("a manual run during the delivery: %+v", a)
	}
	why := must[Why](d, WhyQuery{JobID: "j", AtMs: at(t, "2026-10-01T12:00:00Z")})
	if last := why.Decisions[len(why.Decisions)-1]; last.Rule != string(RuleDelivering) {
		t.Errorf("why: %+v", why.Decisions)
	}
	d.answer(Delivered, "")
	d.advance(time.Minute)
	d.wantHistory("j", "ok succeeded delivered")
}

// TestCase060ACrashAroundTheSend: what was certainly not sent is sent after the
// start, once and with the same body; what may have arrived is unknown, and is
// not sent again. The execution is never repeated.
func TestCase060ACrashAroundTheSend(t *testing.T) {
	for _, c := range []struct {
		name  string
		start Options
		again bool
	}{
		{"before the first send", Options{LogID: "log"}, true},
		{"a send under way", Options{LogID: "log", Logged: []Logged{{Sends: 1}}}, false},
		{"another boot", Options{LogID: "log", BootID: "boot-2"}, false},
		{"another launch log", Options{LogID: "new"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := delivering(t)
			body, launches := string(d.sending[0].Body), len(d.launched)
			for i := range c.start.Logged {
				c.start.Logged[i].ReceiptID, c.start.Logged[i].BootID = d.sending[0].ReceiptID, "boot-1"
			}
			d.crash()
			d.open(c.start)
			if !c.again {
				d.wantHistory("j", "ok unknown unknown")
				if len(d.sending) != 1 || d.outbox() != 0 {
					t.Errorf("%d deliveries, %d results kept", len(d.sending), d.outbox())
				}
				return
			}
			if len(d.sending) != 2 || string(d.sending[1].Body) != body {
				t.Fatalf("%d deliveries", len(d.sending))
			}
			d.crash() // once more, before anything was sent
			d.open(c.start)
			d.answer(Delivered, "")
			d.wantHistory("j", "ok succeeded delivered")
			if len(d.launched) != launches {
				t.Error("executed again")
			}
		})
	}
}

// TestAStopBetweenTwoAttempts: the next start goes on after those that were
// answered.
func TestAStopBetweenTwoAttempts(t *testing.T) {
	d := delivering(t)
	id := d.sending[0].ReceiptID
	d.w.outcomes.put(Outcome{ReceiptID: id, Delivery: &DeliveryEnd{Stopped: true, Answered: 2}})
	d.turn()
	d.crash()
	d.open(Options{LogID: "log", Logged: []Logged{{ReceiptID: id, BootID: "boot-1", Sends: 2}}})
	if len(d.sending) != 2 || d.sending[1].Answered != 2 {
		t.Fatalf("%d deliveries, %+v", len(d.sending), d.sending[len(d.sending)-1])
	}
	d.answer(NotDelivered, "refused")
	d.wantHistory("j", "ok failed not-delivered")
}

// TestAHeldResultSurvivesAReboot: a stop in order left nothing in flight, so
// neither the boot nor the launch log is asked.
func TestAHeldResultSurvivesAReboot(t *testing.T) {
	for _, o := range []Options{{LogID: "log", BootID: "boot-2"}, {LogID: "new"}} {
		d := delivering(t)
		d.w.outcomes.put(Outcome{ReceiptID: d.sending[0].ReceiptID, Delivery: &DeliveryEnd{Stopped: true, Answered: 1}})
		d.turn()
		d.crash()
		d.open(o)
		if len(d.sending) != 2 || d.sending[1].Answered != 1 {
			t.Fatalf("%d deliveries", len(d.sending))
		}
		d.crash() // and now sends may be under way again
		d.open(Options{LogID: "other"})
		d.wantHistory("j", "ok unknown unknown")
	}
}

// TestAStrayResultIsForgotten: another program ended its run while rota was down.
func TestAStrayResultIsForgotten(t *testing.T) {
	d := delivering(t)
	d.exec(`UPDATE cron_run_receipts SET status = 'interrupted', finished_at_ms = 1 WHERE status = 'running'`)
	d.exec(`UPDATE cron_jobs SET state_json = json_remove(state_json, '$.runningAtMs', '$.runningReceiptId')`)
	d.crash()
	d.open(Options{LogID: "log"})
	if d.outbox() != 0 || len(d.sending) != 1 {
		t.Errorf("%d results kept, %d deliveries", d.outbox(), len(d.sending))
	}
}

// TestAnOperatorsWordDuringADelivery ends it: the run stays what it was.
func TestAnOperatorsWordDuringADelivery(t *testing.T) {
	for _, how := range []string{"stop", "remove", "stop, then a crash"} {
		t.Run(how, func(t *testing.T) {
			d := delivering(t)
			id := d.sending[0].ReceiptID
			if how == "remove" {
				if r := must[Removed](d, RemoveJob{ID: "j"}); !r.CleanupPending {
					t.Error("the answer does not say that a clean-up is pending")
				}
			} else {
				must[struct{}](d, StopRun{RunID: d.last().RunID})
			}
			if len(d.canceled) != 1 || d.canceled[0].ReceiptID != id {
				t.Fatalf("canceled %v", d.canceled)
			}
			if how == "stop, then a crash" {
				d.crash()
				d.open(Options{LogID: "log"})
			} else {
				d.answer(NotDelivered, "stopped by an operator")
			}
			d.wantHistory("j", "ok failed not-delivered")
			if len(d.sending) != 1 || d.outbox() != 0 {
				t.Errorf("%d deliveries, %d results kept", len(d.sending), d.outbox())
			}
		})
	}
}

// TestTheTokenGoesWhereItMay: to any webhook, or to the hosts it is bound to.
// Nothing prints it.
func TestTheTokenGoesWhereItMay(t *testing.T) {
	for _, c := range []struct {
		hosts []string
		to    string
		want  bool
	}{
		{nil, "https://hooks.example/x", true},
		{[]string{"hooks.example"}, "https://HOOKS.example:8443/x", true},
		{[]string{"hooks.example"}, "https://evil.example/hooks.example", false},
		{[]string{"hooks.example"}, "https://hooks.example.evil.example/", false},
	} {
		cfg := Config{WebhookToken: "s3cret", WebhookTokenHosts: c.hosts}
		if got := cfg.tokenGoesTo(c.to); got != c.want {
			t.Errorf("the token of %v goes to %s: %v", c.hosts, c.to, got)
		}
		raw, err := json.Marshal(cfg)
		if err != nil || strings.Contains(string(raw)+fmt.Sprintf("%v %+v %#v %s %q", cfg, cfg, cfg, cfg.WebhookToken, cfg.WebhookToken), "s3cret") {
			t.Errorf("the token is printed: %s %v", raw, err)
		}
	}
}
