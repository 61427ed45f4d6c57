package worker

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
	"github.com/rota-scheduler/rota/worker/job"
)

// The delivery of a run's result: whether there is one, what it carries, and
// what its end means. The launcher sends it; nothing here waits.

// silentReply is what a run prints to say that its result is nobody's business.
const silentReply = "NO_REPLY"

// kept is what rota_outbox holds of a run whose delivery is under way.
type kept struct {
	Entry     entry  `json:"entry"`
	Receipt   string `json:"receipt"` // the terminal status to be written
	EndedAtMs int64  `json:"endedAtMs"`
	JobName   string `json:"jobName,omitempty"`
	// BestEffort says that the run counts as succeeded however its delivery ends.
	BestEffort bool `json:"bestEffort,omitempty"`
}

// deliveryOf is where the run's result goes: what the job says when the run
// ends, so that an edit during the run redirects it.
func (t *turn) deliveryOf(r *Run) job.DeliverySpec {
	if r.Gone != nil {
		return r.Gone.delivery
	}
	if j, ok := t.st.jobs.Get(r.JobID); ok {
		return j.def().Delivery
	}
	return job.DeliverySpec{}
}

// sends reports whether an outcome is to be sent. A run that the daemon's stop
// cut short is not: there is nobody left to send it.
func (t *turn) sends(r *Run, o *Outcome) bool {
	return t.deliveryOf(r).Mode == "webhook" && o.Interrupted == "" && suppression(o) == ""
}

// suppression says why a good run has nothing to deliver, "" when it has.
func suppression(o *Outcome) string {
	text := strings.TrimSpace(o.Summary)
	switch {
	case o.Status != StatusOK:
		return ""
	case text == "":
		return "empty"
	case text == silentReply:
		return "silent"
	}
	return ""
}

// deliver keeps a run's result and hands it to the launcher. From here on the
// run needs no place; its job stays held until the delivery has ended.
func (t *turn) deliver(r *Run, o *Outcome) error {
	e, receipt, err := entryOf(r, o)
	if err != nil {
		return err
	}
	name, spec := "", t.deliveryOf(r)
	if j, ok := t.st.jobs.Get(r.JobID); ok {
		name = j.Name
	} else if r.Gone != nil {
		name = r.Gone.name
	}
	result, err := rawjson.Encode(kept{Entry: e, Receipt: receipt, EndedAtMs: o.EndedAtMs, JobName: name, BestEffort: spec.BestEffort})
	if err != nil {
		return err
	}
	row := store.OutboxRow{ReceiptID: r.ReceiptID, JobID: r.JobID, Destination: spec.To, Result: result, AtMs: t.now}
	if err := store.InsertOutbox(t.tx, row); err != nil {
		return err
	}
	next := *r
	next.Phase, next.Canceled = PhaseDelivering, false
	if r.Canceled { // that was about the execution; the delivery may be stopped by itself
		if err := store.NoteReceipt(t.tx, r.ReceiptID, ""); err != nil {
			return err
		}
	}
	t.putRun(&next)
	t.wrote, t.marks.executed = true, true
	return t.send(&next, row)
}

// send hands a kept result to the launcher.
func (t *turn) send(r *Run, row store.OutboxRow) error {
	var k kept
	if err := json.Unmarshal(row.Result, &k); err != nil {
		return err
	}
	body, err := deliveryBody(r, k)
	if err != nil {
		return err
	}
	d := &Deliver{ReceiptID: r.ReceiptID, RunID: r.RunID, JobID: r.JobID, To: row.Destination, Body: body,
		Net: &t.cfg.Net, Answered: row.Answered}
	if t.cfg.tokenGoesTo(row.Destination) {
		d.Token = t.cfg.WebhookToken
	}
	t.orders = append(t.orders, Order{Deliver: d})
	return t.emit(Event{Kind: EventDelivering, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Status: string(k.Entry.Status)})
}

