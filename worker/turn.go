package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// identity is what stays the same for the life of a worker.
type identity struct {
	storeKey     string
	pid          int64
	bootID       string
	logID        string
	receiptsKept int
	made         bool // rota made the file; another program's is only opened
}

// turn is one transaction in the making: the rows, the memory staged beside
// them, and what will leave after the commit. Only a turn has a store.Tx, and
// only the worker's goroutine has a turn.
//
// What a turn does is a function of the rows, the messages and now: it reads
// no clock, draws no random number and waits for nobody.
type turn struct {
	tx  *store.Tx
	now int64 // wall clock, read once
	// monoMs is the monotonic clock, read with it: for cadences, never for slots.
	monoMs   int64
	clock    clockChange // of wall time since the last turn that followed it
	followed bool        // this turn acted on it
	rebuilt  bool        // every job was built anew by the configuration
	careful  bool        // each message has its own savepoint
	cfg      *Config
	id       *identity
	st       state // staged
	edit     *edit // what st was changed by

	orders []Order
	events []Event
	kept   int // of these, how many are in the ledger; the rest is written at the end of the turn
	// touched are jobs whose state may differ from their row; written once, at
	// the end of the turn.
	touched []string
	isTouch map[string]bool
	fired   []int64 // rows of rota_armed to take away
	handOut []*armedRun
	counts  []rowCount
	decoded []string // jobs that may have something decoded at hand
	room    [256]byte
	trimmed bool // retention removed rows
	wrote   bool // something beside touched state was written
	marks   marks
}

// marks tell the crash tests what the commit holds.
type marks struct{ requested, activated, executed, ended bool }

// staging is what a savepoint must be able to take back beside the rows.
type staging struct {
	st             state
	orders, events int
	kept, touched  int
	fired, counts  int
	wrote          bool
	marks          marks
}

func (t *turn) stage() staging {
	return staging{t.st, len(t.orders), len(t.events), t.kept, len(t.touched), len(t.fired), len(t.counts), t.wrote, t.marks}
}

func (t *turn) unstage(s staging) {
	for _, id := range t.touched[s.touched:] {
		delete(t.isTouch, id)
	}
	t.st, t.orders, t.events = s.st, t.orders[:s.orders], t.events[:s.events]
	t.fired, t.counts = t.fired[:s.fired], t.counts[:s.counts]
	t.kept, t.touched, t.wrote, t.marks = s.kept, t.touched[:s.touched], s.wrote, s.marks
}

// apply runs one message. A refusal by rota's rules or a constraint takes back
// what the message did and is its answer; any other error ends the turn.
//
// Nearly every refusal comes before the message changed anything, so the turn
// first goes without savepoints, which cost two statements a message and a copy
// of each page. Where a message is refused after a change, the whole turn is
// taken back and begun again with a savepoint each: it comes to the same,
// because a turn is a function of rows, messages and now.
func (t *turn) apply(message func(*turn) (any, error)) (answer any, refusal, fatal error) {
	if t.careful {
		return t.applyApart(message)
	}
	before, changes := t.stage(), t.changes()
	answer, err := message(t)
	switch {
	case err == nil:
		return answer, nil, nil
	case store.EndsTurn(err):
		return nil, nil, err
	case t.changes() != changes:
		return nil, nil, errApart
	}
	t.unstage(before)
	return nil, err, nil
}

// changes counts what a message did that unstage alone does not take back.
func (t *turn) changes() int64 { return t.tx.Writes() + t.edit.changes }

// errApart ends a turn that has to be done again with its messages apart.
var errApart = errors.New("a message was refused after it changed something")

// applyApart runs one message in its own savepoint.
func (t *turn) applyApart(message func(*turn) (any, error)) (answer any, refusal, fatal error) {
	t.edit = t.edit.next()
	before := t.stage()
	if err := t.tx.Savepoint(); err != nil {
		return nil, nil, err
	}
	answer, err := message(t)
	if err == nil {
		return answer, nil, t.tx.Release()
	}
	if store.EndsTurn(err) {
		return nil, nil, err
	}
	t.unstage(before)
	return nil, err, t.tx.RollbackTo()
}

