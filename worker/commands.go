package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rota-scheduler/rota/worker/job"
)

// Commands are what hosts ask of the worker. Each is applied in one turn, in
// its own savepoint, and answered only after the turn's commit. A refusal is a
// *job.Error and changes nothing.

// AddJob creates a job, or converges the one with the same declaration key.
type AddJob struct {
	// ID is the new job's id, made by the caller: the turn uses no randomness.
	ID string
	// Params are the parameters of cron.add, as received.
	Params json.RawMessage
}

// Added answers AddJob.
type Added struct {
	Job     *Job
	Keyed   bool // a declaration key was given: the wire answer is then {created, updated?, job}
	Created bool
	Updated bool     // the declared job differed and was changed
	Notes   []string // what bites: defaults that were filled in
}

// UpdateJob patches one job.
type UpdateJob struct {
	ID               string
	Patch            json.RawMessage
	ExpectedRevision string // empty = any
	// Stop also aborts an active run; Reason is kept with a disable and shown.
	Stop   bool
	Reason string
}

// RemoveJob removes one job; its history stays.
type RemoveJob struct{ ID string }

// Removed answers RemoveJob.
type Removed struct {
	CleanupPending bool // a run was active: it was asked to end and is recorded when it has
}

// RunJob asks for one manual run.
type RunJob struct {
	ID   string
	Mode string // "due", "force" or "if-enabled"
	// Key makes the request repeatable: the same key gives the same run, also
	// after its end. The caller makes one where the user gave none.
	Key string
	// Given says that the user gave Key.
	Given bool
}

// RunAnswer answers RunJob: either RunID of a committed request, or the reason
// why there is none.
type RunAnswer struct {
	RunID  string
	Reason string // "not-due", "already-running", "disabled", "invalid-spec", "stopped", "ownerless"
	// OpenRunID names the run in the way when Reason is "already-running".
	OpenRunID string
}

// StopRun aborts one active run, or skips a queued one.
type StopRun struct{ RunID string }

// ApplyJobs applies a jobs file: all of it or nothing, by declaration key. An
// unchanged job writes nothing.
type ApplyJobs struct {
	Source string // the file's name, for messages
	Jobs   []json.RawMessage
	IDs    []string // one id per job, for those that are new
}

// Applied answers ApplyJobs.
type Applied struct {
	Created, Updated, Unchanged int
	// Left names jobs declared by an earlier version of a file ("file:…") that this one no longer has.
	Left  []string
	Notes []string
}

// RunsQuery asks for a page of history, newest first unless Ascending.
type RunsQuery struct {
	JobID            string // empty = every job
	RunID            string
	AgentID          string
	Statuses         []string // empty = all
	DeliveryStatuses []string
	Query            string // case-insensitive substring
	Ascending        bool
	Limit, Offset    int
}

// RunsPage answers RunsQuery. Entries are wire objects of the history.
type RunsPage struct {
	Entries []json.RawMessage
	Total   int
	Offset  int
	// Known is false when the job neither exists nor has history.
	Known bool
}

// WhyQuery asks for the decisions about one slot of a job.
type WhyQuery struct {
	JobID string
	AtMs  int64 // 0 = the last decided slot
}

// Decision is one thing rota decided about a slot, and why.
type Decision struct {
	Rule    string          `json:"rule"`
	Verdict string          `json:"verdict"`
	Detail  json.RawMessage `json:"detail"`
	AtMs    int64           `json:"at"`
	Seq     int64           `json:"seq"`
}

// Why answers WhyQuery.
type Why struct {
	JobID     string
	SlotMs    int64
	Decisions []Decision
}

// EventsQuery asks for events after a sequence number; a page never splits a commit.
type EventsQuery struct {
	SinceSeq int64
	Limit    int
}

// Add runs AddJob.
func (w *Worker) Add(ctx context.Context, c AddJob) (Added, error) { return ask[Added](ctx, w, c) }

// Update runs UpdateJob and gives the job as it is now.
func (w *Worker) Update(ctx context.Context, c UpdateJob) (*Job, error) {
	return ask[*Job](ctx, w, c)
}

// Remove runs RemoveJob.
func (w *Worker) Remove(ctx context.Context, c RemoveJob) (Removed, error) {
	return ask[Removed](ctx, w, c)
}

// RunNow runs RunJob.
func (w *Worker) RunNow(ctx context.Context, c RunJob) (RunAnswer, error) {
	return ask[RunAnswer](ctx, w, c)
}

// Stop runs StopRun.
func (w *Worker) Stop(ctx context.Context, c StopRun) error {
	_, err := ask[struct{}](ctx, w, c)
	return err
}

// Apply runs ApplyJobs.
func (w *Worker) Apply(ctx context.Context, c ApplyJobs) (Applied, error) {
	return ask[Applied](ctx, w, c)
}

// Runs reads a page of history.
func (w *Worker) Runs(ctx context.Context, q RunsQuery) (RunsPage, error) {
	return ask[RunsPage](ctx, w, q)
}

// Why reads the decisions about one slot.
func (w *Worker) Why(ctx context.Context, q WhyQuery) (Why, error) { return ask[Why](ctx, w, q) }

// Events reads a page of events.
func (w *Worker) Events(ctx context.Context, q EventsQuery) ([]Event, error) {
	return ask[[]Event](ctx, w, q)
}

// handle applies one command. Every command of the catalogue is here once, save
// RunsQuery, which is no part of a turn (search.go).
func (t *turn) handle(command any) (any, error) {
	switch c := command.(type) {
	case AddJob:
		return t.addJob(c)
	case UpdateJob:
		return t.updateJob(c)
	case RemoveJob:
		return t.removeJob(c)
	case RunJob:
		return t.runJob(c)
	case StopRun:
		return t.stopRun(c)
	case ApplyJobs:
		return t.applyJobs(c)
	case WhyQuery:
		return t.readWhy(c)
	case EventsQuery:
		return t.readEvents(c)
	}
	return nil, refuse(job.CodeUnsupported, "command", fmt.Sprintf("%T is not a command", command), "")
}

// isRead reports whether a command only reads: it is taken also when writes
// are refused.
func isRead(command any) bool {
	switch command.(type) {
	case WhyQuery, EventsQuery:
		return true
	}
	return false
}
