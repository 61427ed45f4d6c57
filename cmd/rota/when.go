package main

import (
	"fmt"
	"strings"
	"time"
)

// relative says how far an instant is from now: "in 5m", "2m ago".
func relative(atMs, nowMs int64) string {
	if atMs >= nowMs {
		return "in " + roughly(atMs-nowMs)
	}
	return roughly(nowMs-atMs) + " ago"
}

// roughly rounds a distance to one unit.
func roughly(ms int64) string {
	minutes := (ms + 30_000) / 60_000
	switch {
	case ms < 60_000:
		return "<1m"
	case minutes < 60:
		return fmt.Sprintf("%dm", minutes)
	case (minutes+30)/60 < 24:
		return fmt.Sprintf("%dh", (minutes+30)/60)
	}
	return fmt.Sprintf("%dd", ((minutes+30)/60+12)/24)
}

// exactly writes a duration with every unit it has: "1m 30s".
func exactly(ms int64) string {
	if ms == 0 {
		return "0ms"
	}
	var parts []string
	for _, unit := range []struct {
		ms   int64
		name string
	}{{86_400_000, "d"}, {3_600_000, "h"}, {60_000, "m"}, {1000, "s"}, {1, "ms"}} {
		if n := ms / unit.ms; n > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", n, unit.name))
			ms %= unit.ms
		}
	}
	return strings.Join(parts, " ")
}

// localTime is an instant on this machine's clock, with its offset.
func localTime(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02 15:04:05 -07:00") }

// localISO is the same for parsers, with milliseconds.
func localISO(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02T15:04:05.000-07:00") }
