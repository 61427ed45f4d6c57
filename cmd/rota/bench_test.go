package main

import (
	"testing"
)

// BenchmarkWholePath is rota bench under the profiler's eyes: one iteration is
// one durable run, 256 in flight, from the request to the recorded end.
func BenchmarkWholePath(b *testing.B) {
	b.ReportAllocs()
	answer, err := bench(b.Context(), benchFlags{runs: max(b.N, 256), inFlight: 256, jobs: 1000, receipts: 16, history: 16_000, durability: "full"})
	if err != nil {
		b.Fatal(err)
	}
	stream := answer.(benchAnswer)
	b.ReportMetric(stream.RunsPerSecond, "runs/s")
	b.ReportMetric(stream.CommitsPerRun, "commits/run")
	b.ReportMetric(stream.Allocs, "stream-allocs/run")
}

// The figures of a small run are there, and those that can be known are right.
func TestBenchTellsWhatItCounts(t *testing.T) {
	answer, err := bench(t.Context(), benchFlags{runs: 60, inFlight: 8, jobs: 20, receipts: 2, history: 50, durability: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	a := answer.(benchAnswer)
	if a.Runs != 60 || a.Commits < 2 || a.Commits > 120 || a.RunsPerSecond <= 0 || a.LateP50Ms <= 0 || a.DoneP99Ms < a.LateP50Ms ||
		a.Allocs <= 0 || a.Saturation <= 0 || a.Saturation > 1 || a.Durability != "normal" {
		t.Errorf("%+v", a)
	}
	if a.WriteCalls != nil && (*a.WriteCalls <= 0 || *a.WrittenBytes <= 0) {
		t.Errorf("%v bytes in %v calls a run", *a.WrittenBytes, *a.WriteCalls)
	}
}

// Every job of a burst starts, and none before its second.
func TestBenchBurst(t *testing.T) {
	answer, err := bench(t.Context(), benchFlags{runs: 1, inFlight: 50, jobs: 50, burst: 50, durability: "normal"})
	if err != nil {
		t.Fatal(err)
	}
	if a := answer.(burstAnswer); a.Started != 50 || a.Lost != 0 || a.Early != 0 || a.LateMaxMs < a.LateP50Ms || a.LateP50Ms <= 0 {
		t.Errorf("%+v", a)
	}
}

func TestBenchRefusesWhatItCannotMeasure(t *testing.T) {
	for name, f := range map[string]benchFlags{
		"no runs":           {runs: 0, inFlight: 1, jobs: 1, durability: "full"},
		"too few jobs":      {runs: 1, inFlight: 9, jobs: 8, durability: "full"},
		"a burst too large": {runs: 1, inFlight: 9, jobs: 8, burst: 9, durability: "full"},
		"another promise":   {runs: 1, inFlight: 1, jobs: 1, durability: "some"},
	} {
		if _, err := bench(t.Context(), f); err == nil {
			t.Errorf("%s: it was measured", name)
		}
	}
}
