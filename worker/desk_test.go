package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// epoch is where the tests' wall clock begins: 2026-10-01T12:00:00Z, a
// Thursday, far from every change of offset.
const epoch = int64(1_790_856_000_000)

// desk drives a worker turn by turn, in the test's own goroutine and on a
// clock of its own: the real turn over the real store, without the loop.
type desk struct {
	t    testing.TB
	path string
	w    *Worker

	nowMs  int64 // wall clock
	monoMs int64
	cfg    Config
	fault  func(point string) error
	// looking is set while the test itself reads the file: faults are for the worker.
	looking bool

	launched []*Launch // in order, over the desk's life
	canceled []*Cancel
	sending  []*Deliver
}

func newDesk(t *testing.T) *desk { return newDeskAt(t, epoch) }

// newDeskAt is a desk whose file is made at a moment.
func newDeskAt(t *testing.T, nowMs int64) *desk {
	d := &desk{t: t, path: filepath.Join(t.TempDir(), "rota.sqlite"), nowMs: nowMs, cfg: DefaultConfig()}
	d.open(Options{LogID: "log"})
	t.Cleanup(func() {
		if d.w != nil {
			d.close()
		}
	})
	return d
}

// open starts a worker on the desk's file, as a daemon's start does, and takes
// what recovery hands out.
func (d *desk) open(o Options) {
	d.t.Helper()
	s, err := store.Open(store.Options{Path: d.path, Durability: store.Normal, NowMs: d.nowMs, Fault: func(point string) error {
		if d.fault == nil || d.looking {
			return nil
		}
		return d.fault(point)
	}})
	if err != nil {
		d.t.Fatal(err)
	}
	o.Store, o.Config, o.PID = s, d.cfg, 7
	if o.BootID == "" {
		o.BootID = "boot-1"
	}
	o.Clock = Clock{
		WallMs: func() int64 { return d.nowMs },
		MonoMs: func() int64 { return d.monoMs },
		Timer: func(time.Duration) (<-chan time.Time, func() bool) { // virtual: it fires at once
			fired := make(chan time.Time, 1)
			fired <- time.Time{}
			return fired, func() bool { return true }
		},
	}
	d.w = New(o)
	if err := d.w.start(); err != nil {
		d.t.Fatal(err)
	}
	d.turn()
}

// crash drops the worker as a kill would: nothing is written. The file is
// closed only because a process cannot hold it twice.
func (d *desk) crash() {
	d.t.Helper()
	d.close()
}

func (d *desk) close() {
	if err := d.w.store.Close(); err != nil {
		d.t.Error(err)
	}
	d.w = nil
}

// turn runs turns until nothing is left to do now, and checks after each that
// memory equals the file.
func (d *desk) turn() {
	d.t.Helper()
	for range 10_000 {
		more, err := d.w.turn()
		if err != nil {
			d.t.Fatal(err)
		}
		d.checkMemory()
		d.take()
		if d.w.trouble.untilMs > d.monoMs {
			d.monoMs = d.w.trouble.untilMs // a failed turn is tried again after its hold
			continue
		}
		if !more && d.w.outcomes.len()+d.w.commands.len() == 0 {
			if !d.w.st.retention.underWay || !d.w.retentionDue(d.monoMs+retainPauseMs) || d.w.stopping.Load() {
				return
			}
			d.monoMs += retainPauseMs // the next piece
		}
	}
	d.t.Fatal("the worker does not come to rest")
}

// take collects what the launcher would have been handed.
func (d *desk) take() {
	for _, o := range d.w.orders.take(0) {
		switch {
		case o.Launch != nil:
			d.launched = append(d.launched, o.Launch)
		case o.Cancel != nil:
			d.canceled = append(d.canceled, o.Cancel)
		case o.Deliver != nil:
			d.sending = append(d.sending, o.Deliver)
		}
	}
}

// advance moves both clocks, turning at every deadline on the way as the loop
// would.
func (d *desk) advance(by time.Duration) {
	d.t.Helper()
	for until := d.nowMs + by.Milliseconds(); d.nowMs < until; {
		next := until
		if deadlineMs, ok := d.w.deadlineMs(instant{d.nowMs, d.monoMs}); ok {
			next = min(until, max(deadlineMs, d.nowMs))
		}
		d.monoMs += next - d.nowMs
		d.nowMs = next
		d.turn()
	}
}

// do gives one command to the worker and returns its answer.
func (d *desk) do(command any) (any, error) {
	d.t.Helper()
	c := &call{command: command, reply: make(chan answer, 1)}
	d.w.commands.put(c)
	d.turn()
	a := <-c.reply
	return a.value, a.err
}

// must is do for commands that have to succeed.
func must[T any](d *desk, command any) T {
	d.t.Helper()
	value, err := d.do(command)
	if err != nil {
		d.t.Fatalf("%T: %v", command, err)
	}
	return value.(T)
}

// add creates a job from its schedule and gives it.
func (d *desk) add(id, schedule string, more ...string) *Job {
	d.t.Helper()
	params := fmt.Sprintf(`{"name":%q,"schedule":%s,"payload":{"kind":"command","argv":["/bin/true"]}%s}`, id, schedule, strings.Join(more, ""))
	return must[Added](d, AddJob{ID: id, Params: json.RawMessage(params)}).Job
}

