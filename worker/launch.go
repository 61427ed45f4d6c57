package worker

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/worker/job"
)

// Trigger says why a run exists. The values are part of the history entry.
type Trigger string

const (
	TriggerTimer   Trigger = "timer"    // its slot came due while the daemon was running
	TriggerCatchUp Trigger = "catch-up" // its slot was missed and is run late on purpose
	TriggerManual  Trigger = "manual"   // somebody asked for it
	TriggerRetry   Trigger = "retry"    // a failed run is tried again
	TriggerEvent   Trigger = "event"    // a watched source fired
)

// Launch is one run whose activation is committed, handed to the launcher
// exactly once. Its payload is frozen: a later edit of the job does not reach
// it.
type Launch struct {
	ReceiptID string  // the ledger's key of this run; opaque
	RunID     string  // the public id: what cron.run answered and cron.runs shows
	JobID     string  // may name a job that is removed before the run ends
	JobName   string  // as it was at activation
	Trigger   Trigger // why it runs
	SlotMs    int64   // the natural slot, Unix ms; 0 for manual and event runs
	RunAtMs   int64   // wall time of the activation, Unix ms
	Attempt   int     // from 1
	Mode      string  // manual runs: "due", "force" or "if-enabled"; empty otherwise
	Payload   job.Payload
	// Net says where an http payload may connect; it is the configuration's at
	// activation, shared and not to be changed.
	Net *NetPolicy
}

// Deliver is the result of one run whose delivery is under way: the execution
// result is committed, and so no send is ever for a run that could be undone.
// It holds its job, and no execution place.
type Deliver struct {
	ReceiptID string
	RunID     string // also the idempotency key of every attempt
	JobID     string
	To        string          // http or https URL
	Body      json.RawMessage // the finished event
	Token     Secret          // bearer token; empty where the destination gets none
	Net       *NetPolicy
	// Answered is how many attempts an earlier daemon made and had answered.
	Answered int
}

// DeliveryStatus is what became of a delivery, as the history tells it.
type DeliveryStatus string

const (
	DeliveryNotRequested DeliveryStatus = "not-requested" // nothing was to be sent
	Delivered            DeliveryStatus = "delivered"     // the receiver answered 2xx
	NotDelivered         DeliveryStatus = "not-delivered" // refused, unreachable, or nothing to say
	DeliveryUnknown      DeliveryStatus = "unknown"       // sent, and the answer is not known
)

// DeliveryEnd is the end of a delivery as the launcher saw it.
type DeliveryEnd struct {
	Status DeliveryStatus // Delivered, NotDelivered or DeliveryUnknown
	// Stopped says that the daemon stops between two attempts: nothing is in
	// flight, Status means nothing, and the next start goes on after Answered.
	Stopped   bool
	Answered  int    // attempts that were answered, or certainly never reached the receiver
	HTTPCode  int    // of the last answer; 0 when there was none
	Error     string // why it was not delivered; one sentence, empty when it was
	EndedAtMs int64  // wall time
}

// NeedsEnabled reports whether the job must still be enabled at the live
// check. A forced run may run a disabled job.
func (l *Launch) NeedsEnabled() bool { return l.Mode != "force" }

// Status is how a run ended, as the history tells it.
type Status string

const (
	StatusOK      Status = "ok"
	StatusError   Status = "error"
	StatusSkipped Status = "skipped"
)

// Process identifies an operating-system process beyond the reuse of its pid.
type Process struct {
	BootID    string `json:"bootId"`    // which boot of the machine
	PID       int    `json:"pid"`       // valid within that boot only together with StartTime
	StartTime int64  `json:"startTime"` // the kernel's start time of that pid, in the kernel's own unit
}

// Diagnostic is one entry of a run's diagnostics.
type Diagnostic struct {
	TsMs      int64  `json:"ts"`
	Source    string `json:"source"`   // cron-preflight, cron-setup, exec, delivery
	Severity  string `json:"severity"` // info, warn, error
	Message   string `json:"message"`
	ExitCode  *int   `json:"exitCode,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// Outcome is the end of a run as the launcher saw it. It is offered until a
// commit names the run; a second outcome of the same run is ignored.
type Outcome struct {
	ReceiptID string
	Status    Status
	// Interrupted is why a run was cut short from outside ("shutdown"); its
	// status is then error and the ledger says interrupted.
	Interrupted string
	// Error is one sentence; empty when ok.
	Error string
	// ErrorReason is a word of the failure catalogue ("timeout", "unknown", …); empty when ok.
	ErrorReason string
	// Kind tells the ways a run ends apart, see the Kind constants.
	Kind string
	// Summary is the captured output as people read it.
	Summary     string
	Diagnostics []Diagnostic
	StartedAtMs int64    // wall time just after the process existed; 0 = it never did
	EndedAtMs   int64    // wall time of the end
	DurationMs  int64    // monotonic, from the start of the launch to the end
	Process     *Process // nil when there never was one
	Output      *Output  // nil when nothing ran
	// Delivery is set alone, beside ReceiptID: the run had ended before, and
	// this is the end of its delivery.
	Delivery *DeliveryEnd
}

// Ways a run ends.
const (
	KindExit            = "exit"              // by itself, with a code
	KindSignal          = "signal"            // by a signal that rota did not send
	KindTimeout         = "timeout"           // it ran longer than it may
	KindNoOutputTimeout = "no-output-timeout" // it was silent longer than it may
	KindSpawnError      = "spawn-error"       // there never was a process
	KindStopped         = "stopped"           // an operator stopped it
	KindRemoved         = "removed"           // its job was removed
	KindShutdown        = "shutdown"          // the daemon stopped and its grace was over
	KindRefused         = "refused"           // the live check said no; nothing was started
	KindHTTP            = "http"              // a request was answered, with whatever status
	KindNetwork         = "network"           // a request had no answer
	KindBlocked         = "blocked"           // the address may not be reached; nothing was sent
)

// Output counts what a run printed.
type Output struct {
	StdoutBytes  int64 `json:"stdoutBytes"`
	StderrBytes  int64 `json:"stderrBytes"`
	DroppedBytes int64 `json:"droppedBytes,omitempty"`
}

// Cancel asks the launcher to end one active run.
type Cancel struct {
	ReceiptID string
	Reason    string // "stopped" or "removed"
	Message   string // a sentence for the run's error
}

// Progress tells the worker that a run's process exists. It is published and
// not kept: recovery reads the launch log.
type Progress struct {
	ReceiptID   string
	StartedAtMs int64
	Process     Process
}

// Logged is what the launch log says about one run: read once at start, used
// by recovery only.
type Logged struct {
	ReceiptID string
	BootID    string   // boot in which the launch was announced
	Process   *Process // nil: announced, and no process was noted
	Alive     bool     // the same process is still running now
	Sends     int      // delivery attempts announced
}
