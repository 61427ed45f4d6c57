package worker

import (
	"encoding/json"
	"strconv"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// entry is a history entry as detail_json stores it and clients read it.
type entry struct {
	Kind             string          `json:"kind"` // always cron-run
	Status           Status          `json:"status"`
	CompletionStatus string          `json:"completionStatus"` // succeeded, failed, unknown
	Error            string          `json:"error,omitempty"`
	ErrorReason      string          `json:"errorReason,omitempty"`
	Summary          string          `json:"summary,omitempty"`
	Diagnostics      json.RawMessage `json:"diagnostics,omitempty"`
	Delivered        *bool           `json:"delivered,omitempty"`
	DeliveryStatus   DeliveryStatus  `json:"deliveryStatus"`
	DeliveryError    string          `json:"deliveryError,omitempty"`
	// SuppressionReason is why a good run had nothing to deliver: empty, silent.
	SuppressionReason string          `json:"deliverySuppressionReason,omitempty"`
	Delivery          json.RawMessage `json:"delivery,omitempty"`
	StoreKey          string          `json:"storeKey"`
	RunID             string          `json:"runId"`
	RunAtMs           int64           `json:"runAtMs"`
	DurationMs        int64           `json:"durationMs"`
	NextRunAtMs       int64           `json:"nextRunAtMs,omitempty"`

	// rota's own, beside the contract's.
	Trigger      Trigger         `json:"trigger"`
	StartedAtMs  int64           `json:"startedAtMs,omitempty"`  // wall time just after the process existed
	SlotMs       int64           `json:"slotMs,omitempty"`       // timed runs: the natural slot
	LateMs       *int64          `json:"lateMs,omitempty"`       // started − slot
	OriginSlotMs int64           `json:"originSlotMs,omitempty"` // retries: the natural slot that failed first
	Attempt      int             `json:"attempt,omitempty"`
	WaitedMs     int64           `json:"waitedMs,omitempty"` // request to activation
	Output       *Output         `json:"output,omitempty"`
	Reason       string          `json:"reason,omitempty"`      // skips: why
	Interrupted  json.RawMessage `json:"interrupted,omitempty"` // {reason, process}
}

// diagnosticsLimit is how many entries, and how many characters of each and of
// the summary, a history entry keeps.
const (
	diagnosticEntries = 10
	diagnosticChars   = 1000
	summaryChars      = 2000
)

// diagnosticsOf renders the diagnostics object within its limits; nil when
// there is nothing to say.
func diagnosticsOf(summary string, entries []Diagnostic) (json.RawMessage, error) {
	if summary == "" && len(entries) == 0 {
		return nil, nil
	}
	if len(entries) > diagnosticEntries {
		entries = entries[:diagnosticEntries]
	}
	kept := make([]Diagnostic, 0, len(entries))
	for _, e := range entries {
		if text, cut := cutText(e.Message, diagnosticChars); cut {
			e.Message, e.Truncated = text, true
		}
		kept = append(kept, e)
	}
	short, _ := cutText(summary, summaryChars)
	return rawjson.Encode(struct {
		Summary string       `json:"summary,omitempty"`
		Entries []Diagnostic `json:"entries"`
	}{short, kept})
}

// cutText keeps the first n characters.
func cutText(s string, n int) (string, bool) {
	count := 0
	for i := range s {
		if count == n {
			return s[:i], true
		}
		count++
	}
	return s, false
}

// taskStatus is the status word of task_runs for an entry.
func (e *entry) taskStatus() string {
	switch {
	case e.Status == StatusOK && e.CompletionStatus == "succeeded":
		return "succeeded"
	case e.Status == StatusError && e.ErrorReason == "timeout":
		return "timed_out"
	}
	return "failed"
}

// describe completes an entry with what its run is.
func (e *entry) describe(r *Run) {
	e.Kind, e.RunID, e.Trigger, e.SlotMs, e.OriginSlotMs = "cron-run", r.RunID, r.Trigger, r.SlotMs, r.OriginSlotMs
	if r.ActiveAtMs != 0 {
		e.Attempt, e.WaitedMs = max(1, r.Attempt), max(0, r.ActiveAtMs-r.RequestedAtMs)
	}
	if e.StartedAtMs != 0 && r.timed() {
		late := e.StartedAtMs - r.SlotMs
		e.LateMs = &late
	}
}

// record writes the history row of a run that ended and tells the world. It
// completes the entry with what the ledger knows of the run.
func (t *turn) record(r *Run, e entry, endedAtMs int64) error {
	e.StoreKey = t.id.storeKey
	e.describe(r)
	if e.DeliveryStatus == "" {
		e.DeliveryStatus = DeliveryNotRequested
	}
	if e.RunAtMs == 0 {
		e.RunAtMs = endedAtMs
	}
	agent, name := "", ""
	if j, ok := t.st.jobs.Get(r.JobID); ok {
		e.NextRunAtMs, agent, name = j.next().N, j.def().AgentID, j.Name
	} else if r.Gone != nil {
		agent, name = r.Gone.agentID, r.Gone.name
	}
	detail, err := rawjson.Encode(e)
	if err != nil {
		return err
	}
	public := ""
	if !r.timed() {
		public = r.RunID
	}
	t.wrote, t.marks.ended = true, true
	if _, known := t.st.grown.Get(r.JobID); !known {
		t.st.grown = t.st.grown.Put(t.edit, r.JobID, struct{}{})
	}
	nth := int64(0)
	if r.ActiveAtMs == 0 { // nothing ran: the same attempt may be refused again in this very millisecond
		nth = t.st.seq
	}
	taskID := store.TaskID(r.ReceiptID, e.RunAtMs, nth)
	err = store.InsertHistory(t.tx, store.HistoryRow{
		TaskID: taskID, JobID: r.JobID, AgentID: agent,
		RunID:  store.InternalRunID(r.JobID, e.RunAtMs, r.ReceiptID, public),
		Status: e.taskStatus(), StartedAtMs: e.RunAtMs, EndedAtMs: endedAtMs,
		CleanupMs: endedAtMs + int64(t.cfg.HistoryDays)*dayMs,
		Error:     e.Error, Summary: e.Summary, Detail: detail,
	})
	if err != nil {
		return err
	}
	t.countRows(r.JobID, 1)
	return t.emit(Event{Kind: EventFinished, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Status: string(e.Status),
		Detail: wireEntry(r.JobID, endedAtMs, detail, name), stored: endRef{taskID, name}.json()})
}

const dayMs = 86_400_000

// nothingIntended is the delivery of a run that had none to make, as clients
// read it; rows leave it out.
var nothingIntended = json.RawMessage(`{"intended":{"source":"explicit"}}`)

// wireEntry is a stored detail as clients read it: what only storage needs is
// left out, what is known from the row is put in front, and the job's name comes
// last.
func wireEntry(jobID string, endedAtMs int64, detail json.RawMessage, jobName string) json.RawMessage {
	b := make([]byte, 0, len(detail)+len(jobID)+len(jobName)+128)
	b = strconv.AppendInt(append(b, `{"ts":`...), endedAtMs, 10)
	b = rawjson.AppendString(append(b, `,"jobId":`...), jobID)
	b = append(b, `,"action":"finished"`...)
	known := []string{"kind", "storeKey", "ts", "jobId", "action", "jobName"}
	if jobName == "" {
		known = known[:len(known)-1]
	}
	b = rawjson.AppendWithout(b, detail, known...)
	if rawjson.Get(detail, "delivery") == nil && string(rawjson.Get(detail, "deliveryStatus")) == `"not-requested"` {
		b = append(append(b, `,"delivery":`...), nothingIntended...)
	}
	if jobName != "" {
		b = rawjson.AppendString(append(b, `,"jobName":`...), jobName)
	}
	return append(b, '}')
}

// editNonce marks a schedule edit made during a run.
func editNonce(seq int64) string { return "rota-" + strconv.FormatInt(seq, 10) }
