//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuSoFar is the processor time of this process and of those it waited for.
func cpuSoFar() time.Duration {
	total := time.Duration(0)
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}
