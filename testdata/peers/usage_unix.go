//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakBytes is the largest resident size that an ended process had.
func peakBytes(state *os.ProcessState) int64 {
	u, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" { // it counts bytes, the others kilobytes
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) * 1024
}
