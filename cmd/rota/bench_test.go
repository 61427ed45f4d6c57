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
