package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
)

// configKeys is every key there is. A path that is a prefix of others is an
// object.
var configKeys = map[string]taker{
	"cron.enabled":           boolean(func(c *Config, v bool) { c.Worker.Enabled = v }),
	"cron.skipMissedJobs":    boolean(func(c *Config, v bool) { c.Worker.SkipMissed = v }),
	"cron.maxConcurrentRuns": whole(1, 10_000, func(c *Config, v int64) { c.Worker.MaxConcurrent = int(v) }),

	"cron.catchUp.maxImmediate": whole(0, 10_000, func(c *Config, v int64) { c.Worker.CatchUpMaxImmediate = int(v) }),
	"cron.catchUp.staggerMs":    whole(0, maxDelayMs, func(c *Config, v int64) { c.Worker.CatchUpStaggerMs = v }),
	"cron.catchUp.agentDelayMs": whole(0, maxDelayMs, func(c *Config, v int64) { c.Worker.AgentDelayMs = v }),

	"cron.errorBackoffMs":             delays(func(c *Config, v []int64) { c.Worker.ErrorBackoffMs = v }),
	"cron.retry.maxAttempts":          whole(0, 100, func(c *Config, v int64) { c.Worker.RetryMax = int(v) }),
	"cron.retry.backoffMs":            delays(func(c *Config, v []int64) { c.Worker.RetryBackoffMs = v }),
	"cron.retry.retryOn":              words(func(c *Config, v []string) { c.Worker.RetryOn = v }, "rate_limit", "overloaded", "network", "timeout", "server_error"),
	"cron.autoDisable.failures":       whole(1, 1_000_000, func(c *Config, v int64) { c.Worker.DisableFailures = int(v) }),
	"cron.autoDisable.scheduleErrors": whole(1, 1_000_000, func(c *Config, v int64) { c.Worker.DisableScheduleErrors = int(v) }),

	"cron.webhookToken":      token,
	"cron.webhookTokenHosts": hosts(1, func(c *Config, v []string) { c.Worker.WebhookTokenHosts = v }),

	"cron.webhookSsrfPolicy.allowedHostnames":               hosts(0, func(c *Config, v []string) { c.Worker.Net.AllowedHosts = v }),
	"cron.webhookSsrfPolicy.blockedHostnames":               hosts(0, func(c *Config, v []string) { c.Worker.Net.BlockedHosts = v }),
	"cron.webhookSsrfPolicy.dangerouslyAllowPrivateNetwork": boolean(func(c *Config, v bool) { c.Worker.Net.AllowPrivate = v }),
	"cron.webhookSsrfPolicy.allowRfc2544BenchmarkRange":     boolean(func(c *Config, v bool) { c.Worker.Net.AllowBenchmark = v }),
	"cron.webhookSsrfPolicy.allowIpv6UniqueLocalRange":      boolean(func(c *Config, v bool) { c.Worker.Net.AllowUniqueLocal = v }),

	"cron.rateLimit": whole(0, 1_000_000, func(c *Config, v int64) { c.RateLimit = int(v) }),

	"cron.dst":      dst,
	"cron.timezone": timezone,

	"cron.cleanupGraceSeconds": whole(0, 3600, func(c *Config, v int64) { c.Worker.CleanupGraceMs = v * 1000 }),

	"cron.retention.receiptsPerJob":    whole(1, 100_000, func(c *Config, v int64) { c.Worker.ReceiptsPerJob = int(v) }),
	"cron.retention.historyDays":       whole(1, 36_500, func(c *Config, v int64) { c.Worker.HistoryDays = int(v) }),
	"cron.retention.historyRowsPerJob": whole(1, 10_000_000, func(c *Config, v int64) { c.Worker.HistoryRowsPerJob = int(v) }),
	"cron.retention.decisionDays":      whole(1, 36_500, func(c *Config, v int64) { c.Worker.DecisionDays = int(v) }),
	"cron.retention.events":            whole(1, 10_000_000, func(c *Config, v int64) { c.Worker.Events = int(v) }),

	"cron.locking":    later(word(func(c *Config, v string) { c.Locking = v }, "exclusive", "normal")),
	"cron.durability": word(func(c *Config, v string) { c.Durability = v }, "full", "normal"),

	"cron.triggers.enabled":            carried(isBoolean),
	"cron.sessionRetention":            carried(isRetention),
	"cron.failureAlert.enabled":        carried(isBoolean),
	"cron.failureAlert.after":          carried(isWhole(1)),
	"cron.failureAlert.cooldownMs":     carried(isWhole(0)),
	"cron.failureAlert.includeSkipped": carried(isBoolean),
	"cron.failureAlert.mode":           carried(isText),
	"cron.failureAlert.accountId":      carried(isText),
	"cron.failureAlert.channel":        carried(isText),
	"cron.failureAlert.to":             carried(isText),
}

// retiredKeys are keys of older documents, each with what took its place.
var retiredKeys = map[string]string{
	"cron.webhook":                "each job names its own: \"delivery\":{\"mode\":\"webhook\",\"to\":URL}",
	"cron.store":                  "the database is named by rota serve --db FILE",
	"cron.runLog":                 "the history is in the database, and cron.retention bounds it",
	"cron.failureDestination":     "cron.failureAlert, or a job's own delivery.failureDestination, names where failures are told",
	"cron.triggers.minIntervalMs": "condition triggers are looked at every 30 s at most",
}

