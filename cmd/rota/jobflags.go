package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rota-scheduler/rota/schedule"
)

// jobFlags are the flags that describe a job, for add and edit.
type jobFlags struct {
	set *pflag.FlagSet

	name, displayName, description string
	agent, session, sessionKey     string
	wake                           string
	deleteAfterRun, keepAfterRun   bool

	at, every, cron, tz, stagger string
	exact                        bool

	catchUp, catchUpLimit, maxLateness, dst string

	run payloadFlags

	webhook               string
	noDeliver, bestEffort bool
}

func (f *jobFlags) register(set *pflag.FlagSet) {
	f.set = set
	set.StringVar(&f.name, "name", "", "name")
	set.StringVar(&f.displayName, "display-name", "", "name to show instead")
	set.StringVar(&f.description, "description", "", "what it is for")
	set.BoolVar(&f.deleteAfterRun, "delete-after-run", false, "remove a one-shot after it succeeded (the default)")
	set.BoolVar(&f.keepAfterRun, "keep-after-run", false, "keep a one-shot after it ran")
	set.StringVar(&f.agent, "agent", "", "agent that owns the job")
	set.StringVar(&f.session, "session", "", "isolated, current or session:<id>")
	set.StringVar(&f.sessionKey, "session-key", "", "session key")
	set.StringVar(&f.wake, "wake", "", "now or next-heartbeat")

	set.StringVar(&f.at, "at", "", "run once: an ISO timestamp, or a duration from now such as 20m")
	set.StringVar(&f.every, "every", "", "run at an interval: 10m, 1h, 1d")
	set.StringVar(&f.cron, "cron", "", "run by a cron expression of 5 or 6 fields")
	set.StringVar(&f.tz, "tz", "", "time zone, such as Europe/Oslo (default: the daemon's)")
	set.StringVar(&f.stagger, "stagger", "", "spread cron jobs over this long, such as 5m")
	set.BoolVar(&f.exact, "exact", false, "no spreading: run on the second")
	set.StringVar(&f.dst, "dst", "", "daylight saving: vixie or skip")
	set.StringVar(&f.catchUp, "catch-up", "", "missed slots: one (the newest), all, or skip")
	set.StringVar(&f.catchUpLimit, "catch-up-limit", "", "most missed slots that all runs")
	set.StringVar(&f.maxLateness, "max-lateness", "", "a missed slot older than this is not run")

	f.run.register(set)

	set.StringVar(&f.webhook, "webhook", "", "send the result of each run to this URL")
	set.BoolVar(&f.noDeliver, "no-deliver", false, "keep the result in the history alone")
	set.BoolVar(&f.bestEffort, "best-effort-deliver", false, "a result that cannot be sent does not fail the run")
}

// given reports whether a flag stands on the command line, even as empty.
func (f *jobFlags) given(flag string) bool { return f.set.Changed(flag) }

func (f *jobFlags) anyGiven(flags ...string) bool {
	for _, flag := range flags {
		if f.given(flag) {
			return true
		}
	}
	return false
}

// texts puts the plain members that were given; an empty one clears where
// clearable says so.
func (f *jobFlags) texts(into map[string]any) {
	for _, m := range []struct{ flag, key, value string }{
		{"name", "name", f.name}, {"display-name", "displayName", f.displayName}, {"description", "description", f.description},
		{"agent", "agentId", f.agent}, {"session", "sessionTarget", f.session}, {"session-key", "sessionKey", f.sessionKey},
		{"wake", "wakeMode", f.wake}, {"dst", "dst", f.dst},
	} {
		if f.given(m.flag) {
			into[m.key] = m.value
		}
	}
	if f.deleteAfterRun {
		into["deleteAfterRun"] = true
	}
	if f.keepAfterRun {
		into["deleteAfterRun"] = false
	}
	if delivery := f.deliveryParams(); delivery != nil {
		into["delivery"] = delivery
	}
}

// deliveryParams is where the flags send the result, nil when they do not say.
func (f *jobFlags) deliveryParams() map[string]any {
	switch {
	case f.noDeliver:
		// The channel is what clients of the contract store beside it.
		return map[string]any{"mode": "none", "channel": "last"}
	case f.given("webhook"):
		delivery := map[string]any{"mode": "webhook", "to": f.webhook}
		if f.given("best-effort-deliver") {
			delivery["bestEffort"] = f.bestEffort
		}
		return delivery
	case f.given("best-effort-deliver"):
		return map[string]any{"bestEffort": f.bestEffort}
	}
	return nil
}

func (f *jobFlags) check() error {
	if f.deleteAfterRun && f.keepAfterRun {
		return usage("Choose --delete-after-run or --keep-after-run, not both")
	}
	if f.anyGiven("stagger", "exact") && f.anyGiven("at", "every") {
		return usage("--stagger/--exact are only valid for cron schedules")
	}
	if f.given("stagger") && f.exact {
		return usage("Choose either --stagger or --exact, not both")
	}
	if f.given("tz") && f.given("every") {
		return usage("--tz is only valid for --cron and --at")
	}
	if f.noDeliver && f.anyGiven("webhook", "best-effort-deliver") {
		return usage("Choose either --no-deliver or --webhook, not both")
	}
	return nil
}

