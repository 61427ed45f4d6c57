//go:build unix

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// What may be wrong after crashes. The first group can be judged in the very
// moment after a kill, the second only when a start has settled everything.
const (
	crashDamaged     = "damaged"            // the file fails its integrity check
	crashLost        = "lost"               // promised, and no longer anywhere
	crashTwoEnds     = "two-ends"           // a run has two history entries
	crashTwoRuns     = "two-runs"           // one request key gave two runs
	crashSlotTwice   = "slot-twice"         // two runs of one slot of one job
	crashOffGrid     = "slot-off-grid"      // a run of a slot that the schedule does not have
	crashEffectTwice = "effect-twice"       // a run started twice
	crashUncommitted = "effect-uncommitted" // a run started that is not active in the ledger
	crashNoEffect    = "ok-without-effect"  // called ok, and nothing ran
	crashRefused     = "refused"            // a client was refused what it may ask for
	crashBadEnd      = "bad-end"            // neither ok nor interrupted by a restart

	crashUnfinished = "unfinished" // promised, and without an end
	crashStuck      = "stuck"      // open for ever, or a deadline that never comes
)

// crashViolation is one broken promise.
type crashViolation struct{ kind, what string }

func (v crashViolation) String() string { return v.kind + ": " + v.what }

// crashFacts are all that a judgement needs. The effects are read after the
// ledger: what the ledger calls done must be among them.
type crashFacts struct {
	acks    []crashAck
	ledger  *crashLedger
	effects []crashEffect
	refused []string
	// hooks and requests are what the receiver got, read before the ledger: what
	// it has answered is committed or kept there. unknown counts deliveries that a
	// kill cut off, kills how often that can have happened.
	hooks, requests []crashHook
	unknown, kills  int
	// stopped: the last daemon was stopped in order.
	stopped bool
	// settled: a start was given the time to settle everything and was stopped
	// in order, at stoppedAtMs. idle names recurring jobs that did not fire.
	settled     bool
	stoppedAtMs int64
	idle        []string
}

// crashVerdict collects violations.
type crashVerdict struct{ found []crashViolation }

func (v *crashVerdict) add(kind, format string, args ...any) {
	v.found = append(v.found, crashViolation{kind, fmt.Sprintf(format, args...)})
}

// judge holds the promises against the facts.
func (f *crashFacts) judge() []crashViolation {
	v := &crashVerdict{}
	if f.ledger.integrity != "ok" {
		v.add(crashDamaged, "%s", f.ledger.integrity)
	}
	for _, what := range f.refused {
		v.add(crashRefused, "%s", what)
	}
	ends := f.judgeEnds(v)
	f.judgePromises(v, ends)
	f.judgeSlots(v)
	f.judgeEffects(v, ends)
	f.judgeRequests(v, ends)
	f.judgeSends(v, ends)
	if f.stopped {
		for id, j := range f.ledger.jobs {
			if j.state.RunningAtMs != 0 && !f.ledger.outbox[j.state.RunningReceiptID] {
				v.add(crashStuck, "job %s (%s) is active after a stop in order", id, j.name)
			}
		}
	}
	if f.settled {
		f.judgeRest(v)
	}
	return v.found
}

// judgeEnds looks at the history alone and gives it by run.
func (f *crashFacts) judgeEnds(v *crashVerdict) map[string]crashRunRow {
	ends := map[string]crashRunRow{}
	for _, r := range f.ledger.runs {
		if first, twice := ends[r.RunID]; twice {
			v.add(crashTwoEnds, "run %s ended as %s and as %s", r.RunID, first.Status, r.Status)
		}
		ends[r.RunID] = r
		interrupted := r.Status == "error" && r.Interrupted != nil && r.Interrupted.Reason == "restart"
		if r.Status != "ok" && !interrupted {
			v.add(crashBadEnd, "run %s of job %s: %s %s", r.RunID, r.JobID, r.Status, r.Error)
		}
	}
	return ends
}

// judgePromises looks for everything that was acknowledged.
func (f *crashFacts) judgePromises(v *crashVerdict, ends map[string]crashRunRow) {
	open, jobEnds := map[string]bool{}, map[string]int{}
	for _, r := range f.ledger.receipts {
		open[r.runID] = open[r.runID] || r.status == "running"
	}
	for _, r := range f.ledger.runs {
		jobEnds[r.JobID]++
	}
	byKey := map[string]string{}
	for _, a := range f.acks {
		if a.RunID == "" {
			_, kept := f.ledger.jobs[a.JobID]
			switch {
			case !kept && jobEnds[a.JobID] == 0:
				v.add(crashLost, "job %s at %d", a.JobID, a.AtMs)
			case a.AtMs != 0 && f.settled && jobEnds[a.JobID] != 1:
				v.add(crashUnfinished, "one-shot job %s at %d ended %d times, not once", a.JobID, a.AtMs, jobEnds[a.JobID])
			}
			continue
		}
		if first, known := byKey[a.Key]; known && first != a.RunID {
			v.add(crashTwoRuns, "key %s: %s and %s", a.Key, first, a.RunID)
		}
		byKey[a.Key] = a.RunID
		if _, ended := ends[a.RunID]; ended {
			continue
		}
		switch {
		case !open[a.RunID]:
			v.add(crashLost, "run %s of key %s", a.RunID, a.Key)
		case f.settled:
			v.add(crashUnfinished, "run %s of key %s", a.RunID, a.Key)
		}
	}
}