func (d *desk) job(id string) *Job {
	d.t.Helper()
	j, ok := d.w.Snapshot().Job(id)
	if !ok {
		d.t.Fatalf("job %s is gone", id)
	}
	return j
}

// last is the newest launch.
func (d *desk) last() *Launch {
	d.t.Helper()
	if len(d.launched) == 0 {
		d.t.Fatal("nothing was launched")
	}
	return d.launched[len(d.launched)-1]
}

// end reports the end of a launched run.
func (d *desk) end(l *Launch, status Status) {
	d.t.Helper()
	o := Outcome{ReceiptID: l.ReceiptID, Status: status, Kind: KindExit, StartedAtMs: l.RunAtMs, EndedAtMs: d.nowMs, DurationMs: d.nowMs - l.RunAtMs}
	if status == StatusError {
		o.Error, o.ErrorReason = "command exited with code 3", "unknown"
	}
	d.w.outcomes.put(o)
	d.turn()
}

// query reads rows of the file as text, one line a row.
func (d *desk) query(query string, args ...any) []string {
	d.t.Helper()
	d.looking = true
	defer func() { d.looking = false }()
	tx, err := d.w.store.Begin()
	if err != nil {
		d.t.Fatal(err)
	}
	lines, err := rowsOf(tx, query, args...)
	if err := errors.Join(err, tx.Rollback()); err != nil {
		d.t.Fatal(err)
	}
	return lines
}

// rowsOf reads single-column rows.
func rowsOf(tx *store.Tx, query string, args ...any) ([]string, error) {
	var lines []string
	err := tx.Query(query, args, func(scan func(...any) error) error {
		var text string
		err := scan(&text)
		lines = append(lines, text)
		return err
	})
	return lines, err
}

// checkMemory compares what the worker remembers with what a fresh start would
// read: jobs, deadlines, open runs, the sequence.
func (d *desk) checkMemory() {
	d.t.Helper()
	if d.w.stale {
		return // a configuration is installed, and the turn that acts on it failed
	}
	d.looking = true
	defer func() { d.looking = false }()
	tx, err := d.w.store.Begin()
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := store.RestoreArmed(tx); err != nil {
		d.t.Fatal(err)
	}
	fresh, err := load(tx, d.w.cfg)
	if err != nil {
		d.t.Fatal(err)
	}
	t := &turn{edit: new(edit), tx: tx, cfg: d.w.cfg, id: &d.w.id, st: fresh, now: d.nowMs}
	open, err := openRuns(tx, &t.st)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, f := range open {
		j, ok := t.st.jobs.Get(f.jobID)
		if !ok {
			j = nil
		}
		r, _, err := t.runOf(f.receipt, j)
		if err != nil {
			d.t.Fatal(err)
		}
		t.putRun(r)
	}
	if total := d.w.st.totals; total.known {
		if file, err := rowsOf(tx, `SELECT source_id || ' ' || count(*) FROM task_runs GROUP BY source_id ORDER BY source_id`); err != nil || !slices.Equal(file, total.lines()) {
			d.t.Fatalf("history rows in the file %v, in memory %v, %v", file, total.lines(), err)
		}
	}
	if err := tx.Rollback(); err != nil {
		d.t.Fatal(err)
	}
	if file, memory := sketch(&t.st), sketch(&d.w.st); file != memory {
		d.t.Fatalf("memory differs from the file\nfile:\n%s\nmemory:\n%s", file, memory)
	}
}

// lines are the totals of a file as text, one line a job.
func (h historyTotals) lines() (all []string) {
	sum := 0
	for _, jobID := range slices.Sorted(maps.Keys(h.byJob)) {
		n := h.byJob[jobID]
		all = append(all, fmt.Sprintf("%s %d", jobID, n))
		sum += n
	}
	if sum != h.all {
		all = append(all, fmt.Sprintf("of %d", h.all))
	}
	return all
}

// sketch is the part of a state that the file determines.
func sketch(st *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seq %d\n", st.seq)
	for j := range st.jobs.Values() {
		fmt.Fprintf(&b, "job %s %s %s due=%v plan=%v retry=%v\n", j.ID, j.Definition, j.State, j.inDue, j.plan, deref(j.retry))
	}
	for key := range st.due.All() {
		fmt.Fprintf(&b, "due %s %d\n", key.job.ID, key.deadlineMs)
	}
	for r := range st.open.Values() {
		phase := r.Phase.String()
		if _, ok := st.jobs.Get(r.JobID); !ok {
			phase = "of a removed job" // only the marker of a job row tells active from waiting
		}
		fmt.Fprintf(&b, "open %s %s %s %d\n", r.JobID, r.ReceiptID, phase, r.SlotMs)
	}
	fmt.Fprintf(&b, "open runs %d\n", st.queue.Len()+st.active.Len()+st.sent.Len())
	return b.String()
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// codeOf is the code of a refusal, "" when there is none.
func codeOf(err error) string {
	var refusal *job.Error
	if errors.As(err, &refusal) {
		return string(refusal.Code)
	}
	return ""
}
