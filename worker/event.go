package worker

import "encoding/json"

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
}
