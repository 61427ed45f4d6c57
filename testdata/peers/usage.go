package main

import (
	"bufio"
	"bytes"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// usage is what this process has used so far.
type usage struct {
	cpu             time.Duration
	mallocs         uint64
	written, writes int64 // bytes and calls of write; Linux alone tells
}

func readUsage() usage {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u := usage{cpu: cpuTime(), mallocs: mem.Mallocs}
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return u
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch key {
		case "wchar":
			u.written = n
		case "syscw":
			u.writes = n
		}
	}
	return u
}
