package main

import (
	"runtime"
	"time"
)

// counted is what the process has used so far. Bytes and calls are those of
// write system calls, whatever they wrote to: the database, its log and the
// launch log.
type counted struct {
	writtenBytes, writeCalls int64 // -1 where the system does not tell
	allocs, allocatedBytes   uint64
	cpu                      time.Duration // 0 where the system does not tell
}

// countedPerRun is the same for each run: the figures of rota bench that do not
// depend on how busy the machine is.
type countedPerRun struct {
	WrittenBytes   *float64 `json:"writtenBytesPerRun,omitempty"`
	WriteCalls     *float64 `json:"writeCallsPerRun,omitempty"`
	Allocs         float64  `json:"allocsPerRun"`
	AllocatedBytes float64  `json:"allocatedBytesPerRun"`
	CPUUs          float64  `json:"cpuUsPerRun,omitempty"`
}

func countNow() counted {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c := counted{allocs: m.Mallocs, allocatedBytes: m.TotalAlloc}
	c.writtenBytes, c.writeCalls = writesSoFar()
	c.cpu = cpuSoFar()
	return c
}

func (c counted) since(was counted) counted {
	d := counted{c.writtenBytes - was.writtenBytes, c.writeCalls - was.writeCalls,
		c.allocs - was.allocs, c.allocatedBytes - was.allocatedBytes, c.cpu - was.cpu}
	if c.writeCalls < 0 {
		d.writtenBytes, d.writeCalls = -1, -1
	}
	return d
}

func (c counted) perRun(runs int) countedPerRun {
	n := float64(runs)
	p := countedPerRun{Allocs: float64(c.allocs) / n, AllocatedBytes: float64(c.allocatedBytes) / n, CPUUs: float64(c.cpu.Microseconds()) / n}
	if c.writeCalls >= 0 {
		bytes, calls := float64(c.writtenBytes)/n, float64(c.writeCalls)/n
		p.WrittenBytes, p.WriteCalls = &bytes, &calls
	}
	return p
}
