package job

import (
	"fmt"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Notes are what bites later if nobody says it at once: one sentence each,
// about a default that was filled in or a rule that will apply.

func duration(ms int64) string {
	text := (time.Duration(ms) * time.Millisecond).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if trimmed, ok := strings.CutSuffix(text, zero); ok {
			text = trimmed + zero[:1]
		}
	}
	return text
}

// durations lists delays: "30s, 1m and 5m".
func durations(list []int64) string {
	texts := make([]string, len(list))
	for i, ms := range list {
		texts[i] = duration(ms)
	}
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// failureRules fills in what follows failed runs where nobody told.
func (e Env) failureRules() Env {
	if e.ErrorBackoffMs == nil {
		e.ErrorBackoffMs = schedule.DefaultErrorBackoffMs()
		e.RetryOn = []string{"rate_limit", "overloaded", "network", "timeout", "server_error"}
		e.RetryMax, e.RetryBackoffMs = 3, schedule.DefaultRetryBackoffMs()
		e.DisableFailures = 10
	}
	return e
}

// retries says when a failed run is tried again, "" when none is.
func (e Env) retries() string {
	if e.RetryMax < 1 || len(e.RetryOn) == 0 || len(e.RetryBackoffMs) == 0 {
		return ""
	}
	times := "once"
	if e.RetryMax > 1 {
		times = fmt.Sprintf("up to %d times", e.RetryMax)
	}
	delays := e.RetryBackoffMs[:min(e.RetryMax, len(e.RetryBackoffMs))]
	return fmt.Sprintf("a run that fails for a passing reason (%s) is tried again %s, after %s",
		strings.Join(e.RetryOn, ", "), times, durations(delays))
}

// failureNotes say what follows a failed run.
func failureNotes(kind string, env Env) []string {
	env = env.failureRules()
	retries := env.retries()
	switch {
	case kind == "at" && retries == "":
		return []string{"a run that fails is not tried again: the job is disabled and kept"}
	case kind == "at":
		return []string{retries + "; after another failure, or the last try, the job is disabled and kept"}
	}
	var notes []string
	if retries != "" {
		notes = append(notes, retries+", unless the next slot comes first")
	}
	wait := "after a failed run the next one waits at least " + duration(env.ErrorBackoffMs[0])
	if more := env.ErrorBackoffMs[1:]; len(more) > 0 {
		wait += ", then " + durations(more) + ", while failures go on"
	}
	if env.DisableFailures > 0 {
		wait += fmt.Sprintf("; %d failures in a row switch the job off", env.DisableFailures)
	}
	return append(notes, wait)
}

// ruleNotes say which of a job's own rules do nothing, and which bound was
// filled in.
func ruleNotes(kind string, own *schedule.CatchUp, dst string) []string {
	var notes []string
	if dst != "" && kind != "cron" {
		notes = append(notes, "dst does nothing here: only cron schedules follow a wall clock")
	}
	if own == nil {
		return notes
	}
	if own.Policy == schedule.RunAll && own.Limit == 0 {
		notes = append(notes, fmt.Sprintf("of the slots missed while nothing ran, the newest %d are run; catchUp.limit sets another number", schedule.DefaultCatchUpLimit))
	}
	if own.Policy != schedule.RunAll && own.Limit != 0 {
		notes = append(notes, "catchUp.limit does nothing here: it belongs to the policy all")
	}
	if own.Policy == schedule.RunNone && own.MaxLatenessMs != 0 {
		notes = append(notes, "catchUp.maxLatenessMs does nothing here: the policy skip runs no missed slot")
	}
	return notes
}

// requestNotes say what an http payload leaves to defaults.
func requestNotes(p *HTTPPayload, okGiven, methodGiven bool) []string {
	var notes []string
	if !methodGiven && p.Body != "" {
		notes = append(notes, "the request is a POST, because it has a body; method sets another")
	}
	if !okGiven {
		notes = append(notes, "an answer other than 200-299 is a failed run, and redirects are not followed; okStatus names other answers")
	}
	return notes
}

// creationNotes adds the notes that hold for a new definition as a whole.
func (d *draft) creationNotes() error {
	def, err := Decode(d.encode())
	if err != nil {
		return err
	}
	given := func(key string) bool { return rawjson.Get(d.stored["payload"], key) != nil }
	if !given("timeoutSeconds") {
		d.notes = append(d.notes, "a run is ended after "+duration(defaultTimeoutMs)+", the default; timeoutSeconds sets another limit, 0 none")
	}
	if def.Payload.HTTP != nil {
		d.notes = append(d.notes, requestNotes(def.Payload.HTTP, given("okStatus"), given("method"))...)
	}
	d.notes = append(d.notes, failureNotes(d.spec.Kind, d.env)...)
	d.notes = append(d.notes, ruleNotes(d.spec.Kind, def.CatchUp, def.DST)...)
	for _, key := range []string{"completionDestination", "failureDestination"} {
		if rawjson.Get(d.stored["delivery"], key) != nil {
			d.notes = append(d.notes, "delivery."+key+" is kept and does nothing in this build")
		}
	}
	if def.DeleteAfterRun {
		d.notes = append(d.notes, "the job is deleted after a successful run; it runs at most once, and a run that a crash cuts short is recorded as interrupted, not repeated")
	}
	return nil
}
