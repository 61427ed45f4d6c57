package aged

import (
	"path/filepath"
	"testing"

	"github.com/rota-scheduler/rota/store"
)

// A filled file is what the worker would have left: no run is open, and each job
// has its receipts and its share of the history.
func TestFill(t *testing.T) {
	s, err := store.Open(store.Options{Path: filepath.Join(t.TempDir(), "rota.sqlite"), Holder: "a test", NowMs: 1_777_600_000_000})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := Ledger{Jobs: 7, Receipts: 3, History: 50, NowMs: 1_777_600_000_000, DueMs: 1_777_600_001_000}
	if err := l.Fill(s); err != nil {
		t.Fatal(err)
	}
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	jobs := map[string]bool{}
	err = store.EachJob(tx, func(r store.JobRow) error {
		jobs[r.JobID] = true
		state, err := store.DecodeState(r.State)
		if state.NextRunAtMs.N != l.DueMs || state.RotaConsumedMs.N >= l.DueMs {
			t.Errorf("job %s is due at %d, decided up to %d", r.JobID, state.NextRunAtMs.N, state.RotaConsumedMs.N)
		}
		return err
	})
	if err != nil || len(jobs) != 7 || !jobs[JobID(3)] {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	open, err := store.RunningReceipts(tx)
	if err != nil || len(open) != 0 {
		t.Errorf("%d receipts are open, %v", len(open), err)
	}
	for query, want := range map[string]int{
		"SELECT count(*) FROM cron_run_receipts":                              21,
		"SELECT count(*) FROM task_runs":                                      50,
		"SELECT count(*) FROM task_runs WHERE source_id = '" + JobID(0) + "'": 8,
	} {
		got := 0
		err := tx.Query(query, nil, func(scan func(...any) error) error { return scan(&got) })
		if err != nil || got != want {
			t.Errorf("%s: %d, want %d (%v)", query, got, want, err)
		}
	}
}