// maxDelayMs bounds a configured delay: 30 days.
const maxDelayMs = 30 * 24 * 3600 * 1000

// carried keeps a checked key for what does not exist yet.
func carried(check func(json.RawMessage) string) taker {
	return func(c *Config, path string, raw json.RawMessage) string {
		reason := check(raw)
		if reason == "" {
			c.Carried = append(c.Carried, path)
		}
		return reason
	}
}

// later takes a key whose place exists and whose rule does not act yet.
func later(take taker) taker {
	return func(c *Config, path string, raw json.RawMessage) string {
		return carried(func(raw json.RawMessage) string { return take(c, path, raw) })(c, path, raw)
	}
}

func boolean(put func(*Config, bool)) taker {
	return func(c *Config, _ string, raw json.RawMessage) string {
		reason := isBoolean(raw)
		if reason == "" {
			put(c, string(raw) == "true")
		}
		return reason
	}
}

func whole(low, high int64, put func(*Config, int64)) taker {
	return func(c *Config, _ string, raw json.RawMessage) string {
		v, ok := wholeOf(raw)
		if !ok || v < low || v > high {
			return fmt.Sprintf("must be a whole number from %d to %d", low, high)
		}
		put(c, v)
		return ""
	}
}

func delays(put func(*Config, []int64)) taker {
	return func(c *Config, _ string, raw json.RawMessage) string {
		const want = "must be an array of 1 to 20 delays in whole milliseconds, each at most 30 days"
		var items []json.RawMessage
		if json.Unmarshal(raw, &items) != nil || len(items) < 1 || len(items) > 20 {
			return want
		}
		list := make([]int64, 0, len(items))
		for _, item := range items {
			v, ok := wholeOf(item)
			if !ok || v < 0 || v > maxDelayMs {
				return want
			}
			list = append(list, v)
		}
		put(c, list)
		return ""
	}
}

func word(put func(*Config, string), allowed ...string) taker {
	return func(c *Config, _ string, raw json.RawMessage) string {
		s, ok := textOf(raw)
		if !ok || !slices.Contains(allowed, s) {
			return "must be one of: " + strings.Join(allowed, ", ")
		}
		put(c, s)
		return ""
	}
}

// words takes a list of words; an empty one is a list too.
func words(put func(*Config, []string), allowed ...string) taker {
	return func(c *Config, _ string, raw json.RawMessage) string {
		list, ok := textsOf(raw)
		for _, s := range list {
			ok = ok && slices.Contains(allowed, s)
		}
		if !ok {
			return "must be an array of: " + strings.Join(allowed, ", ")
		}
		slices.Sort(list)
		put(c, slices.Compact(list))
		return ""
	}
}

func dst(c *Config, _ string, raw json.RawMessage) string {
	s, _ := textOf(raw)
	rule, err := schedule.ParseDST(s)
	if err != nil {
		return "must be one of: vixie, skip"
	}
	c.Worker.DST, c.Worker.DSTChosen = rule, true
	return ""
}

func timezone(c *Config, _ string, raw json.RawMessage) string {
	s, ok := textOf(raw)
	if !ok {
		return `must be a zone name such as "Europe/Oslo"`
	}
	zone, err := schedule.LoadZone(s)
	if err != nil {
		return err.Error() + ` (write a name such as "Europe/Oslo")`
	}
	c.Zone, c.Worker.Zone = zone.Name(), zone.Name()
	return ""
}

func isBoolean(raw json.RawMessage) string {
	if s := string(raw); s != "true" && s != "false" {
		return "must be true or false"
	}
	return ""
}

func isText(raw json.RawMessage) string {
	if _, ok := textOf(raw); !ok {
		return "must be a string"
	}
	return ""
}

func isWhole(low int64) func(json.RawMessage) string {
	return func(raw json.RawMessage) string {
		if v, ok := wholeOf(raw); !ok || v < low {
			return fmt.Sprintf("must be a whole number of at least %d", low)
		}
		return ""
	}
}

// isRetention takes false, hours as a number, or a duration such as "24h".
func isRetention(raw json.RawMessage) string {
	if string(raw) == "false" {
		return ""
	}
	if v, ok := wholeOf(raw); ok && v >= 0 {
		return ""
	}
	if s, ok := textOf(raw); ok {
		if _, err := schedule.ParseDuration(s); err == nil {
			return ""
		}
	}
	return `must be false, a number of hours, or a duration such as "24h"`
}

func wholeOf(raw json.RawMessage) (int64, bool) {
	var v int64
	if string(raw) == "null" || json.Unmarshal(raw, &v) != nil {
		return 0, false
	}
	return v, true
}

func textsOf(raw json.RawMessage) ([]string, bool) {
	var list []string
	if string(raw) == "null" || json.Unmarshal(raw, &list) != nil {
		return nil, false
	}
	return list, true
}

func textOf(raw json.RawMessage) (string, bool) {
	var s string
	if string(raw) == "null" || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}
