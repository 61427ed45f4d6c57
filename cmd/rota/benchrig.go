package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rota-scheduler/rota/launcher"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/aged"
	"github.com/rota-scheduler/rota/worker"
)

// benchRig is a worker and a launcher on a scratch file, wired as serve does.
type benchRig struct {
	path   string
	dir    string // scratch, removed at the end
	dueMs  int64  // of a burst: when its jobs are due
	store  *store.Store
	worker *worker.Worker

	launcher *launcher.Launcher
	cancel   context.CancelFunc
	parts    sync.WaitGroup
	err      error // of the worker; read after parts.Wait
	stopped  bool
}

// leadOf is how long before the second of a burst its jobs are written: they and
// the start come first.
func leadOf(f benchFlags) time.Duration {
	return 3*time.Second + time.Duration(f.jobs)*300*time.Microsecond
}

// newBenchRig makes the file and fills it.
func newBenchRig(f benchFlags, durability store.Durability, executor launcher.Executor) (r *benchRig, err error) {
	r = &benchRig{}
	if r.dir, err = os.MkdirTemp("", "rota-bench-"); err != nil {
		return nil, err
	}
	r.path = filepath.Join(r.dir, "rota.sqlite")
	if f.keep != "" {
		r.path = f.keep
		if _, err := os.Stat(r.path); err == nil {
			_ = os.RemoveAll(r.dir)
			return nil, usage("--keep %s: there is a file of that name already", r.path)
		}
	}
	nowMs := time.Now().UnixMilli()
	r.store, err = store.Open(store.Options{Path: r.path, Durability: durability, Holder: "rota bench", Version: programVersion(), NowMs: nowMs})
	if err != nil {
		return nil, errors.Join(openFailure(err), os.RemoveAll(r.dir))
	}
	ledger := aged.Ledger{Jobs: f.jobs, Receipts: f.receipts, History: f.history, NowMs: nowMs}
	if err := ledger.FillRuns(r.store); err != nil {
		return nil, r.close(err)
	}
	if f.burst > 0 {
		r.dueMs = time.Now().Add(leadOf(f)).Truncate(time.Second).Add(time.Second).UnixMilli()
		ledger.DueMs = r.dueMs
	}
	if f.processes && f.burst > 0 {
		ledger.Argv = tellTime
	}
	if err := ledger.FillJobs(r.store); err != nil {
		return nil, r.close(err)
	}
	cfg := worker.DefaultConfig()
	cfg.MaxConcurrent = f.inFlight
	log := slog.New(slog.DiscardHandler)
	r.worker = worker.New(worker.Options{Store: r.store, Config: cfg, BootID: "bench", LogID: "log", PID: os.Getpid(), Log: log})
	executors := map[string]launcher.Executor{"command": executor}
	switch {
	case f.processes:
		executors = nil
	case executor == nil:
		executors["command"] = launcher.Noop{}
	}
	r.launcher, err = launcher.New(launcher.Options{Port: r.worker.Port(), LogPath: filepath.Join(r.dir, "launch.log"), BootID: "bench",
		Environ: os.Environ(), Executors: executors, Log: log})
	if err != nil {
		return nil, r.close(err)
	}
	return r, nil
}

// start runs the parts until stop, and returns when recovery is over.
func (r *benchRig) start(ctx context.Context) error {
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	ended := make(chan struct{})
	r.parts.Go(func() { r.err = r.worker.Run(run); close(ended) })
	r.parts.Go(func() { _ = r.launcher.Run(run) })
	select {
	case <-r.worker.Ready():
		return nil
	case <-ended:
		return r.stop()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the parts, and closes the file, so that its size is what is kept.
func (r *benchRig) stop() error {
	if r.stopped {
		return nil
	}
	r.stopped = true
	if r.cancel != nil {
		r.cancel()
		r.parts.Wait()
	}
	return errors.Join(r.err, r.store.Close())
}

// close stops what runs, removes the scratch files and gives the first error.
func (r *benchRig) close(err error) error {
	return errors.Join(err, r.stop(), os.RemoveAll(r.dir))
}

func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// stream keeps inFlight callers busy, each with jobs of its own, until the runs
// are done. With a rate each caller asks at its own times, whatever the answers
// take, as long as one is back before the next is due.
func (r *benchRig) stream(ctx context.Context, f benchFlags) (late, done delays, err error) {
	ends := newEnds(r.worker)
	defer ends.close()
	type caller struct{ late, done delays }
	all := make([]caller, min(f.inFlight, f.runs))
	failures := make(chan error, len(all))
	begin := time.Now()
	var callers sync.WaitGroup
	for i := range all {
		share := f.runs / len(all)
		if i < f.runs%len(all) {
			share++
		}
		c, jobs := &all[i], r.jobsOf(f, i, len(all))
		callers.Go(func() {
			ended := make(chan struct{}, 1)
			for n := range share {
				if f.rate > 0 {
					offset := time.Duration(n*len(all)+i) * time.Second / time.Duration(f.rate)
					waitUntil(ctx, begin.Add(offset))
				}
				asked := time.Now()
				answer, err := r.worker.RunNow(ctx, worker.RunJob{ID: jobs[n%len(jobs)], Mode: "force", Key: strconv.Itoa(n*len(all) + i)})
				if err == nil && answer.Reason != "" {
					err = errors.New("a run was refused: " + answer.Reason)
				}
				if err != nil {
					failures <- err
					return
				}
				c.late = append(c.late, time.Since(asked))
				if err := ends.wait(ctx, answer.RunID, ended); err != nil {
					failures <- err
					return
				}
				c.done = append(c.done, time.Since(asked))
			}
		})
	}
	callers.Wait()
	for i := range all {
		late, done = append(late, all[i].late...), append(done, all[i].done...)
	}
	select {
	case err := <-failures:
		return nil, nil, err
	default:
		return late, done, nil
	}
}

// jobsOf are the jobs that only this caller asks for.
func (r *benchRig) jobsOf(f benchFlags, caller, callers int) (ids []string) {
	for i := caller; i < f.jobs; i += callers {
		ids = append(ids, aged.JobID(i))
	}
	return ids
}

func waitUntil(ctx context.Context, at time.Time) {
	t := time.NewTimer(time.Until(at))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
