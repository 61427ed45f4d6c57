package worker

import (
	"cmp"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// state is everything the worker remembers, as one value: a turn works on a
// copy, and a commit makes the copy the truth. Each part is an immutable tree,
// so the copy is a few words.
type state struct {
	jobs   tree[string, *Job]   // by id
	due    tree[dueKey, string] // job ids by their next deadline; only what may be requested when due
	open   tree[string, *Run]   // the open run of each job, by job id
	queue  tree[queueKey, *Run] // requested runs in picking order
	active tree[string, *Run]   // active runs by receipt id: these hold places
	sent   tree[string, *Run]   // delivering runs by receipt id
	byRun  tree[string, *Run]   // open runs by public id
	// grown are jobs whose receipts and history grew since retention looked:
	// trimming each run's own would double what a busy turn writes.
	grown tree[string, struct{}]
	// orphansFrom is where retention looks on for receipts of removed jobs.
	orphansFrom int64
	// late are jobs whose missed slots wait for a decision.
	late backlog
	// firing says that the jobs are indexed by a configuration that lets
	// schedules fire.
	firing bool

	seq      int64 // the last sequence number used by an event or decision
	nextSort int64 // sort_order of the next job
	runCount int64 // manual runs accepted by this process
}

func newState() state {
	return state{
		jobs:   newTree[string, *Job](strings.Compare),
		due:    newTree[dueKey, string](compareDue),
		open:   newTree[string, *Run](strings.Compare),
		queue:  newTree[queueKey, *Run](compareQueue),
		active: newTree[string, *Run](strings.Compare),
		sent:   newTree[string, *Run](strings.Compare),
		byRun:  newTree[string, *Run](strings.Compare),
		grown:  newTree[string, struct{}](strings.Compare),
	}
}

// dueKey orders deadlines: oldest first, then the job order of the table.
type dueKey struct {
	deadlineMs int64
	sortOrder  int64
	updatedMs  int64
	jobID      string
}

func compareDue(a, b dueKey) int {
	return cmp.Or(cmp.Compare(a.deadlineMs, b.deadlineMs), cmp.Compare(a.sortOrder, b.sortOrder),
		cmp.Compare(a.updatedMs, b.updatedMs), strings.Compare(a.jobID, b.jobID))
}

// queueKey orders requests: by slot time, or by arrival where there is no
// slot, then by the job order of the table.
type queueKey struct {
	orderMs   int64
	sortOrder int64
	updatedMs int64
	jobID     string
	receiptID string
}

func compareQueue(a, b queueKey) int {
	return cmp.Or(cmp.Compare(a.orderMs, b.orderMs), cmp.Compare(a.sortOrder, b.sortOrder),
		cmp.Compare(a.updatedMs, b.updatedMs), strings.Compare(a.jobID, b.jobID), strings.Compare(a.receiptID, b.receiptID))
}

// Job is one job as committed: an immutable value, shared by snapshots. The
// bytes are the truth; what is typed beside them is read from them once. Only
// newJob, withState, withStatePatch and turnOff change the one, always
// together with the other.
type Job struct {
	ID         string
	Definition []byte // job_json, as stored
	State      []byte // state_json, as stored
	Name       string
	Enabled    bool
	SortOrder  int64
	UpdatedMs  int64  // definition write time
	RuntimeMs  int64  // last runtime write; 0 = never
	SetAside   string // why the row cannot be used; empty when it can

	def     job.Definition
	state   store.State
	timing  schedule.Schedule // the zero value never fires
	plan    []store.PlanRow   // missed slots that will be run late, in order of their start
	retry   *store.Retry      // the next attempt after a failure; it stands while the deadline is its own
	decoded bool              // state could be read, so it may be written
	// inDue says that dueAt is this job's key in state.due.
	inDue bool
	dueAt dueKey
}

// ConsumedMs is the greatest slot ever decided, 0 when none was.
func (j *Job) ConsumedMs() int64 { return j.state.RotaConsumedMs.N }

// NextRunMs is the persisted deadline; ok is false when there is none.
func (j *Job) NextRunMs() (ms int64, ok bool) {
	n := j.state.NextRunAtMs
	return n.N, n.Set && n.N > 0
}

// Run is one open run. It is immutable: a transition replaces it.
type Run struct {
	ReceiptID string
	RunID     string // public
	JobID     string
	Trigger   Trigger
	Mode      string // manual runs
	Phase     Phase
	SlotMs    int64 // natural slot, or a retry's own deadline; 0 for manual and event runs
	// OriginSlotMs is the natural slot that a retry tries again, 0 where it is
	// not known; Attempt counts from 1, which 0 means too.
	OriginSlotMs int64
	Attempt      int
	// RequestedAtMs is the reservation, ActiveAtMs the activation, 0 before it.
	RequestedAtMs int64
	ActiveAtMs    int64
	// Canceled says that the launcher was asked to end it.
	Canceled bool
	// Gone keeps what the end of a removed job's run needs.
	Gone *goneJob

	order queueKey
	// revision is the job's when this process wrote the receipt; empty when it
	// found it.
	revision string
}

// goneJob is the part of a removed job that its active run still reports.
type goneJob struct {
	name, agentID string
	delivery      job.DeliverySpec
}

func (j *Job) gone() *goneJob { return &goneJob{j.Name, j.def.AgentID, j.def.Delivery} }

func (r *Run) timed() bool { return r.SlotMs != 0 }

// invalidSchedule begins the reason of a job whose schedule gives no times.
const invalidSchedule = "invalid-schedule: "

// newJob builds the memory of a row. A row that cannot be used is set aside
// with the reason: it stays in the table as it is, and its siblings go on.
func newJob(row store.JobRow, dst schedule.DST, zone string) *Job {
	j := &Job{
		ID: row.JobID, Definition: row.Definition, State: row.State, Name: row.Name,
		Enabled: row.Enabled, SortOrder: row.SortOrder, UpdatedMs: row.UpdatedAtMs, RuntimeMs: row.RuntimeUpdatedMs,
	}
	var err error
	if j.state, err = store.DecodeState(row.State); err != nil {
		j.SetAside = "invalid-state: " + err.Error()
		return j
	}
	j.decoded = true
	if j.def, err = job.Decode(row.Definition); err != nil {
		j.SetAside = "invalid-payload: " + err.Error()
		return j
	}
	j.def.ID = row.JobID
	if j.def.CreatedAtMs == 0 {
		j.def.CreatedAtMs = row.UpdatedAtMs
	}
	j.Name, j.Enabled = j.def.Name, j.def.Enabled
	if j.timing, err = j.def.Compile(dst, zone); err != nil {
		j.SetAside = invalidSchedule + err.Error()
	}
	return j
}

// withState is the job with another state.
func (j *Job) withState(is store.State) (*Job, error) {
	raw, err := store.EncodeState(j.State, &j.state, &is)
	if err != nil {
		return nil, err
	}
	next := *j
	next.State, next.state = raw, is
	return &next, nil
}

// row is the job as its table row.
func (j *Job) row() store.JobRow {
	return store.JobRow{
		JobID: j.ID, Definition: j.Definition, State: j.State, SortOrder: j.SortOrder, UpdatedAtMs: j.UpdatedMs,
		RuntimeUpdatedMs: j.RuntimeMs, ScheduleIdentity: j.def.ScheduleIdentity(),
		DefinitionColumns: store.DefinitionColumns{
			Name: j.def.Name, Enabled: j.def.Enabled, PayloadKind: j.def.PayloadKind, DeclarationKey: j.def.DeclarationKey,
			OwnerAgentID: j.def.OwnerAgentID, AgentID: j.def.AgentID, Description: j.def.Description,
		},
	}
}

// unrunnable says why a run of this job could not start, "" when it could.
func (j *Job) unrunnable() string {
	if j.SetAside != "" {
		return j.SetAside
	}
	if !j.def.Payload.Runnable() {
		return "payload kind \"" + j.def.PayloadKind + "\" is not available in this build; available: " + job.AvailableKinds()
	}
	return ""
}

// timedOneShot reports whether the job fires once.
func (j *Job) timedOneShot() bool { return j.def.Schedule.Kind == "at" }

// naturalNext is the deadline that the schedule alone gives: the first slot
// after both now and everything already decided. A one-shot that was never
// decided keeps its time, also when it has passed.
func (j *Job) naturalNext(nowMs int64) (slotMs int64, ok bool) {
	consumed := j.state.RotaConsumedMs
	if !j.timedOneShot() {
		return j.timing.Next(max(nowMs, consumed.N))
	}
	at, ok := j.timing.Next(minInstantMs)
	if !ok || consumed.Set && at <= consumed.N || !consumed.Set && j.ranOK(at) {
		return 0, false
	}
	return at, true
}

// deadlineOf is a slot as the state holds it: unset where there is none.
func deadlineOf(slotMs int64, ok bool) store.Int {
	if !ok {
		return store.Int{}
	}
	return store.Some(slotMs)
}

// minInstantMs is before every instant a schedule can have.
const minInstantMs = -8_640_000_000_000_000

// ranOK reports whether a one-shot's slot is behind a good run: the only case
// of a file that has no mark yet in which its time is over.
func (j *Job) ranOK(atMs int64) bool {
	return j.state.LastOutcome() == "ok" && j.state.LastRunAtMs.Set && atMs <= j.state.LastRunAtMs.N
}
