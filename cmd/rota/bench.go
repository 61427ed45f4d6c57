package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/launcher"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker"
)

// benchFlags are the flags of rota bench.
type benchFlags struct {
	runs, inFlight int
	durability     string
	keep           string
}

// benchAnswer is what rota bench prints. Late is the time from asking for a
// run to its start: one commit and the way to the launcher.
type benchAnswer struct {
	Runs          int     `json:"runs"`
	InFlight      int     `json:"inFlight"`
	Durability    string  `json:"durability"`
	Seconds       float64 `json:"seconds"`
	RunsPerSecond float64 `json:"runsPerSecond"`
	Commits       int64   `json:"commits"`
	CommitsPerRun float64 `json:"commitsPerRun"`
	LateP50Ms     float64 `json:"lateP50Ms"`
	LateP99Ms     float64 `json:"lateP99Ms"`
	BytesPerRun   float64 `json:"bytesPerRun"` // growth of the file and its log
	File          string  `json:"file,omitempty"`
}

func newBenchCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how many durable runs this machine takes a second",
		Long: `Measure the whole path of a run (request, activation, launch, outcome,
history) on a scratch file, with the daemon's own rows, codec, events and
retention, and an executor that does nothing. The result is one JSON object.`,
		Args: argsBetween(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.alwaysJSON = true
			answer, err := bench(cmd.Context(), f)
			if err != nil {
				return err
			}
			a.printJSON(answer)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.Bool("json", true, "print JSON, which it always does")
	flags.IntVar(&f.runs, "runs", 5000, "how many runs")
	flags.IntVar(&f.inFlight, "inflight", 256, "how many are under way at once")
	flags.StringVar(&f.durability, "durability", "full", "full or normal")
	flags.StringVar(&f.keep, "keep", "", "keep the database under this name")
	return cmd
}

// bench wires a worker and a launcher as serve does, and keeps inFlight
// callers busy until the runs are done.
func bench(ctx context.Context, f benchFlags) (benchAnswer, error) {
	if f.runs < 1 || f.inFlight < 1 || f.inFlight > 10_000 {
		return benchAnswer{}, usage("--runs is at least 1, --inflight from 1 to 10000")
	}
	durability, err := chooseDurability(f.durability, "")
	if err != nil {
		return benchAnswer{}, err
	}
	path := f.keep
	if path == "" {
		dir, err := os.MkdirTemp("", "rota-bench-")
		if err != nil {
			return benchAnswer{}, err
		}
		defer os.RemoveAll(dir)
		path = filepath.Join(dir, "rota.sqlite")
	} else if _, err := os.Stat(path); err == nil {
		return benchAnswer{}, usage("--keep %s: there is a file of that name already", path)
	}
	s, err := store.Open(store.Options{Path: path, Durability: durability, Holder: "rota bench", Version: programVersion(), NowMs: time.Now().UnixMilli()})
	if err != nil {
		return benchAnswer{}, openFailure(err)
	}
	cfg := worker.DefaultConfig()
	cfg.MaxConcurrent = f.inFlight
	log := slog.New(slog.DiscardHandler)
	w := worker.New(worker.Options{Store: s, Config: cfg, BootID: "bench", LogID: "log", PID: os.Getpid(), Log: log})
	l, err := launcher.New(launcher.Options{Port: w.Port(), Executors: map[string]launcher.Executor{"command": launcher.Noop{}}, Log: log})
	if err != nil {
		return benchAnswer{}, errors.Join(err, s.Close())
	}
	stop, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var parts sync.WaitGroup
	var workerErr error
	parts.Go(func() { workerErr = w.Run(stop) })
	parts.Go(func() { _ = l.Run(stop) })
	answer, err := benchRuns(ctx, w, f)
	cancel()
	parts.Wait()
	answer.Durability = durability.String()
	answer.BytesPerRun = float64(sizeOf(path)+sizeOf(path+"-wal")) / float64(f.runs)
	if f.keep != "" {
		answer.File = path
	}
	return answer, errors.Join(err, workerErr, s.Close())
}

func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// benchRuns asks for the runs and waits for their ends.
func benchRuns(ctx context.Context, w *worker.Worker, f benchFlags) (benchAnswer, error) {
	ids := make([]string, min(f.inFlight, f.runs))
	for i := range ids {
		ids[i] = uuid.NewString()
		params := fmt.Sprintf(`{"name":"bench %d","schedule":{"kind":"every","everyMs":86400000},"payload":{"kind":"command","argv":["/bin/true"]}}`, i)
		if _, err := w.Add(ctx, worker.AddJob{ID: ids[i], Params: []byte(params)}); err != nil {
			return benchAnswer{}, err
		}
	}
	ends := newEnds(w, ids)
	defer ends.close()
	before, begin := w.Stats(), time.Now()
	lates := make([][]time.Duration, len(ids))
	failures := make(chan error, len(ids))
	var callers sync.WaitGroup
	for i, id := range ids {
		share := f.runs / len(ids)
		if i < f.runs%len(ids) {
			share++
		}
		callers.Go(func() {
			for range share {
				asked := time.Now()
				if _, err := w.RunNow(ctx, worker.RunJob{ID: id, Mode: "force", Key: uuid.NewString()}); err != nil {
					failures <- err
					return
				}
				lates[i] = append(lates[i], time.Since(asked))
				if err := ends.wait(ctx, id); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	callers.Wait()
	took := time.Since(begin)
	select {
	case err := <-failures:
		return benchAnswer{}, err
	default:
	}
	all := slices.Concat(lates...)
	slices.Sort(all)
	commits := w.Stats().Commits - before.Commits
	return benchAnswer{
		Runs: f.runs, InFlight: f.inFlight, Seconds: took.Seconds(), RunsPerSecond: float64(f.runs) / took.Seconds(),
		Commits: commits, CommitsPerRun: float64(commits) / float64(f.runs),
		LateP50Ms: ms(all[len(all)/2]), LateP99Ms: ms(all[len(all)*99/100]),
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ends tells each caller when the run of its job has ended.
type ends struct {
	sub  *worker.Subscription
	jobs map[string]chan struct{} // buffered by one: a job has one open run
	lost chan struct{}
}

func newEnds(w *worker.Worker, ids []string) *ends {
	e := &ends{sub: w.Subscribe(1 << 16), jobs: make(map[string]chan struct{}, len(ids)), lost: make(chan struct{})}
	for _, id := range ids {
		e.jobs[id] = make(chan struct{}, 1)
	}
	go func() { // ends with the subscription
		for ev := range e.sub.C {
			if ev.Kind == worker.EventFinished {
				e.jobs[ev.JobID] <- struct{}{}
			}
			if e.sub.Lost() {
				close(e.lost)
				return
			}
		}
	}()
	return e
}

func (e *ends) wait(ctx context.Context, id string) error {
	select {
	case <-e.jobs[id]:
		return nil
	case <-e.lost:
		return errors.New("the benchmark did not keep up with its events")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *ends) close() { e.sub.Close() }