// catchUpPolicy is what the flags say of rota's own catchUp object, nil when
// none names it.
func (f *jobFlags) catchUpPolicy() (map[string]any, error) {
	if !f.anyGiven("catch-up", "catch-up-limit", "max-lateness") {
		return nil, nil
	}
	policy := map[string]any{}
	if f.given("catch-up") {
		policy["policy"] = f.catchUp
	}
	if f.given("catch-up-limit") {
		n, err := wholeNumber("--catch-up-limit", f.catchUpLimit, 1)
		if err != nil {
			return nil, err
		}
		policy["limit"] = n
	}
	if f.given("max-lateness") {
		ms, err := schedule.ParseDuration(f.maxLateness)
		if err != nil || ms <= 0 {
			return nil, badDuration("--max-lateness", err)
		}
		policy["maxLatenessMs"] = ms
	}
	return policy, nil
}

// newSchedule is the schedule that the flags name, nil when they name none.
func (f *jobFlags) newSchedule(nowMs int64) (map[string]any, error) {
	var chosen int
	for _, flag := range []string{"at", "every", "cron"} {
		if f.given(flag) {
			chosen++
		}
	}
	switch {
	case chosen > 1:
		return nil, usage("Choose exactly one schedule: --at, --every, or --cron")
	case f.given("at"):
		return f.atSchedule(nowMs)
	case f.given("every"):
		ms, err := schedule.ParseDuration(f.every)
		if err != nil || ms <= 0 {
			return nil, badDuration("--every", err)
		}
		return map[string]any{"kind": "every", "everyMs": ms}, nil
	case f.given("cron"):
		spec := map[string]any{"kind": "cron", "expr": f.cron}
		return spec, f.cronDetails(spec)
	}
	return nil, nil
}

// cronDetails puts zone and spreading into a cron schedule.
func (f *jobFlags) cronDetails(spec map[string]any) error {
	if f.given("tz") {
		spec["tz"] = f.tz
	}
	if f.given("stagger") {
		ms, err := schedule.ParseDuration(f.stagger)
		if err != nil || ms < 0 {
			return badDuration("--stagger", err)
		}
		spec["staggerMs"] = ms
	}
	if f.exact {
		spec["staggerMs"] = 0
	}
	return nil
}

// atSchedule takes a timestamp, or a duration from now with an optional plus.
func (f *jobFlags) atSchedule(nowMs int64) (map[string]any, error) {
	atMs, err := parseAtFlag(f.at, f.tz, nowMs)
	if err != nil {
		return nil, err
	}
	return map[string]any{"kind": "at", "at": schedule.FormatInstant(atMs)}, nil
}

// parseAtFlag reads --at. Digits alone are a timestamp, not a duration.
func parseAtFlag(text, tz string, nowMs int64) (int64, error) {
	text = strings.TrimSpace(text)
	span, relative := strings.CutPrefix(text, "+")
	digits := strings.Trim(span, "0123456789") == ""
	if relative || !digits {
		if ms, err := schedule.ParseDuration(span); err == nil && ms >= 0 {
			return nowMs + ms, nil
		}
	}
	var zone *schedule.Zone
	if tz != "" {
		var err error
		if zone, err = schedule.LoadZone(tz); err != nil {
			return 0, failureOf(err)
		}
	}
	atMs, err := schedule.ParseAt(text, zone)
	if err != nil {
		f := usage("Invalid --at. Use an ISO timestamp or a duration like 20m.")
		f.Field, f.Hint = "--at", reasonOf(err)
		return 0, f
	}
	return atMs, nil
}

func badDuration(flag string, err error) *failure {
	f := usage("Invalid %s. Use a duration like 10m, 1h, or 1d.", flag)
	f.Field = flag
	if err != nil {
		f.Hint = reasonOf(err)
	}
	return f
}

// reasonOf is what the schedule package said, with its hint.
func reasonOf(err error) string {
	f := failureOf(err)
	if f.Hint == "" {
		return f.Message
	}
	return f.Message + "; " + f.Hint
}

func wholeNumber(flag, text string, low int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil || n < low {
		f := usage("%s must be a whole number of at least %d, not %q", flag, low, text)
		f.Field = flag
		return 0, f
	}
	return n, nil
}

// hostZone is the zone of this machine, for previews without a daemon.
func hostZone() (*schedule.Zone, error) {
	link, _ := os.Readlink("/etc/localtime")
	etc, _ := os.ReadFile("/etc/timezone")
	name, ok := schedule.HostZoneName(os.Getenv("TZ"), link, string(etc))
	if !ok {
		return schedule.UTC(), nil
	}
	zone, err := schedule.LoadZone(name)
	if err != nil {
		return nil, fmt.Errorf("this machine's time zone: %w", err)
	}
	return zone, nil
}
