package worker

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Event kinds are an append-only catalogue.
const (
	EventJobAdded    = "job.added"
	EventJobUpdated  = "job.updated"
	EventJobRemoved  = "job.removed"
	EventRequested   = "run.requested"  // a request is committed; nothing has started
	EventStarted     = "run.started"    // activation is committed; the launcher has it next
	EventDelivering  = "run.delivering" // executed; the result is committed and its delivery begins
	EventFinished    = "run.finished"   // terminal, whatever the status; Detail is the history entry
	EventSkippedSlot = "slot.skipped"   // slots decided against; Detail names the rule
	EventRecovered   = "recovery"       // what a start found and did, in all and with each restored run
	EventWarning     = "warning"        // a job was set aside, or turned off by its failures
	EventNoted       = "noted"          // a commit that changed only deadlines
	EventClockJump   = "clock.jump"     // wall time ran ahead: the machine slept, or the clock was set forward
	EventClockBack   = "clock.back"     // wall time was wrong before: marks and deadlines are recomputed from now
	EventRetimed     = "jobs.retimed"   // deadlines ahead were recomputed: zone rules changed, or they were off their schedule
	EventProcess     = "run.process"    // a run's process exists; published, not stored, and without a seq
)

// Event is one committed fact. Seq is unique and rises with the commits.
type Event struct {
	Seq    int64           `json:"seq"`
	AtMs   int64           `json:"at"`
	Kind   string          `json:"kind"`
	JobID  string          `json:"jobId,omitempty"`
	RunID  string          `json:"runId,omitempty"`
	SlotMs int64           `json:"slotMs,omitempty"`
	Status string          `json:"status,omitempty"`
	Detail json.RawMessage `json:"detail,omitempty"` // an object; for run.finished the history entry
	// Job is the job after the commit; nil when it is gone or not concerned.
	// It is not part of the stored event.
	Job *Job `json:"-"`
	// stored is what the ledger keeps instead of Detail; nil = Detail itself.
	stored json.RawMessage
}

// row is the event as its table row.
func (e *Event) row() store.EventRow {
	detail := e.Detail
	if e.stored != nil {
		detail = e.stored
	}
	return store.EventRow{Seq: e.Seq, AtMs: e.AtMs, Kind: e.Kind, JobID: e.JobID, RunID: e.RunID, SlotMs: e.SlotMs,
		Status: e.Status, Detail: detail}
}

// endRef is what the ledger keeps of the end of a run: the history row that
// tells it, and the job's name at that time.
type endRef struct {
	Task    string `json:"task"`
	JobName string `json:"jobName,omitempty"`
}

func (r endRef) json() json.RawMessage {
	b := rawjson.AppendString(append(make([]byte, 0, 80), `{"task":`...), r.Task)
	if r.JobName != "" {
		b = rawjson.AppendString(append(b, `,"jobName":`...), r.JobName)
	}
	return append(b, '}')
}

// eventOf is a stored event as it was published. Where retention has taken the
// history row of an end, what the event itself knows is left.
func eventOf(r store.EventRow) Event {
	e := Event{Seq: r.Seq, AtMs: r.AtMs, Kind: r.Kind, JobID: r.JobID, RunID: r.RunID, SlotMs: r.SlotMs, Status: r.Status, Detail: r.Detail}
	var ref endRef
	if r.Kind != EventFinished || json.Unmarshal(r.Detail, &ref) != nil || ref.Task == "" {
		return e
	}
	e.stored = r.Detail
	if r.Task != nil {
		e.Detail = wireEntry(r.JobID, r.Task.EndedAtMs, r.Task.Detail, ref.JobName)
		return e
	}
	rest, err := rawjson.Encode(entry{Status: Status(r.Status), RunID: r.RunID, SlotMs: r.SlotMs})
	if err == nil {
		e.Detail = wireEntry(r.JobID, r.AtMs, rest, ref.JobName)
	}
	return e
}