// eachJob walks the jobs as they are now, whatever is done to them meanwhile.
func (t *turn) eachJob() iter.Seq[*Job] {
	t.edit = t.edit.next()
	return t.st.jobs.Values()
}

// touch notes that a job's state must be written at the end of the turn.
func (t *turn) touch(id string) {
	if t.isTouch[id] {
		return
	}
	if t.isTouch == nil {
		t.isTouch = make(map[string]bool)
	}
	t.isTouch[id] = true
	t.touched = append(t.touched, id)
}

// flush writes the staged states: one UPDATE a job and turn, however many
// transitions touched it.
func (t *turn) flush() error {
	if err := store.DeleteArmed(t.tx, t.fired); err != nil {
		return err
	}
	for _, id := range t.touched {
		j, ok := t.st.jobs.Get(id)
		if !ok {
			continue
		}
		if _, armed := t.st.armed.Get(id); armed {
			return fmt.Errorf("job %s was changed while a run of it is armed", id)
		}
		if err := store.UpdateState(t.tx, j.rowID, j.State, j.RuntimeMs); err != nil {
			return err
		}
		if err := t.dropStaleRetry(j); err != nil {
			return err
		}
	}
	return nil
}

// dirty reports whether there is anything to commit.
func (t *turn) dirty() bool { return t.wrote || len(t.touched) > 0 }

// editState changes a job's state in memory and marks it for the flush.
func (t *turn) editState(j *Job, edit func(*store.State)) (*Job, error) {
	is := j.nextState()
	edit(&is.is)
	next, err := j.withNext(is, t.room[:])
	if err != nil {
		return nil, err
	}
	next.RuntimeMs = t.now
	t.touch(j.ID)
	return t.putJob(next), nil
}

// putJob installs a new value of a job and keeps the deadline index true.
func (t *turn) putJob(j *Job) *Job {
	was, had := t.st.jobs.Get(j.ID)
	if !had || !same(was.Definition, j.Definition) {
		if had && was.keyed {
			t.st.named = t.st.named.Delete(t.edit, was.nameKey())
		}
		if j.keyed {
			t.st.named = t.st.named.Put(t.edit, j.nameKey(), struct{}{})
		}
	}
	open, _ := t.st.open.Get(j.ID)
	wasDue := had && was.inDue // before j, which may be the same value
	j.inDue = t.mayBeDue(j, open)
	if wasDue && !(j.inDue && compareDue(was.dueKey(), j.dueKey()) == 0) {
		t.st.due = t.st.due.Delete(t.edit, was.dueKey())
	}
	if j.inDue {
		t.st.due = t.st.due.Put(t.edit, j.dueKey(), struct{}{})
	}
	switch {
	case open != nil:
		j.decode()
	case j.kept != nil:
		t.decoded = append(t.decoded, j.ID)
	}
	t.st.jobs = t.st.jobs.Put(t.edit, j.ID, j)
	return j
}

// same reports whether two definitions are the same bytes in the same place:
// one that was edited has a place of its own.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mayBeDue reports whether a job is to be looked at when its deadline comes.
func (t *turn) mayBeDue(j *Job, open *Run) bool {
	_, has := j.NextRunMs()
	return has && j.Enabled && t.cfg.Enabled && j.SetAside == "" && (open == nil || open.timed() && !j.timedOneShot())
}

// reindex puts a job under the right deadline after its open run changed.
func (t *turn) reindex(jobID string) {
	j, ok := t.st.jobs.Get(jobID)
	if !ok {
		return
	}
	open, _ := t.st.open.Get(jobID)
	if j.inDue == t.mayBeDue(j, open) && (open == nil || j.atHand()) {
		return // nothing of it is another
	}
	next := *j
	t.putJob(&next)
}

