package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain lets the test binary be the process of a side, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "side" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestEverySideReportsAllItsRuns(t *testing.T) {
	const runs, burst = 200, 20
	h := harness{
		plan: plan{Rounds: 1, Runs: runs, InFlight: 64, Jobs: 64, Finished: 2, Limit: 20 * time.Second, Bursts: []int{burst}, dir: t.TempDir()},
		log:  testLog{t},
	}
	trials, err := h.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(trials) != 2 {
		t.Fatalf("%d trials, not a drain and a burst", len(trials))
	}
	for _, trial := range trials {
		for _, failure := range trial.Failures {
			t.Errorf("%s: %s", trial.Name, failure)
		}
		var seen []string
		for _, r := range trial.Records {
			seen = append(seen, r.Side)
			switch {
			case trial.Burst == 0 && (r.F.Runs != runs || r.F.RunsPerSecond <= 0):
				t.Errorf("%s: %d runs of %d, %.0f a second", r.Side, r.F.Runs, runs, r.F.RunsPerSecond)
			case trial.Burst > 0 && (r.F.Started+r.F.Lost != burst || r.F.Started == 0):
				t.Errorf("%s: %d started and %d dropped of %d", r.Side, r.F.Started, r.F.Lost, burst)
			case trial.Burst > 0 && !strings.HasPrefix(r.Side, "go-quartz") && r.F.Lost != 0:
				t.Errorf("%s drops nothing, however late it is: %d", r.Side, r.F.Lost)
			}
		}
		if len(trial.Failures) == 0 && !slices.Equal(seen, trial.Sides) {
			t.Errorf("%s: the sides are %v, and %v were measured", trial.Name, trial.Sides, seen)
		}
	}
}

// testLog writes progress to the log of a test.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func TestAFileThatDoesNotSyncIsRefused(t *testing.T) {
	db, err := openFile(filepath.Join(t.TempDir(), "a.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := checkDurable(t.Context(), db); err != nil {
		t.Error(err)
	}
	if _, err := db.Exec("PRAGMA synchronous=NORMAL"); err != nil {
		t.Fatal(err)
	}
	if err := checkDurable(t.Context(), db); err == nil {
		t.Error("synchronous=NORMAL was taken")
	}
}

func TestARunEndsOnce(t *testing.T) {
	e := newEnds(2)
	for _, run := range []int{0, 0, 1, 2} {
		e.end(run)
	}
	if len(e.c) != 2 || e.repeated.Load() != 2 {
		t.Errorf("%d ends and %d repeated, not 2 and 2", len(e.c), e.repeated.Load())
	}
}

func TestThePumpKeepsWithinTheWindow(t *testing.T) {
	const runs, window = 1000, 64
	ends := newEnds(runs)
	inserted := make(chan int, runs)
	var open, most atomic.Int64
	go func() { // the workers
		for run := range inserted {
			open.Add(-1)
			ends.end(run)
		}
	}()
	asked := 0
	q := &queue{insert: func(_ context.Context, first, n int) error {
		if first != asked {
			t.Errorf("run %d is asked for behind %d", first, asked)
		}
		asked += n
		most.Store(max(most.Load(), open.Add(int64(n))))
		for i := range n {
			inserted <- first + i
		}
		return nil
	}}
	n, err := pump(t.Context(), q, ends, drainSize{runs: runs, inFlight: window, limit: time.Minute})
	close(inserted)
	if err != nil || n != runs || asked != runs {
		t.Fatalf("%d runs, %d inserted, error %v", n, asked, err)
	}
	if most.Load() > window {
		t.Errorf("%d were open at once, more than %d", most.Load(), window)
	}
}

func TestRatiosAreFormedWithinARound(t *testing.T) {
	tr := &trial{Name: "drain", Sides: []string{rotaName, "peer"}}
	add := func(side string, round int, perSecond float64) {
		tr.Records = append(tr.Records, record{Side: side, Round: round, F: figures{RunsPerSecond: perSecond}})
	}
	add(rotaName, 1, 1000) // a quiet round, a busy one, and two with one side each
	add("peer", 1, 500)
	add(rotaName, 2, 100)
	add("peer", 2, 25)
	add(rotaName, 3, 1000)
	add("peer", 4, 1)
	got, ok := tr.ratio("peer", func(f figures) float64 { return f.RunsPerSecond })
	if want := (spread{Median: 3, Min: 2, Max: 4}); !ok || got != want {
		t.Errorf("%+v, not %+v", got, want)
	}
	if row := tr.ratios()[1]; !slices.Equal(row, []string{"peer", "3.0 (2.0–4.0)", "–", "–", "–"}) {
		t.Errorf("the row is %q", row)
	}
}

func TestNumbersAreReadable(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.0123: "0.012", 0.5: "0.50", 1: "1.0", 12.4: "12", 1234: "1234"} {
		if got := significant(x); got != want {
			t.Errorf("%v is %s, not %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 999: "999", 1000: "1,000", 1234567.8: "1,234,568"} {
		if got := grouped(x, 0); got != want {
			t.Errorf("%v is %s, not %s", x, got, want)
		}
	}
}
