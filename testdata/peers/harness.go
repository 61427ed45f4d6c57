package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// rotaName is the side that all others are compared with.
const rotaName = "rota"

// plan is what is to be measured.
type plan struct {
	Rounds   int           `json:"rounds"`
	Runs     int           `json:"runs"`
	InFlight int           `json:"inFlight"`
	Jobs     int           `json:"jobs"`           // in rota's file
	Finished int           `json:"finishedPerJob"` // runs already in rota's file; peers have as many rows in all
	Limit    time.Duration `json:"limitNs"`        // a peer requests nothing more after this time
	Bursts   []int         `json:"bursts"`
	Only     string        `json:"only,omitempty"` // drain or burst
	Peers    []string      `json:"peers,omitempty"`

	dir  string // for all scratch files
	rota string // a built binary; empty: build it
}

// take says whether a side is wanted: by its name, or by that of its family
// (river names river-fast too).
func (p plan) take(s side) bool {
	return len(p.Peers) == 0 || slices.ContainsFunc(p.Peers, func(name string) bool {
		return s.name == name || strings.HasPrefix(s.name, name+"-")
	})
}

// check refuses what cannot be measured.
func (p plan) check() error {
	for _, name := range p.Peers {
		if !slices.ContainsFunc(sides, plan{Peers: []string{name}}.take) {
			return fmt.Errorf("-peers: there is no %q", name)
		}
	}
	switch {
	case p.Rounds < 1 || p.Runs < 1 || p.InFlight < 1 || p.Jobs < 1 || p.Finished < 0:
		return errors.New("-rounds, -runs, -inflight and -jobs are at least 1, -finished at least 0")
	case p.Jobs < p.InFlight:
		return fmt.Errorf("-jobs %d: a job of rota has one run at a time, so -inflight %d needs as many jobs", p.Jobs, p.InFlight)
	case p.Only != "" && p.Only != "drain" && p.Only != "burst":
		return errors.New("-only is drain or burst")
	}
	for _, jobs := range p.Bursts {
		if jobs < 1 || jobs > 10_000 {
			return errors.New("-bursts: from 1 to 10000 jobs")
		}
	}
	return nil
}

// record is one side in one round.
type record struct {
	Side  string  `json:"side"`
	Round int     `json:"round"`
	Load  string  `json:"load,omitempty"` // averages, when it began
	F     figures `json:"figures"`
}

// trial is one thing that is measured: every side of it in every round.
type trial struct {
	Name     string            `json:"name"` // drain, or burst and its size
	Burst    int               `json:"burst,omitempty"`
	Sides    []string          `json:"sides"`    // rota first
	Versions map[string]string `json:"versions"` // of the peers
	Records  []record          `json:"records"`
	Failures []string          `json:"failures,omitempty"`
}

// harness runs a plan.
type harness struct {
	plan plan
	self string
	dir  string
	log  io.Writer
}

