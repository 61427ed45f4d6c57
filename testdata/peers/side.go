package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// side is one participant beside rota: a peer with one set of settings. It is
// measured in a process of its own, which ends with one figures line.
type side struct {
	name   string
	module string // its version is read from the build

	// A queue peer drains runs from an SQLite file. prefill makes its tables and
	// this many rows of finished runs, where it keeps such rows. inFlight is how
	// many runs may be open, where that is not what rota has.
	prefill  func(ctx context.Context, db *sql.DB, finished int) error
	open     func(ctx context.Context, db *sql.DB, ends *ends, runs int) (*queue, error)
	inFlight int

	// A cron library starts functions from memory.
	crons func(jobs int) (*crons, error)
}

// sides are all of them, in the order in which a round runs them.
var sides = []side{
	{name: "river", module: "github.com/riverqueue/river", prefill: prefillRiver, open: openRiver(riverDefaults)},
	{name: "river-fast", module: "github.com/riverqueue/river", prefill: prefillRiver, open: openRiver(riverFast)},
	{name: "river-wide", module: "github.com/riverqueue/river", prefill: prefillRiver, open: openRiver(riverWide), inFlight: 5000},
	{name: "goqite", module: "maragu.dev/goqite", prefill: prefillGoqite, open: openGoqite},
	{name: "backlite", module: "github.com/mikestefanello/backlite", prefill: prefillBacklite, open: openBacklite},
	{name: "robfig", module: "github.com/robfig/cron/v3", crons: openRobfig},
	{name: "gocron", module: "github.com/go-co-op/gocron/v2", crons: openGocron},
	{name: "go-quartz", module: "github.com/reugn/go-quartz", crons: openQuartz(0)},
	{name: "go-quartz-1h", module: "github.com/reugn/go-quartz", crons: openQuartz(time.Hour)},
}

func findSide(name string) (side, bool) {
	for _, s := range sides {
		if s.name == name {
			return s, true
		}
	}
	return side{}, false
}

// version is the side's module version as it was built in.
func (s side) version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == s.module {
				return dep.Version
			}
		}
	}
	return ""
}

// figures is what one side tells of one round. The names are those of rota
// bench, whose line is read into the same struct; what a side does not have is
// absent.
type figures struct {
	Runs               int     `json:"runs,omitempty"`
	InFlight           int     `json:"inFlight,omitempty"`
	Durability         string  `json:"durability,omitempty"`
	Seconds            float64 `json:"seconds,omitempty"`
	RunsPerSecond      float64 `json:"runsPerSecond,omitempty"`
	CPUUsPerRun        float64 `json:"cpuUsPerRun,omitempty"`
	AllocsPerRun       float64 `json:"allocsPerRun,omitempty"`
	WrittenBytesPerRun float64 `json:"writtenBytesPerRun,omitempty"`
	WriteCallsPerRun   float64 `json:"writeCallsPerRun,omitempty"`
	BytesPerRun        float64 `json:"bytesPerRun,omitempty"`
	CommitsPerRun      float64 `json:"commitsPerRun,omitempty"` // rota alone counts them
	Repeated           int     `json:"repeated,omitempty"`      // runs that were executed again
	Complaints         int     `json:"complaints,omitempty"`    // warnings and errors that the peer logged

	Burst     int     `json:"burst,omitempty"`
	Started   int     `json:"started,omitempty"`
	Lost      int     `json:"lost,omitempty"`
	DurableMs float64 `json:"durableMs,omitempty"`
	LateP50Ms float64 `json:"lateP50Ms,omitempty"` // in a drain, of rota alone: from request to durable answer
	LateP99Ms float64 `json:"lateP99Ms,omitempty"`
	LateMaxMs float64 `json:"lateMaxMs,omitempty"`
	PeakBytes int64   `json:"peakBytes,omitempty"` // resident; the harness reads it when the process has ended

}

// runSide is the whole of a side's process: the arguments behind "side".
func runSide(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return fmt.Errorf("side wants a name")
	}
	s, ok := findSide(args[0])
	if !ok {
		return fmt.Errorf("there is no side %q", args[0])
	}
	flags := flag.NewFlagSet("side", flag.ContinueOnError)
	file := flags.String("file", "", "the SQLite file")
	prefill := flags.Int("prefill", -1, "make the file, with this many finished runs, and end")
	runs := flags.Int("runs", 0, "drain this many runs")
	inFlight := flags.Int("inflight", 256, "this many at once")
	limit := flags.Duration("limit", time.Minute, "request nothing more after this time")
	burst := flags.Int("burst", 0, "start this many jobs in one second")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var f figures
	var err error
	switch {
	case *burst > 0 && s.crons != nil:
		f, err = measureBurst(s, *burst)
	case *prefill >= 0 && s.prefill != nil:
		return makeFile(ctx, s, *file, *prefill)
	case *runs > 0 && s.open != nil:
		f, err = measureDrain(ctx, s, *file, drainSize{runs: *runs, inFlight: *inFlight, limit: *limit})
	default:
		return fmt.Errorf("%s cannot do that: %s", s.name, strings.Join(args[1:], " "))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	f.Complaints = int(complaints.Load())
	return json.NewEncoder(stdout).Encode(f)
}

// complain notes a warning or an error of the peer: a benchmark whose peer is
// in trouble says so beside the figure.
func complain(format string, args ...any) {
	if complaints.Add(1) <= 20 {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}
