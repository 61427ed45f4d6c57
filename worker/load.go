package worker

import "github.com/rota-scheduler/rota/store"

// Reading the whole model from the file: jobs, plans, attempts, and what the last
// holder left open. Nothing is decided here.

// load reads the whole model. It decides nothing.
func load(tx *store.Tx, cfg *Config) (state, error) {
	st := newState()
	t := &turn{tx: tx, cfg: cfg, st: st, edit: new(edit)}
	err := store.EachJob(tx, func(row store.JobRow) error {
		t.putJob(newJob(row, cfg.DST, cfg.Zone))
		t.st.nextSort = max(t.st.nextSort, row.SortOrder+1)
		return nil
	})
	if err != nil {
		return state{}, err
	}
	plans, err := store.Plans(tx)
	if err != nil {
		return state{}, err
	}
	for _, p := range plans {
		if j, ok := t.st.jobs.Get(p.JobID); ok {
			next := *j
			next.plan = append(append([]store.PlanRow(nil), j.plan...), p)
			t.putJob(&next)
		}
	}
	retries, err := store.Retries(tx)
	if err != nil {
		return state{}, err
	}
	for _, r := range retries {
		if j, ok := t.st.jobs.Get(r.JobID); ok {
			next := *j
			next.retry = &r
			t.putJob(&next)
		}
	}
	t.st.seq, err = store.LastSeq(tx)
	t.st.runCount = t.st.seq // each manual run takes a number of the sequence: none is ever given twice
	return t.st, err
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
		if (j.state.QueuedAtMs.Set || j.state.RunningAtMs.Set) && !explained[j.ID] {
			all = append(all, found{jobID: j.ID})
		}
	}
	return all, nil
}
