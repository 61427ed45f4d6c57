package worker

import (
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// Reading the whole model from the file: jobs, plans, attempts, and what the last
// holder left open. Nothing is decided here.

// load reads the whole model. It decides nothing.
func load(tx *store.Tx, cfg *Config) (state, error) {
	jobs, err := readJobs(tx, cfg)
	if err != nil {
		return state{}, err
	}
	slices.SortFunc(jobs, func(a, b *Job) int { return strings.Compare(a.ID, b.ID) })
	find := func(id string) *Job {
		i, ok := slices.BinarySearchFunc(jobs, id, func(j *Job, id string) int { return strings.Compare(j.ID, id) })
		if !ok {
			return &Job{} // the row of a job that is gone; a start drops it
		}
		return jobs[i]
	}
	plans, err := store.Plans(tx)
	if err != nil {
		return state{}, err
	}
	for _, p := range plans {
		j := find(p.JobID)
		j.plan = append(j.plan, p)
	}
	retries, err := store.Retries(tx)
	if err != nil {
		return state{}, err
	}
	for _, r := range retries {
		find(r.JobID).retry = &r
	}
	t := &turn{tx: tx, cfg: cfg, st: newState(), edit: new(edit)}
	t.fill(jobs)
	t.st.seq, err = store.LastSeq(tx)
	t.st.runCount = t.st.seq // each manual run takes a number of the sequence: none is ever given twice
	return t.st, err
}

// rowsAhead is how many rows are handed over at once, and handedAhead how often
// before they are decoded.
const rowsAhead, handedAhead = 256, 4

// readJobs reads the job rows. Jobs that say the same expression share it. While
// rows are read, those before are decoded beside it: each takes about as long.
func readJobs(tx *store.Tx, cfg *Config) ([]*Job, error) {
	var jobs []*Job
	handed, decoded := make(chan []store.JobRow, handedAhead), make(chan struct{})
	go func() {
		defer close(decoded)
		c := job.Compiler{DST: cfg.DST, Zone: cfg.Zone, Expressions: schedule.Expressions{}}
		with := &decodedJob{def: new(job.Definition), state: new(store.State)}
		for rows := range handed {
			for _, row := range rows {
				j, _ := readWith(with, row, &c)
				jobs = append(jobs, j)
			}
		}
	}()
	rows := make([]store.JobRow, 0, rowsAhead)
	err := store.EachJob(tx, func(row store.JobRow) error {
		if rows = append(rows, row); len(rows) == rowsAhead {
			handed <- rows
			rows = make([]store.JobRow, 0, rowsAhead)
		}
		return nil
	})
	handed <- rows
	close(handed)
	<-decoded
	return jobs, err
}

// fill builds the memory of jobs in id order, none of which has an open run
// yet. It is putJob for all of them, without the trees in between.
func (t *turn) fill(jobs []*Job) {
	ids := make([]string, len(jobs))
	var due []dueKey
	var named []nameKey
	for i, j := range jobs {
		ids[i] = j.ID
		t.st.nextSort = max(t.st.nextSort, j.SortOrder+1)
		if j.inDue = t.mayBeDue(j, nil); j.inDue {
			due = append(due, j.dueKey())
		}
		if j.keyed {
			named = append(named, j.nameKey())
		}
	}
	slices.SortFunc(due, compareDue)
	slices.SortFunc(named, compareName)
	nothing := func(int) (none struct{}) { return none }
	t.st.jobs = treeOf(strings.Compare, ids, func(i int) *Job { return jobs[i] })
	t.st.due = treeOf(compareDue, due, nothing)
	t.st.named = treeOf(compareName, named, nothing)
}

// openRuns lists what the last holder left open: receipts first, then markers
// that no receipt explains.
func openRuns(tx *store.Tx, st *state) ([]found, error) {
	receipts, err := store.RunningReceipts(tx)
	if err != nil {
		return nil, err
	}
	var all []found
	explained := map[string]bool{}
	for _, r := range receipts {
		all = append(all, found{receipt: r, jobID: r.JobID})
		explained[r.JobID] = true
	}
	for j := range st.jobs.Values() {
		if j.says(factOpen) && !explained[j.ID] {
			all = append(all, found{jobID: j.ID})
		}
	}
	return all, nil
}