// deliveryBody is the finished event as a webhook gets it. Its completion is
// what will be true once it is read; of the delivery itself nothing is known yet. An error is
// told without the output, which may hold what was not meant to leave.
func deliveryBody(r *Run, k kept) (json.RawMessage, error) {
	e := k.Entry
	e.describe(r)
	e.WaitedMs = 0 // not known after a restart, and every attempt sends the same
	e.DeliveryStatus, e.CompletionStatus = DeliveryUnknown, "failed"
	if e.Status == StatusOK {
		e.CompletionStatus = "succeeded"
	} else {
		e.Summary, e.Diagnostics = "", nil
	}
	detail, err := rawjson.Encode(e)
	if err != nil {
		return nil, err
	}
	return wireEntry(r.JobID, k.EndedAtMs, detail, k.JobName), nil
}

// tokenGoesTo reports whether a destination gets the webhook token: any, or
// one of the hosts that it is bound to.
func (c *Config) tokenGoesTo(destination string) bool {
	u, err := url.Parse(destination)
	if err != nil || c.WebhookToken == "" {
		return false
	}
	return len(c.WebhookTokenHosts) == 0 || slices.Contains(c.WebhookTokenHosts, strings.ToLower(u.Hostname()))
}

// hold counts what was answered before the daemon stops. Nothing is in flight,
// so the next start goes on where this one ended.
func (t *turn) hold(r *Run, end *DeliveryEnd) error {
	t.wrote = true
	return store.HoldOutbox(t.tx, r.ReceiptID, end.Answered)
}

// resend hands a kept result out again after a start.
func (t *turn) resend(r *Run) error {
	row, ok, err := store.OutboxByReceipt(t.tx, r.ReceiptID)
	if err != nil || !ok {
		return err
	}
	t.wrote = true
	if err := store.ReleaseOutbox(t.tx, r.ReceiptID); err != nil {
		return err
	}
	return t.send(r, row)
}

// concludeDelivery ends a run by its kept result and what became of the
// delivery. The run's own status is what its execution was.
func (t *turn) concludeDelivery(r *Run, end *DeliveryEnd) error {
	row, ok, err := store.OutboxByReceipt(t.tx, r.ReceiptID)
	if err != nil || !ok {
		return err
	}
	var k kept
	if err := json.Unmarshal(row.Result, &k); err != nil {
		return err
	}
	if done, err := store.FinishReceipt(t.tx, r.ReceiptID, k.Receipt, max(k.EndedAtMs, r.ActiveAtMs), k.Entry.Error); err != nil || !done {
		return err
	}
	e := k.Entry
	if err := e.deliveredBy(end, row.Destination, k.BestEffort); err != nil {
		return err
	}
	return t.conclude(r, e, k.EndedAtMs, conclusion{})
}

// deliveredBy writes the delivery's end into the entry.
func (e *entry) deliveredBy(end *DeliveryEnd, destination string, bestEffort bool) error {
	got := end.Status == Delivered
	e.Delivered, e.DeliveryStatus, e.DeliveryError = &got, end.Status, end.Error
	e.CompletionStatus = completion(e, bestEffort)
	type target struct {
		Mode  string `json:"mode"`
		To    string `json:"to"`
		OK    *bool  `json:"ok,omitempty"`
		Error string `json:"error,omitempty"`
	}
	to := target{Mode: "webhook", To: withoutQuery(destination)}
	resolved := to
	resolved.OK, resolved.Error = &got, end.Error
	var err error
	e.Delivery, err = rawjson.Encode(struct {
		Intended  target `json:"intended"`
		Resolved  target `json:"resolved"`
		Attempts  int    `json:"attempts,omitempty"`
		Delivered bool   `json:"delivered"`
	}{to, resolved, end.Answered, got})
	return err
}

// withoutQuery is an address as history shows it: a query may carry a secret.
func withoutQuery(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}

// completion is the verdict on execution and delivery together.
func completion(e *entry, bestEffort bool) string {
	switch {
	case e.Status != StatusOK:
		return "failed"
	case bestEffort, e.DeliveryStatus == DeliveryNotRequested, e.DeliveryStatus == "",
		e.DeliveryStatus == Delivered, e.SuppressionReason != "":
		return "succeeded"
	case e.DeliveryStatus == NotDelivered:
		return "failed"
	}
	return "unknown"
}

// sentUnanswered is the end of a delivery that a crash cut off from its answer.
func sentUnanswered() *DeliveryEnd {
	return &DeliveryEnd{Status: DeliveryUnknown, Error: "a send was under way when rota ended; whether it arrived is not known, and it is not sent again"}
}
