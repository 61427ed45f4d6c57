package worker

import (
	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// Config is what the host pushes: a whole document, never a patch. It is
// installed between turns; a version at or below the installed one is ignored.
type Config struct {
	Version int64

	// Enabled says whether schedules fire. False freezes deadlines.
	Enabled bool
	// MaxConcurrent is how many runs may be active at once, whatever started
	// them. Defaults to 8.
	MaxConcurrent int
	// SkipMissed advances missed cron and every jobs at a start without running
	// them. A job's own catchUp wins.
	SkipMissed bool
	// CatchUpMaxImmediate missed jobs run at once at a start; each further one
	// waits CatchUpStaggerMs more. Default to 5 and 5,000.
	CatchUpMaxImmediate int
	CatchUpStaggerMs    int64
	// AgentDelayMs postpones missed agent work at a start. Defaults to 120,000.
	AgentDelayMs int64
	// ErrorBackoffMs and RetryBackoffMs are delays by failure number, the last
	// one repeating; RetryMax bounds transient retries.
	ErrorBackoffMs []int64
	RetryBackoffMs []int64
	RetryMax       int
	// RetryOn are the failure reasons that are worth another attempt.
	RetryOn []string
	// DisableFailures failed runs in a row, or DisableScheduleErrors failed
	// computations, turn a job off. Default to 10 and 3.
	DisableFailures       int
	DisableScheduleErrors int
	// Net says where http payloads and webhooks may connect.
	Net NetPolicy
	// WebhookToken goes to webhooks as a bearer token: to the hosts of
	// WebhookTokenHosts, or to every webhook when there are none.
	WebhookToken      Secret
	WebhookTokenHosts []string
	// DST is the daylight-saving rule of jobs that name none. Until somebody
	// chooses it, which DSTChosen says, a file that rota only opened keeps the
	// rule of the program that made it: skip.
	DST       schedule.DST
	DSTChosen bool
	// Zone is the zone of cron jobs created without one: an IANA name.
	Zone string
	// CleanupGraceMs is the time between TERM and KILL of a run that must end.
	// Defaults to 20,000.
	CleanupGraceMs int64
	// Retention: receipts a job, history days and rows a job, decision days,
	// events kept. Default to 16, 7, 2000, 7 and 100,000.
	ReceiptsPerJob    int
	HistoryDays       int
	HistoryRowsPerJob int
	DecisionDays      int
	Events            int
}

// DefaultConfig is the document of an installation without one.
func DefaultConfig() Config {
	return Config{
		Version:               1,
		Enabled:               true,
		MaxConcurrent:         8,
		CatchUpMaxImmediate:   5,
		CatchUpStaggerMs:      5_000,
		AgentDelayMs:          120_000,
		ErrorBackoffMs:        schedule.DefaultErrorBackoffMs(),
		RetryBackoffMs:        schedule.DefaultRetryBackoffMs(),
		RetryMax:              3,
		RetryOn:               []string{"rate_limit", "overloaded", "network", "timeout", "server_error"},
		DisableFailures:       10,
		DisableScheduleErrors: 3,
		Zone:                  "UTC",
		CleanupGraceMs:        20_000,
		ReceiptsPerJob:        16,
		HistoryDays:           7,
		HistoryRowsPerJob:     2000,
		DecisionDays:          7,
		Events:                100_000,
	}
}

// NetPolicy says which addresses http payloads and webhooks may reach. Private,
// loopback, link-local and other special addresses are refused unless it says
// otherwise; what counts is the address at connect time, not the name.
type NetPolicy struct {
	AllowedHosts []string // these hosts may be private; exact names or addresses, lower case
	BlockedHosts []string // these are refused, whatever else is allowed
	AllowPrivate bool     // every private address, loopback too
	// AllowBenchmark and AllowUniqueLocal open 198.18.0.0/15 and fc00::/7 alone.
	AllowBenchmark   bool
	AllowUniqueLocal bool
}

// Secret is text that no log, error or document shows.
type Secret string

const secretText = "[secret]"

func (Secret) String() string               { return secretText }
func (Secret) GoString() string             { return secretText }
func (Secret) MarshalText() ([]byte, error) { return []byte(secretText), nil }

// forFile is the configuration as it holds for one file.
func forFile(c *Config, s *store.Store) *Config {
	if c.DSTChosen || s.Made() || c.DST == schedule.Skip {
		return c
	}
	own := *c
	own.DST = schedule.Skip
	return &own
}

// receiptsKept is how many finished receipts a job keeps: in a file that rota
// only opened, as many as its other programs expect.
func receiptsKept(s *store.Store, c *Config) int {
	if s.Made() {
		return c.ReceiptsPerJob
	}
	return max(c.ReceiptsPerJob, 64)
}
