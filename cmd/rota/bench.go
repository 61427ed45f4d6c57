package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/store"
)

// benchFlags are the flags of rota bench.
type benchFlags struct {
	runs, inFlight int
	jobs, receipts int
	history        int
	rate           int
	burst          int
	processes      bool
	durability     string
	keep           string
}

// benchAnswer is what rota bench prints of a stream of runs. Late is the time
// from asking for a run to the answer, which is a commit; Done the time from
// asking to the recorded end.
type benchAnswer struct {
	Runs          int     `json:"runs"`
	InFlight      int     `json:"inFlight"`
	Jobs          int     `json:"jobs"`
	Receipts      int     `json:"receiptsPerJob"`
	History       int     `json:"history"`
	Processes     bool    `json:"processes"`
	Durability    string  `json:"durability"`
	Seconds       float64 `json:"seconds"`
	RunsPerSecond float64 `json:"runsPerSecond"`
	Commits       int64   `json:"commits"`
	CommitsPerRun float64 `json:"commitsPerRun"`
	LateP50Ms     float64 `json:"lateP50Ms"`
	LateP99Ms     float64 `json:"lateP99Ms"`
	DoneP50Ms     float64 `json:"doneP50Ms"`
	DoneP99Ms     float64 `json:"doneP99Ms"`
	BytesPerRun   float64 `json:"bytesPerRun"` // growth of the file, its log moved into it
	Saturation    float64 `json:"saturation"`  // of the worker's loop, from 0 to 1
	countedPerRun
	File string `json:"file,omitempty"`
}

func newBenchCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how many durable runs this machine takes a second",
		Long: `Measure the whole path of a run (request, activation, launch log, launch,
outcome, history) with the daemon's own rows, codec, events and retention, on a
scratch file that holds the jobs and the ledger of some months. What the jobs
run does nothing, or is a real process with --processes. The result is one JSON
object.

--burst N measures instead how late N jobs start that are due in one second.
With --processes each of them is a process that tells its own time, and a bare
loop of as many starts is measured beside it.`,
		Args: argsBetween(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.alwaysJSON = true
			if f.burst > 0 && !cmd.Flags().Changed("inflight") {
				f.inFlight = f.burst
			}
			if f.burst > 0 && !cmd.Flags().Changed("jobs") {
				f.jobs = f.burst
			}
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
	flags.IntVar(&f.jobs, "jobs", 1000, "how many jobs the file has")
	flags.IntVar(&f.receipts, "receipts", 16, "how many finished receipts each job has")
	flags.IntVar(&f.history, "history", 16_000, "how many finished runs the history has")
	flags.IntVar(&f.rate, "rate", 0, "ask for so many runs a second; 0 = as many as it takes")
	flags.IntVar(&f.burst, "burst", 0, "measure how late so many jobs start that are due in one second")
	flags.BoolVar(&f.processes, "processes", false, "start a real process for each run")
	flags.StringVar(&f.durability, "durability", "full", "full or normal")
	flags.StringVar(&f.keep, "keep", "", "keep the database under this name")
	return cmd
}

// benchLimits are the largest values of the flags: beyond them the answer would
// be that the machine is too small.
var benchLimits = []struct {
	name  string
	value func(*benchFlags) int
	min   int
	max   int
}{
	{"runs", func(f *benchFlags) int { return f.runs }, 1, 100_000_000},
	{"inflight", func(f *benchFlags) int { return f.inFlight }, 1, 10_000},
	{"jobs", func(f *benchFlags) int { return f.jobs }, 1, 100_000},
	{"receipts", func(f *benchFlags) int { return f.receipts }, 0, 1000},
	{"history", func(f *benchFlags) int { return f.history }, 0, 10_000_000},
	{"rate", func(f *benchFlags) int { return f.rate }, 0, 1_000_000},
	{"burst", func(f *benchFlags) int { return f.burst }, 0, 10_000},
}

// check refuses what cannot be measured.
func (f *benchFlags) check() error {
	for _, l := range benchLimits {
		if n := l.value(f); n < l.min || n > l.max {
			return usage("--%s is from %d to %d", l.name, l.min, l.max)
		}
	}
	if f.burst == 0 && f.jobs < f.inFlight {
		return usage("--jobs %d: a job has one run at a time, so --inflight %d needs as many jobs", f.jobs, f.inFlight)
	}
	if f.burst > f.jobs {
		return usage("--jobs %d: --burst %d needs as many jobs", f.jobs, f.burst)
	}
	return nil
}

// bench measures one of the two things.
func bench(ctx context.Context, f benchFlags) (any, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	durability, err := chooseDurability(f.durability, "")
	if err != nil {
		return nil, err
	}
	if f.burst > 0 {
		return benchBurst(ctx, f, durability)
	}
	return benchStream(ctx, f, durability)
}

// benchStream keeps callers busy until the runs are done.
func benchStream(ctx context.Context, f benchFlags, durability store.Durability) (answer benchAnswer, err error) {
	r, err := newBenchRig(f, durability, nil)
	if err != nil {
		return answer, err
	}
	defer func() { err = r.close(err) }()
	grown := sizeOf(r.path)
	if err := r.start(ctx); err != nil {
		return answer, err
	}
	before, counts, begin := r.worker.Stats(), countNow(), time.Now()
	late, done, err := r.stream(ctx, f)
	if err != nil {
		return answer, err
	}
	took, counted, after := time.Since(begin), countNow().since(counts).perRun(f.runs), r.worker.Stats()
	if err := r.stop(); err != nil {
		return answer, err
	}
	commits := after.Commits - before.Commits
	return benchAnswer{
		Runs: f.runs, InFlight: f.inFlight, Jobs: f.jobs, Receipts: f.receipts, History: f.history, Processes: f.processes,
		Durability: durability.String(), Seconds: took.Seconds(), RunsPerSecond: float64(f.runs) / took.Seconds(),
		Commits: commits, CommitsPerRun: float64(commits) / float64(f.runs),
		LateP50Ms: late.ms(50), LateP99Ms: late.ms(99), DoneP50Ms: done.ms(50), DoneP99Ms: done.ms(99),
		BytesPerRun: float64(sizeOf(r.path)-grown) / float64(f.runs),
		Saturation:  after.Saturation, countedPerRun: counted, File: f.keep,
	}, nil
}
