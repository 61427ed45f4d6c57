package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rota-scheduler/rota/launcher"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker"
)

// burstAnswer is what rota bench --burst prints. Late is the time from the
// second that the jobs were due to the start of each: of the executor, or with
// processes what the process says itself.
type burstAnswer struct {
	Burst      int     `json:"burst"`
	Jobs       int     `json:"jobs"`
	InFlight   int     `json:"inFlight"`
	Processes  bool    `json:"processes"`
	Durability string  `json:"durability"`
	Started    int     `json:"started"`
	Lost       int     `json:"lost"`
	Early      int     `json:"early"`     // started before the second
	DurableMs  float64 `json:"durableMs"` // every request was committed so long after the second
	LateP50Ms  float64 `json:"lateP50Ms"`
	LateP99Ms  float64 `json:"lateP99Ms"`
	LateMaxMs  float64 `json:"lateMaxMs"`
	Commits    int64   `json:"commits"`
	// Bare are the same processes started by a plain loop, just before.
	BareP50Ms float64 `json:"bareP50Ms,omitempty"`
	BareMaxMs float64 `json:"bareMaxMs,omitempty"`
	File      string  `json:"file,omitempty"`
}

// burstTimeout is how long the runs of a burst may take.
const burstTimeout = 5 * time.Minute

// benchBurst makes jobs that are all due in one second and watches them start.
func benchBurst(ctx context.Context, f benchFlags, durability store.Durability) (answer burstAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, burstTimeout)
	defer cancel()
	stamp := new(stamp)
	r, err := newBenchRig(f, durability, stamp)
	if err != nil {
		return answer, err
	}
	dueMs := r.dueMs
	stamp.dueMs = dueMs
	defer func() { err = r.close(err) }()
	var bare delays
	if f.processes {
		if bare, err = bareStarts(ctx, f.burst); err != nil {
			return answer, err
		}
	}
	sub := r.worker.Subscribe(4*f.jobs + 1024)
	defer sub.Close()
	if err := r.start(ctx); err != nil {
		return answer, err
	}
	if time.Now().UnixMilli() >= dueMs {
		return answer, errors.New("the file was filled too slowly: the second had passed when the worker was ready")
	}
	durable, told, err := watchBurst(ctx, sub, f.burst, dueMs)
	if err != nil {
		return answer, err
	}
	late := stamp.starts
	if f.processes {
		late = told
	}
	answer = burstAnswer{
		Burst: f.burst, Jobs: f.jobs, InFlight: f.inFlight, Processes: f.processes, Durability: durability.String(),
		Started: len(late), Lost: f.burst - len(late), DurableMs: ms(durable),
		LateP50Ms: late.ms(50), LateP99Ms: late.ms(99), LateMaxMs: late.ms(100), Commits: r.worker.Stats().Commits,
		BareP50Ms: bare.ms(50), BareMaxMs: bare.ms(100), File: f.keep,
	}
	for _, d := range late {
		if d < 0 {
			answer.Early++
		}
	}
	return answer, r.stop()
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// watchBurst waits until all runs have ended. durable is when the last request
// was committed; told is when each process says it started.
func watchBurst(ctx context.Context, sub *worker.Subscription, runs int, dueMs int64) (durable time.Duration, told delays, err error) {
	for requested, finished := 0, 0; finished < runs; {
		select {
		case e := <-sub.C:
			switch e.Kind {
			case worker.EventRequested:
				if requested++; requested == runs {
					durable = since(dueMs)
				}
			case worker.EventFinished:
				finished++
				var entry struct{ Summary string }
				if json.Unmarshal(e.Detail, &entry) == nil && entry.Summary != "" {
					ns, err := parseTime(entry.Summary)
					if err != nil {
						return 0, nil, err
					}
					told = append(told, time.Duration(ns-dueMs*1e6))
				}
			}
		case <-ctx.Done():
			return 0, nil, fmt.Errorf("%d of %d runs had ended: %w", finished, runs, ctx.Err())
		}
	}
	return durable, told, nil
}

func since(dueMs int64) time.Duration { return time.Since(time.UnixMilli(dueMs)) }

// stamp is the executor of a burst: it notes when it is called.
type stamp struct {
	launcher.Noop
	dueMs int64

	mu     sync.Mutex // guards starts
	starts delays
}

// Execute notes the time and does nothing.
func (s *stamp) Execute(ctx context.Context, run *launcher.Run) worker.Outcome {
	at := since(s.dueMs)
	s.mu.Lock()
	s.starts = append(s.starts, at)
	s.mu.Unlock()
	return s.Noop.Execute(ctx, run)
}

// tellTime is a command that prints its own time in nanoseconds.
var tellTime = []string{"date", "+%s%N"}

func parseTime(text string) (int64, error) {
	ns, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return 0, usage("--burst with --processes needs a date command that knows +%%N, as GNU's does; this one printed %q", text)
	}
	return ns, nil
}

// bareStarts starts processes in a plain loop and gives when each says it
// started, from the beginning of the loop.
func bareStarts(ctx context.Context, n int) (delays, error) {
	var all delays
	var failures []error
	var mu sync.Mutex // guards all and failures
	var processes sync.WaitGroup
	begin := time.Now().UnixNano()
	for range n {
		cmd := exec.CommandContext(ctx, tellTime[0], tellTime[1:]...)
		var out strings.Builder
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		processes.Go(func() {
			err := cmd.Wait()
			ns := int64(0)
			if err == nil {
				ns, err = parseTime(out.String())
			}
			mu.Lock()
			defer mu.Unlock()
			all, failures = append(all, time.Duration(ns-begin)), append(failures, err)
		})
	}
	processes.Wait()
	return all, errors.Join(failures...)
}