// dropJob forgets a job.
func (t *turn) dropJob(j *Job) {
	if j.inDue {
		t.st.due = t.st.due.Delete(t.edit, j.dueKey())
	}
	if j.keyed {
		t.st.named = t.st.named.Delete(t.edit, j.nameKey())
	}
	t.st.jobs = t.st.jobs.Delete(t.edit, j.ID)
}

// removeRun takes a run out of where it is.
func (t *turn) removeRun(r *Run) {
	t.st.queue = t.st.queue.Delete(t.edit, r.order)
	t.st.active = t.st.active.Delete(t.edit, r.ReceiptID)
	t.st.sent = t.st.sent.Delete(t.edit, r.ReceiptID)
	t.st.open = t.st.open.Delete(t.edit, r.JobID)
}

// dropRun forgets a run that has ended.
func (t *turn) dropRun(r *Run) {
	t.removeRun(r)
	t.reindex(r.JobID)
}

// putRun installs a run at its phase; PhaseDone forgets it.
func (t *turn) putRun(r *Run) {
	t.removeRun(r)
	switch r.Phase {
	case PhaseRequested:
		t.st.queue = t.st.queue.Put(t.edit, r.order, r)
	case PhaseActive:
		t.st.active = t.st.active.Put(t.edit, r.ReceiptID, r)
	case PhaseDelivering:
		t.st.sent = t.st.sent.Put(t.edit, r.ReceiptID, r)
	default:
		t.reindex(r.JobID)
		return
	}
	t.st.open = t.st.open.Put(t.edit, r.JobID, r)
	t.reindex(r.JobID)
}

// emit adds an event to what the ledger gets and to what is published after the
// commit.
func (t *turn) emit(e Event) error {
	t.st.seq++
	e.Seq, e.AtMs = t.st.seq, t.now
	if e.Job == nil {
		e.Job, _ = t.st.jobs.Get(e.JobID)
	}
	t.wrote = true
	t.events = append(t.events, e)
	return nil
}

// keepEvents writes the events that are not in the ledger yet, all at once.
func (t *turn) keepEvents() error {
	rows := make([]store.EventRow, 0, len(t.events)-t.kept)
	for i := range t.events[t.kept:] {
		rows = append(rows, t.events[t.kept+i].row())
	}
	t.kept = len(t.events)
	return store.InsertEvents(t.tx, rows)
}

// slotRange is a range of natural slots: the first, the last, and how many.
type slotRange struct{ fromMs, toMs, slots int64 }

// decide records that slots will not run. A range that continues the job's
// latest one under the same rule and detail extends it.
func (t *turn) decide(jobID string, r slotRange, rule Rule, detail any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	row := store.SlotRow{JobID: jobID, FromMs: r.fromMs, ToMs: r.toMs, Slots: r.slots,
		Rule: string(rule), Verdict: rules[rule].Verdict, Detail: raw, AtMs: t.now}
	t.wrote = true
	beforeMs := r.fromMs
	if j, ok := t.st.jobs.Get(jobID); ok {
		if beforeMs, ok = j.timing.Prev(r.fromMs); !ok {
			beforeMs = r.fromMs // the first slot continues nothing
		}
	}
	extended, err := store.ExtendSlots(t.tx, row, beforeMs)
	if err != nil {
		return err
	}
	if !extended {
		t.st.seq++
		row.Seq = t.st.seq
		if err := store.InsertSlots(t.tx, row); err != nil {
			return err
		}
	}
	summary, err := json.Marshal(map[string]any{"rule": rule, "verdict": row.Verdict, "fromMs": r.fromMs, "toMs": r.toMs, "slots": r.slots})
	if err != nil {
		return err
	}
	return t.emit(Event{Kind: EventSkippedSlot, JobID: jobID, SlotMs: r.toMs, Status: row.Verdict, Detail: summary})
}

// refuse makes the usual refusal of a command.
func refuse(code job.Code, op, message, hint string) *job.Error {
	return &job.Error{Code: code, Op: op, Message: message, Hint: hint}
}
