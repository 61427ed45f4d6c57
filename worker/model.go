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
	jobs   tree[string, *Job]      // by id
	due    tree[dueKey, struct{}]  // jobs by their next deadline; only what may be requested when due
	named  tree[nameKey, struct{}] // jobs by their declaration key, those that have one
	open   tree[string, *Run]      // the open run of each job, by job id
	queue  tree[queueKey, *Run]    // requested runs in picking order
	active tree[string, *Run]      // active runs by receipt id: these hold places
	sent   tree[string, *Run]      // delivering runs by receipt id
	armed  tree[string, *armedRun] // by job id; see arm.go
	// armedTo is the last deadline that was armed, armCount the last number of a
	// row of theirs.
	armedTo  dueKey
	armCount int64
	// grown are jobs whose receipts and history grew since retention looked:
	// trimming each run's own would double what a busy turn writes.
	grown  tree[string, struct{}]
	totals historyTotals
	// retention is how far the look of retention has come.
	retention retention
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
		due:    newTree[dueKey, struct{}](compareDue),
		named:  newTree[nameKey, struct{}](compareName),
		open:   newTree[string, *Run](strings.Compare),
		queue:  newTree[queueKey, *Run](compareQueue),
		active: newTree[string, *Run](strings.Compare),
		sent:   newTree[string, *Run](strings.Compare),
		armed:  newTree[string, *armedRun](strings.Compare),
		grown:  newTree[string, struct{}](strings.Compare),
		totals: newHistoryTotals(),
	}
}

// openRun finds an open run by its public id.
func (s *state) openRun(runID string) (*Run, bool) {
	jobID := jobOfRun(runID)
	if jobID != "" {
		r, ok := s.open.Get(jobID)
		return r, ok && r.RunID == runID
	}
	for r := range s.open.Values() { // an id that names no job: another program's
		if r.RunID == runID {
			return r, true
		}
	}
	return nil, false
}

// dueKey orders deadlines: oldest first, then the job order of the table.
type dueKey struct {
	deadlineMs int64
	job        *Job // as it was when it got this deadline
}

func compareDue(a, b dueKey) int {
	if c := cmp.Compare(a.deadlineMs, b.deadlineMs); c != 0 || a.job == b.job {
		return c
	}
	return cmp.Or(cmp.Compare(a.job.SortOrder, b.job.SortOrder), cmp.Compare(a.job.UpdatedMs, b.job.UpdatedMs),
		strings.Compare(a.job.ID, b.job.ID))
}

// nameKey orders declarations: a key should have one job, and a file from
// elsewhere may say otherwise.
type nameKey struct{ declarationKey, jobID string }

