//go:build unix

package main

import (
	"slices"
	"testing"
)

// soundCrashFacts is a small ledger in which nothing is wrong: a timed run and
// a manual one that are ok, an interrupted one, and a run that is active.
func soundCrashFacts() *crashFacts {
	const slotMs = 1_700_000_001_000
	l := &crashLedger{integrity: "ok", jobs: map[string]crashJobRow{}}
	every := crashJobRow{name: "every", enabled: true}
	every.Sched.Kind, every.Sched.EveryMs, every.Sched.AnchorMs = "every", 1000, 1_700_000_000_000
	every.state.NextRunAtMs = slotMs + 1000
	busy := crashJobRow{name: "busy"}
	busy.state.RunningAtMs, busy.state.RunningReceiptID = slotMs, "receipt-active"
	l.jobs["every"], l.jobs["busy"] = every, busy
	cut := crashRunRow{JobID: "busy", RunID: "cut", Status: "error"}
	cut.Interrupted = &struct {
		Reason string `json:"reason"`
	}{"restart"}
	l.runs = []crashRunRow{{JobID: "every", RunID: "timed", Status: "ok", SlotMs: slotMs}, {JobID: "busy", RunID: "asked", Status: "ok"}, cut}
	l.receipts = []crashReceiptRow{
		{"receipt-timed", "every", "timed", "ok", slotMs}, {"receipt-active", "busy", "active", "running", 0}}
	return &crashFacts{
		ledger: l, stoppedAtMs: slotMs,
		acks:    []crashAck{{JobID: "busy"}, {JobID: "busy", Key: "k1", RunID: "asked"}, {JobID: "busy", Key: "k2", RunID: "active"}},
		effects: []crashEffect{{"timed", crashSlotText(slotMs), 11}, {"asked", "-", 12}, {"active", "-", 13}},
	}
}

// Each kind of violation is found in a ledger that is broken in that one way.
// A settled look at the sound ledger would complain of its active run.
func TestTheJudgeFindsEachViolation(t *testing.T) {
	if found := soundCrashFacts().judge(); len(found) > 0 {
		t.Fatalf("found in sound facts: %v", found)
	}
	for _, c := range []struct {
		kind  string
		spoil func(*crashFacts)
	}{
		{crashDamaged, func(f *crashFacts) { f.ledger.integrity = "row 3 missing from index" }},
		{crashRefused, func(f *crashFacts) { f.refused = []string{"not found"} }},
		{crashLost, func(f *crashFacts) { f.acks[1].RunID = "nowhere" }},
		{crashLost, func(f *crashFacts) { f.acks[0].JobID = "nowhere" }},
		{crashTwoEnds, func(f *crashFacts) { f.ledger.runs = append(f.ledger.runs, f.ledger.runs[0]) }},
		{crashTwoRuns, func(f *crashFacts) { f.acks[2].Key = "k1" }},
		{crashSlotTwice, func(f *crashFacts) { f.ledger.receipts[0].runID = "another" }},
		{crashSlotTwice, func(f *crashFacts) {
			f.ledger.runs = append(f.ledger.runs, crashRunRow{JobID: "every", RunID: "another", Status: "error", SlotMs: f.ledger.runs[0].SlotMs})
		}},
		{crashOffGrid, func(f *crashFacts) { f.ledger.runs[0].SlotMs += 7 }},
		{crashOffGrid, func(f *crashFacts) { f.effects[0].slot = "-" }},
		{crashOffGrid, func(f *crashFacts) { f.acks[0] = crashAck{JobID: "every", AtMs: 1} }},
		{crashEffectTwice, func(f *crashFacts) { f.effects = append(f.effects, crashEffect{"asked", "-", 14}) }},
		{crashUncommitted, func(f *crashFacts) { f.effects = append(f.effects, crashEffect{"unheard of", "-", 14}) }},
		{crashUncommitted, func(f *crashFacts) {
			j := f.ledger.jobs["busy"]
			j.state.RunningReceiptID = "" // it waits, and yet it ran
			f.ledger.jobs["busy"] = j
		}},
		{crashNoEffect, func(f *crashFacts) { f.effects = f.effects[1:] }},
		{crashBadEnd, func(f *crashFacts) { f.ledger.runs[2].Interrupted = nil }},
		{crashBadEnd, func(f *crashFacts) { f.ledger.runs[1].Status = "skipped" }},
		{crashUnfinished, func(f *crashFacts) { f.settled = true }},
		{crashStuck, func(f *crashFacts) { f.stopped = true }},
		{crashStuck, func(f *crashFacts) { f.settled = true }},
		{crashStuck, func(f *crashFacts) { f.settled, f.idle = true, []string{"every"} }},
	} {
		f := soundCrashFacts()
		c.spoil(f)
		found := f.judge()
		if !slices.ContainsFunc(found, func(v crashViolation) bool { return v.kind == c.kind }) {
			t.Errorf("%s is not found: %v", c.kind, found)
		}
	}
}
