package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// machine is where the figures were measured: without it they say nothing.
type machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	System     string `json:"system"`
	FileSystem string `json:"fileSystem,omitempty"`
	Go         string `json:"go"`
	Load       string `json:"load,omitempty"`
	Date       string `json:"date"`
}

// thisMachine asks Linux for the details; elsewhere some are absent.
func thisMachine(dir string) machine {
	m := machine{
		CPU: runtime.GOARCH, Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), Load: loadAverage(), Date: time.Now().Format(time.DateOnly),
	}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.System += ", Linux " + strings.TrimSpace(string(text))
	}
	m.FileSystem = fileSystem(dir)
	return m
}

// fileSystem is the type of the innermost mount that holds the directory.
func fileSystem(dir string) (kind string) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return ""
	}
	longest := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		point := fields[1]
		inside := dir == point || strings.HasPrefix(dir, strings.TrimSuffix(point, "/")+"/")
		if inside && len(point) >= longest {
			longest, kind = len(point), fields[2]
		}
	}
	return kind
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