func compareName(a, b nameKey) int {
	return cmp.Or(strings.Compare(a.declarationKey, b.declarationKey), strings.Compare(a.jobID, b.jobID))
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
// bytes are the truth. What the loop asks of every job is read from them once;
// everything else is read when it is asked for, because 100,000 decoded jobs
// would take three times the memory of their bytes. Only newJob, withState,
// withStatePatch and turnOff change the bytes, always together with what was
// read from them.
type Job struct {
	ID         string
	Definition []byte // job_json, as stored
	State      []byte // state_json, as stored
	Name       string
	SortOrder  int64
	UpdatedMs  int64  // definition write time
	RuntimeMs  int64  // last runtime write; 0 = never
	SetAside   string // why the row cannot be used; empty when it can
	rowID      int64  // the row's place in cron_jobs

	timing schedule.Schedule // the zero value never fires
	nextMs int64             // nextRunAtMs of the state
	markMs int64             // rotaConsumedMs of the state
	plan   []store.PlanRow   // missed slots that will be run late, in order of their start
	retry  *store.Retry      // the next attempt after a failure; it stands while the deadline is its own
	// kept is what was decoded of a job with an open run, whose end asks a lot of
	// it, and of the jobs that ran last. It is nil for all others, but within a turn
	// that is at work on them.
	kept *decodedJob

	Enabled bool
	decoded bool // state could be read, so it may be written
	oneShot bool // the schedule is a single time
	keyed   bool // it has a declaration key
	inDue   bool // dueKey is in state.due
	facts   fact
}

// fact is something that a job's state says, as a bit: 100,000 jobs have them at
// hand in the space that their padding took.
type fact uint8

const (
	factNext   fact = 1 << iota // nextMs is set
	factMark                    // markMs is set
	factOpen                    // a run waits or is active
	factLate                    // the deadline is a late start
	factErring                  // failures to compute the deadline are counted
)

// says reports whether the state says something.
func (j *Job) says(f fact) bool { return j.facts&f != 0 }

// decodedJob is what the bytes of a job say; each part may be missing.
type decodedJob struct {
	revision string // job.Revision of the definition, where it was asked for
	def      *job.Definition
	state    *store.State
}

// def is the definition, decoded. It is shared: nobody may change it.
func (j *Job) def() *job.Definition {
	if j.kept != nil && j.kept.def != nil {
		return j.kept.def
	}
	d, err := job.Decode(j.Definition)
	if err == nil {
		d.ID = j.ID
		if d.CreatedAtMs == 0 {
			d.CreatedAtMs = j.UpdatedMs
		}
	}
	return &d
}

// state is the state, decoded. It is shared: nobody may change it.
func (j *Job) state() *store.State {
	switch {
	case j.kept != nil && j.kept.state != nil:
		return j.kept.state
	case !j.decoded:
		return &store.State{}
	}
	return store.ReadState(j.State)
}

// revision is the hash that a receipt carries.
func (j *Job) revision() string {
	if j.kept != nil && j.kept.revision != "" {
		return j.kept.revision
	}
	return job.Revision(j.Definition)
}

// atHand reports whether nothing of the job has to be decoded.
func (j *Job) atHand() bool { return j.kept != nil && j.kept.def != nil && j.kept.state != nil }

// decode keeps what the job says at hand.
func (j *Job) decode() {
	if !j.atHand() {
		j.kept = &decodedJob{job.Revision(j.Definition), j.def(), j.state()}
	}
}

// hold makes s, which the bytes say, the job's state.
func (j *Job) hold(raw []byte, s *store.State) {
	var d *job.Definition
	if j.kept != nil {
		d = j.kept.def
	}
	j.State, j.kept = raw, &decodedJob{def: d, state: s}
	j.note(s)
}

// note reads from the state what the loop asks of every job.
func (j *Job) note(s *store.State) {
	j.nextMs, j.markMs, j.facts = s.NextRunAtMs.N, s.RotaConsumedMs.N, 0
	note := func(f fact, holds bool) {
		if holds {
			j.facts |= f
		}
	}
	note(factNext, s.NextRunAtMs.Set)
	note(factMark, s.RotaConsumedMs.Set)
	note(factOpen, s.QueuedAtMs.Set || s.RunningAtMs.Set)
	note(factLate, s.StartupCatchupAtMs.Set && s.StartupCatchupAtMs == s.NextRunAtMs)
	note(factErring, s.ScheduleErrorCount.N != 0)
}

// next is nextRunAtMs of the state, consumed rotaConsumedMs.
func (j *Job) next() store.Int     { return store.Int{N: j.nextMs, Set: j.says(factNext)} }
func (j *Job) consumed() store.Int { return store.Int{N: j.markMs, Set: j.says(factMark)} }

// dueKey is where the job stands in state.due.
func (j *Job) dueKey() dueKey { return dueKey{j.nextMs, j} }

// nameKey is where a job with a declaration key stands in state.named.
func (j *Job) nameKey() nameKey { return nameKey{j.def().DeclarationKey, j.ID} }

// ConsumedMs is the greatest slot ever decided, 0 when none was.
func (j *Job) ConsumedMs() int64 { return j.markMs }

// NextRunMs is the persisted deadline; ok is false when there is none.
func (j *Job) NextRunMs() (ms int64, ok bool) { return j.nextMs, j.says(factNext) && j.nextMs > 0 }

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

func (j *Job) gone() *goneJob { return &goneJob{j.Name, j.def().AgentID, j.def().Delivery} }

func (r *Run) timed() bool { return r.SlotMs != 0 }

// invalidSchedule begins the reason of a job whose schedule gives no times.
const invalidSchedule = "invalid-schedule: "

// newJob builds the memory of a row. A row that cannot be used is set aside
// with the reason: it stays in the table as it is, and its siblings go on.
func newJob(row store.JobRow, dst schedule.DST, zone string) *Job {
	return readJob(row, &job.Compiler{DST: dst, Zone: zone})
}

func readJob(row store.JobRow, c *job.Compiler) *Job {
	kept := &decodedJob{def: new(job.Definition), state: new(store.State)}
	j, whole := readWith(kept, row, c)
	if !whole {
		kept.def = nil
	}
	if j.decoded {
		j.kept = kept
	}
	return j
}

// readWith is readJob for many rows: what is decoded is left in with, for the
// caller alone. whole is false when the definition is not decoded.
func readWith(with *decodedJob, row store.JobRow, c *job.Compiler) (j *Job, whole bool) {
	j = &Job{
		ID: row.JobID, Definition: row.Definition, State: row.State, Name: row.Name,
		Enabled: row.Enabled, SortOrder: row.SortOrder, UpdatedMs: row.UpdatedAtMs, RuntimeMs: row.RuntimeUpdatedMs,
		rowID: row.RowID,
	}
	s, d := with.state, with.def
	if err := store.DecodeStateTo(s, row.State); err != nil {
		j.SetAside = "invalid-state: " + err.Error()
		return j, false
	}
	j.decoded = true
	j.note(s)
	var err error
	*d, err = job.Decode(row.Definition)
	j.oneShot, j.keyed = d.Schedule.Kind == "at", d.DeclarationKey != ""
	if err != nil {
		j.SetAside = "invalid-payload: " + err.Error()
		return j, false
	}
	d.ID = row.JobID
	if d.CreatedAtMs == 0 {
		d.CreatedAtMs = row.UpdatedAtMs
	}
	if j.Enabled = d.Enabled; j.Name != d.Name { // the row's own is packed with others
		j.Name = d.Name
	}
	if j.timing, err = c.Compile(d); err != nil {
		j.SetAside = invalidSchedule + err.Error()
	}
	return j, true
}

// nextState is a state in the making, in the place where its job will keep it.
type nextState struct {
	decodedJob
	is store.State
}

func (j *Job) nextState() *nextState {
	n := &nextState{is: *j.state()}
	if n.state = &n.is; j.kept != nil {
		n.def, n.revision = j.kept.def, j.kept.revision
	}
	return n
}

// withNext is the job with its next state, which is then shared: nobody may change
// it any more. room is for what is needed on the way.
func (j *Job) withNext(n *nextState, room []byte) (*Job, error) {
	raw, err := store.EncodeState(j.State, j.state(), &n.is, room)
	if err != nil {
		return nil, err
	}
	next := *j
	next.State, next.kept = raw, &n.decodedJob
	next.note(&n.is)
	return &next, nil
}

// withState is the job with another state.
func (j *Job) withState(is store.State) (*Job, error) {
	n := j.nextState()
	n.is = is
	return j.withNext(n, nil)
}

// row is the job as its table row.
func (j *Job) row() store.JobRow {
	d := j.def()
	return store.JobRow{
		RowID: j.rowID, JobID: j.ID, Definition: j.Definition, State: j.State, SortOrder: j.SortOrder, UpdatedAtMs: j.UpdatedMs,
		RuntimeUpdatedMs: j.RuntimeMs, ScheduleIdentity: d.ScheduleIdentity(),
		DefinitionColumns: store.DefinitionColumns{
			Name: d.Name, Enabled: d.Enabled, PayloadKind: d.PayloadKind, DeclarationKey: d.DeclarationKey,
			OwnerAgentID: d.OwnerAgentID, AgentID: d.AgentID, Description: d.Description,
		},
	}
}

// unrunnable says why a run of this job could not start, "" when it could.
func (j *Job) unrunnable() string {
	if j.SetAside != "" {
		return j.SetAside
	}
	if d := j.def(); !d.Payload.Runnable() {
		return "payload kind \"" + d.PayloadKind + "\" is not available in this build; available: " + job.AvailableKinds()
	}
	return ""
}

// timedOneShot reports whether the job fires once.
func (j *Job) timedOneShot() bool { return j.oneShot }

// naturalNext is the deadline that the schedule alone gives: the first slot
// after both now and everything already decided. A one-shot that was never
// decided keeps its time, also when it has passed.
func (j *Job) naturalNext(nowMs int64) (slotMs int64, ok bool) {
	return j.nextBehind(j.consumed(), nowMs)
}

// nextBehind is naturalNext for another mark.
func (j *Job) nextBehind(consumed store.Int, nowMs int64) (slotMs int64, ok bool) {
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
	s := j.state()
	return s.LastOutcome() == "ok" && s.LastRunAtMs.Set && atMs <= s.LastRunAtMs.N
}
