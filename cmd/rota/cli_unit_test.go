package main

import (
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	for _, c := range []struct{ in, text, lines string }{
		{"plain", "plain", "plain"},
		{"Überprüfung 日本語 🚀", "Überprüfung 日本語 🚀", "Überprüfung 日本語 🚀"},
		{"\x1b[31mred", `\x1b[31mred`, `\x1b[31mred`},
		{"a\nb\tc\r", `a\nb\tc\r`, "a\nb\tc\\r"},
		{"\u009b2J", `\x9b2J`, `\x9b2J`},
		{"\u202eevil", `\u202eevil`, `\u202eevil`},
		{"\x00\x7f", `\x00\x7f`, `\x00\x7f`},
		{"bad \xff byte", `bad \xff byte`, `bad \xff byte`},
		{"�", "�", "�"},
	} {
		if got := escapeText(c.in); got != c.text {
			t.Errorf("escapeText(%q) = %q, want %q", c.in, got, c.text)
		}
		if got := escapeLines(c.in); got != c.lines {
			t.Errorf("escapeLines(%q) = %q, want %q", c.in, got, c.lines)
		}
	}
}

func TestEscapeJSONKeepsTheValue(t *testing.T) {
	if got := string(escapeJSON([]byte("{\n  \"a\": \"\u009b\x7f\u202e日\"\n}\n"))); got != "{\n  \"a\": \"\\u009b\\u007f\\u202e日\"\n}\n" {
		t.Errorf("%q", got)
	}
}

func TestFit(t *testing.T) {
	for _, s := range []string{"", "abc", "exactly ten", strings.Repeat("x", 50), "日本語日本語日本語", "é́é́é́", "🚀🚀🚀🚀🚀🚀🚀", "a日b本c語d日e本"} {
		for _, width := range []int{10, 11} {
			got := fit(s, width)
			if cellsOf(got) != width {
				t.Errorf("fit(%q, %d) = %q, %d cells", s, width, got, cellsOf(got))
			}
			if cellsOf(s) > width && !strings.HasSuffix(strings.TrimRight(got, " "), "...") {
				t.Errorf("fit(%q, %d) = %q does not say that it was cut", s, width, got)
			}
		}
	}
}

func TestTimesInWords(t *testing.T) {
	const m, h, d = 60_000, 3_600_000, 86_400_000
	for _, c := range []struct {
		ms   int64
		want string
	}{{0, "in <1m"}, {59_999, "in <1m"}, {m, "in 1m"}, {5*m + 29_000, "in 5m"}, {59*m + 31_000, "in 1h"}, {19*h + 56*m, "in 20h"},
		{23*h + 54*m, "in 1d"}, {23 * h, "in 23h"}, {64 * d, "in 64d"}, {-2 * m, "2m ago"}, {-30_000, "<1m ago"}} {
		if got := relative(c.ms, 0); got != c.want {
			t.Errorf("relative(%d) = %q, want %q", c.ms, got, c.want)
		}
	}
	for _, c := range []struct {
		ms   int64
		want string
	}{{0, "0ms"}, {90_000, "1m 30s"}, {600_000, "10m"}, {7 * d, "7d"}, {d + 1, "1d 1ms"}, {1500, "1s 500ms"}} {
		if got := exactly(c.ms); got != c.want {
			t.Errorf("exactly(%d) = %q, want %q", c.ms, got, c.want)
		}
	}
}

func TestStatusWords(t *testing.T) {
	for _, c := range []struct{ job, want string }{
		{`{"enabled":true,"state":{}}`, "idle"},
		{`{"enabled":false,"state":{"runningAtMs":1}}`, "running"},
		{`{"enabled":false,"state":{"lastRunStatus":"ok"}}`, "disabled"},
		{`{"enabled":true,"state":{"lastStatus":"skipped"}}`, "skipped"},
		{`{"enabled":true,"state":{"lastRunStatus":"error","consecutiveErrors":1}}`, "error"},
		{`{"enabled":true,"state":{"lastRunStatus":"error","consecutiveErrors":3}}`, "error (3x)"},
		{`{"enabled":true,"state":{"lastRunStatus":"error","consecutiveErrors":100}}`, "error (99+x)"},
		{`{"enabled":false,"state":{"autoDisabled":{"reason":"consecutive-failures","consecutiveErrors":10}}}`, "disabled (10x)"},
		{`{"enabled":false,"state":{"autoDisabled":{"reason":"schedule-errors","consecutiveErrors":3}}}`, "disabled (schedule)"},
		{`{"enabled":true,"state":{"lastRunStatus":"ok","lastDeliveryStatus":"not-delivered"}}`, "ok (not delivered)"},
		{`{"enabled":true,"state":{"lastRunStatus":"ok","lastDeliveryStatus":"not-delivered","deliverySuppressionReason":"silent"}}`, "ok (suppressed)"},
	} {
		j, err := viewOf([]byte(c.job))
		if err != nil {
			t.Fatal(err)
		}
		if got := j.decoratedStatus(); got != c.want {
			t.Errorf("%s is %q, want %q", c.job, got, c.want)
		}
	}
}

func TestScheduleWords(t *testing.T) {
	for _, c := range []struct{ job, want string }{
		{`{"schedule":{"kind":"at","at":"2026-12-31T09:00:00.000Z"}}`, "at 2026-12-31 09:00Z"},
		{`{"schedule":{"kind":"every","everyMs":90000}}`, "every 1m 30s"},
		{`{"schedule":{"kind":"cron","expr":"0 9 * * *"}}`, "cron 0 9 * * *"},
		{`{"schedule":{"kind":"cron","expr":"0 9 * * *","tz":"Europe/Oslo","staggerMs":0}}`, "cron 0 9 * * * @ Europe/Oslo (exact)"},
		{`{"schedule":{"kind":"cron","expr":"0 * * * *","staggerMs":300000}}`, "cron 0 * * * * (stagger 5m)"},
		{`{"schedule":{"kind":"on-exit","command":"make","cwd":"/src"}}`, "on-exit make @ /src"},
		{`{"schedule":{"kind":"stream","command":["tail","-f"]},"trigger":{"script":"x"}}`, "stream tail -f +trigger"},
	} {
		j, err := viewOf([]byte(c.job))
		if err != nil {
			t.Fatal(err)
		}
		if got := j.scheduleText(); got != c.want {
			t.Errorf("%s is %q, want %q", c.job, got, c.want)
		}
	}
}