// run measures everything. Within a round each side has one turn, and the
// rounds follow each other, so that a busy minute of the machine meets all of
// them. A side that fails is told and left out of that round.
func (h *harness) run(ctx context.Context) ([]*trial, error) {
	if err := h.plan.check(); err != nil {
		return nil, err
	}
	var err error
	if h.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if h.dir, err = os.MkdirTemp(h.plan.dir, "rota-peers-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(h.dir)
	if err := h.buildRota(ctx); err != nil {
		return nil, err
	}
	trials := h.trials()
	if err := h.prefill(ctx, trials); err != nil {
		return nil, err
	}
	for round := 1; round <= h.plan.Rounds; round++ {
		for _, t := range trials {
			for _, name := range t.Sides {
				load := loadAverage()
				f, err := h.measure(ctx, t, name)
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				if err != nil {
					t.Failures = append(t.Failures, fmt.Sprintf("%s, round %d: %v", name, round, err))
					fmt.Fprintf(h.log, "round %d  %-12s %-12s failed: %v\n", round, t.Name, name, err)
					continue
				}
				t.Records = append(t.Records, record{Side: name, Round: round, Load: load, F: f})
				fmt.Fprintf(h.log, "round %d  %-12s %-12s %s\n", round, t.Name, name, f.brief())
			}
		}
	}
	return trials, nil
}

// trials lists what the plan asks for.
func (h *harness) trials() (all []*trial) {
	add := func(name string, burst int, has func(side) bool) {
		t := &trial{Name: name, Burst: burst, Sides: []string{rotaName}, Versions: map[string]string{}}
		for _, s := range sides {
			if has(s) && h.plan.take(s) {
				t.Sides = append(t.Sides, s.name)
				t.Versions[s.name] = s.version()
			}
		}
		if len(t.Sides) > 1 {
			all = append(all, t)
		}
	}
	if h.plan.Only != "burst" {
		add("drain", 0, func(s side) bool { return s.open != nil })
	}
	if h.plan.Only != "drain" {
		for _, jobs := range h.plan.Bursts {
			add("burst "+strconv.Itoa(jobs), jobs, func(s side) bool { return s.crons != nil })
		}
	}
	return all
}

// buildRota builds rota as its README says.
func (h *harness) buildRota(ctx context.Context) error {
	if h.plan.rota != "" {
		return nil
	}
	h.plan.rota = filepath.Join(h.dir, "rota")
	if runtime.GOOS == "windows" {
		h.plan.rota += ".exe"
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", h.plan.rota, "./cmd/rota")
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building rota (run this from its repository: go -C testdata/peers run .): %w\n%s", err, out)
	}
	return nil
}

// prefill makes the file of each queue peer once; a round gets a copy. rota
// bench fills its own, outside of what it measures.
func (h *harness) prefill(ctx context.Context, trials []*trial) error {
	for _, t := range trials {
		for _, name := range t.Sides {
			if s, ok := findSide(name); ok && s.prefill != nil {
				_, err := h.process(ctx, h.self, "side", name, "-file", h.template(name), "-prefill", strconv.Itoa(h.plan.Jobs*h.plan.Finished))
				if err != nil {
					return fmt.Errorf("%s: making its file: %w", name, err)
				}
			}
		}
	}
	return nil
}

func (h *harness) template(name string) string { return filepath.Join(h.dir, name+".template") }

// measure is one side's turn.
func (h *harness) measure(ctx context.Context, t *trial, name string) (figures, error) {
	p := h.plan
	if name == rotaName {
		finished := p.Jobs * p.Finished
		args := []string{"bench", "--history", strconv.Itoa(finished), "--durability", "full", "--json"}
		if t.Burst > 0 { // as many receipts as in a drain, over more or fewer jobs
			args = append(args, "--burst", strconv.Itoa(t.Burst), "--receipts", strconv.Itoa(min(finished/t.Burst, 1000)))
		} else {
			args = append(args, "--runs", strconv.Itoa(p.Runs), "--inflight", strconv.Itoa(p.InFlight), "--jobs", strconv.Itoa(p.Jobs), "--receipts", strconv.Itoa(p.Finished))
		}
		return h.durable(ctx, p.rota, args...)
	}
	if t.Burst > 0 {
		return h.process(ctx, h.self, "side", name, "-burst", strconv.Itoa(t.Burst))
	}
	file := filepath.Join(h.dir, "round.sqlite")
	defer func() {
		for _, tail := range []string{"", "-wal", "-shm"} {
			_ = os.Remove(file + tail) // a side that failed may have left none
		}
	}()
	if err := copyFile(h.template(name), file); err != nil {
		return figures{}, err
	}
	inFlight := p.InFlight
	if s, _ := findSide(name); s.inFlight > 0 {
		inFlight = s.inFlight
	}
	return h.durable(ctx, h.self, "side", name, "-file", file, "-runs", strconv.Itoa(p.Runs), "-inflight", strconv.Itoa(inFlight), "-limit", p.Limit.String())
}

// durable runs a side that must tell that it syncs each commit.
func (h *harness) durable(ctx context.Context, program string, args ...string) (figures, error) {
	f, err := h.process(ctx, program, args...)
	if err == nil && f.Durability != "full" {
		err = fmt.Errorf("it was measured at durability %q", f.Durability)
	}
	return f, err
}

// process runs one side to its end and reads its figures. Every side has its
// scratch files in the same directory, so on the same disk.
func (h *harness) process(ctx context.Context, program string, args ...string) (f figures, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+h.dir, "TMP="+h.dir, "TEMP="+h.dir)
	if err := cmd.Run(); err != nil {
		return f, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	if stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), &f); err != nil {
			return f, fmt.Errorf("it printed no figures: %w: %.200s", err, stdout.String())
		}
	}
	f.PeakBytes = peakBytes(cmd.ProcessState)
	return f, nil
}