// judgeSlots looks at slots: each once, and only those that the schedule has.
func (f *crashFacts) judgeSlots(v *crashVerdict) {
	type slot struct {
		jobID string
		ms    int64
	}
	runs := map[slot]string{}
	promised := map[string]int64{}
	for _, a := range f.acks {
		promised[a.JobID] = a.AtMs
	}
	see := func(jobID string, ms int64, runID string) {
		if ms == 0 {
			return
		}
		if first, known := runs[slot{jobID, ms}]; known {
			if first != runID {
				v.add(crashSlotTwice, "job %s slot %d: %s and %s", jobID, ms, first, runID)
			}
			return
		}
		runs[slot{jobID, ms}] = runID
		if j, kept := f.ledger.jobs[jobID]; kept && !j.has(ms) {
			v.add(crashOffGrid, "job %s (%s) has no slot %d", jobID, j.name, ms)
		}
		if atMs := promised[jobID]; atMs != 0 && atMs != ms {
			v.add(crashOffGrid, "one-shot job %s of %d has no slot %d", jobID, atMs, ms)
		}
	}
	for _, r := range f.ledger.runs {
		see(r.JobID, r.SlotMs, r.RunID)
	}
	for _, r := range f.ledger.receipts {
		see(r.jobID, r.slotMs, r.runID)
	}
}

// has reports whether a schedule has a slot. It is arithmetic on the few
// schedules of these tests, and not the program's own.
func (j *crashJobRow) has(slotMs int64) bool {
	switch j.Sched.Kind {
	case "every":
		return (slotMs-j.Sched.AnchorMs)%j.Sched.EveryMs == 0
	case "at":
		at, err := time.Parse(time.RFC3339, j.Sched.At)
		return err == nil && at.UnixMilli() == slotMs
	}
	step, ok := strings.CutPrefix(j.Sched.Expr, "*/")
	if !ok {
		return true // of another kind: not judged here
	}
	n, err := strconv.ParseInt(strings.Fields(step)[0], 10, 64)
	return err == nil && slotMs%1000 == 0 && slotMs/1000%60%n == 0
}

// judgeEffects holds what happened against what was allowed to.
func (f *crashFacts) judgeEffects(v *crashVerdict, ends map[string]crashRunRow) {
	active := map[string]bool{}
	for _, r := range f.ledger.receipts {
		j := f.ledger.jobs[r.jobID]
		if r.status == "running" && j.state.RunningReceiptID == r.id {
			active[r.runID] = true
		}
	}
	seen := map[string]crashEffect{}
	for _, e := range f.effects {
		if first, twice := seen[e.runID]; twice {
			v.add(crashEffectTwice, "run %s by process %d and by process %d", e.runID, first.pid, e.pid)
		}
		seen[e.runID] = e
		end, ended := ends[e.runID]
		if !ended && !active[e.runID] {
			v.add(crashUncommitted, "run %s by process %d", e.runID, e.pid)
		}
		if told := crashSlotText(end.SlotMs); ended && e.slot != told {
			v.add(crashOffGrid, "run %s was told slot %s, its entry says %s", e.runID, e.slot, told)
		}
	}
	for id, r := range ends {
		if _, ran := seen[id]; r.Status == "ok" && !ran && !f.ledger.jobs[r.JobID].requests {
			v.add(crashNoEffect, "run %s of job %s", id, r.JobID)
		}
	}
}

func crashSlotText(ms int64) string {
	if ms == 0 {
		return "-"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// crashSlackMs is how far behind a deadline may be at an orderly stop: the
// clock goes on while the last turn ends.
const crashSlackMs = 5000

// judgeRest looks for what stays for ever.
func (f *crashFacts) judgeRest(v *crashVerdict) {
	for _, r := range f.ledger.receipts {
		if r.status == "running" && !f.ledger.outbox[r.id] { // a delivery goes on with the next start
			v.add(crashStuck, "receipt %s of job %s is open", r.id, r.jobID)
		}
	}
	for id, j := range f.ledger.jobs {
		if j.state.QueuedAtMs != 0 || j.state.RunningAtMs != 0 && !f.ledger.outbox[j.state.RunningReceiptID] {
			v.add(crashStuck, "job %s (%s) carries a marker: %+v", id, j.name, j.state)
		}
		if j.enabled && j.state.NextRunAtMs < f.stoppedAtMs-crashSlackMs {
			v.add(crashStuck, "job %s (%s) has its next run at %d, stopped at %d", id, j.name, j.state.NextRunAtMs, f.stoppedAtMs)
		}
	}
	if f.ledger.plans > 0 {
		v.add(crashStuck, "%d late runs are planned and over", f.ledger.plans)
	}
	for _, name := range f.idle {
		v.add(crashStuck, "job %s does not fire any more", name)
	}
}
