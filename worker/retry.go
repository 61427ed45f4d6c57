package worker

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
	"github.com/rota-scheduler/rota/worker/job"
)

// What a failed run means for its job's next one. A transient failure is tried
// again soon, a few times; any failure makes the job wait longer each time; too
// many in a row turn it off. All of it is read from the job's state, so that a
// restart neither shortens nor repeats a wait.

// pause is how long a job rests after a failed run.
type pause struct {
	retryMs   int64 // another attempt is worth it then; 0 = it is not
	backoffMs int64 // a slot of the schedule waits until then
}

// untilMs is when the job may run again at the earliest.
func (p pause) untilMs() int64 {
	if p.retryMs != 0 {
		return min(p.retryMs, p.backoffMs)
	}
	return p.backoffMs
}

// pauseAfter reads the pause after a run that ended at endMs from its job's
// state. None follows a good run, a skip, or a run that a restart interrupted:
// that was not the job's doing.
func (c *Config) pauseAfter(s *store.State, endMs int64) (p pause, ok bool) {
	if s.LastOutcome() != string(StatusError) || !s.LastRunAtMs.Set || s.LastRunInterruptionReason != "" {
		return pause{}, false
	}
	n := max(1, int(s.ConsecutiveErrors.N)) // an older file does not count
	p.backoffMs = endMs + schedule.Backoff(c.ErrorBackoffMs, n)
	if n <= c.RetryMax && c.transient(s.LastErrorReason, s.LastError) {
		p.retryMs = endMs + schedule.Backoff(c.RetryBackoffMs, n)
	}
	return p, true
}

// permanentReasons never get better by trying again.
var permanentReasons = []string{"auth", "auth_permanent", "billing", "format", "model_not_found", "tls_certificate"}

// transient reports whether a failure may be over at the next attempt: by its
// reason, else by its text.
func (c *Config) transient(reason, text string) bool {
	if slices.Contains(permanentReasons, reason) {
		return false
	}
	if slices.Contains(c.RetryOn, reason) {
		return true
	}
	if _, classified := transientText()[reason]; classified {
		return false // a reason that the configuration does not try again
	}
	for _, allowed := range c.RetryOn {
		if p := transientText()[allowed]; p != nil && p.MatchString(text) {
			return true
		}
	}
	return false
}

// transientText recognises a reason in the words of an error that has none.
// A bare 5xx number counts only where it can be nothing but an HTTP status.
var transientText = sync.OnceValue(func() map[string]*regexp.Regexp {
	return map[string]*regexp.Regexp{
		"rate_limit": regexp.MustCompile(`(?i)rate.?limit|too many requests|\b429\b|exhausted resource|resource.{0,9}exhausted|tokens per day`),
		"overloaded": regexp.MustCompile(`(?i)\b529\b|overloaded|high demand|capacity exceeded`),
		"network":    regexp.MustCompile(`(?i)\bnetwork\b|\bE(CONNRESET|CONNREFUSED|AI_AGAIN|HOSTUNREACH|NETUNREACH|PIPE|NOTFOUND)\b|connection (reset|refused)|socket hang up|fetch failed`),
		"timeout":    regexp.MustCompile(`(?i)\btime(d)?.?out\b|ETIMEDOUT|deadline exceeded|stalled before execution start`),
		"server_error": regexp.MustCompile(`(?i)\b(http|status)\b\D{0,12}\b5\d\d\b|\b5\d\d\b (internal server error|not implemented|bad gateway|service unavailable|gateway timeout)|` +
			`\b(internal server error|bad gateway|service unavailable|gateway timeout)\b|\b5xx\b|^\s*5\d\d\s*$`),
	}
})

// fail decides what a failed run means for a job that fires again: off, another
// attempt before its next slot, or a later deadline. Slots that the wait jumps
// over are recorded when it is over.
func (t *turn) fail(j *Job, r *Run, e *entry, endedAtMs int64) error {
	n := int(j.state().ConsecutiveErrors.N)
	if n >= t.cfg.DisableFailures && e.ErrorReason != "auth" && e.ErrorReason != "auth_permanent" {
		return t.autoDisable(j, "consecutive-failures", n)
	}
	p, ok := t.cfg.pauseAfter(j.state(), endedAtMs)
	naturalMs, has := j.NextRunMs()
	if !ok || !has || j.planGoesOn(r) {
		return nil // a planned slot is the next attempt, and waits for the pause
	}
	if j.def().Schedule.Kind == "cron" {
		freeMs := endedAtMs + refireGapMs
		if p.retryMs != 0 {
			p.retryMs = max(p.retryMs, freeMs)
		}
		p.backoffMs = max(p.backoffMs, freeMs)
	}
	switch {
	case naturalMs <= t.now && p.untilMs() <= t.now:
		return nil // the slot that waits is the next attempt
	case p.retryMs != 0 && p.retryMs < naturalMs:
		return t.retryAt(j, r, p.retryMs)
	case p.backoffMs > naturalMs:
		return t.retryAt(j, r, p.backoffMs)
	}
	return nil
}

// failOnce is fail for a one-shot: tried again a few times, then off and kept.
func (t *turn) failOnce(j *Job, r *Run, endedAtMs int64) error {
	if p, ok := t.cfg.pauseAfter(j.state(), endedAtMs); ok && p.retryMs != 0 && j.Enabled {
		return t.retryAt(j, r, p.retryMs)
	}
	return t.turnOff(j)
}

// restsUntil is when a job that failed may run again, 0 when it need not wait.
func (t *turn) restsUntil(j *Job) int64 {
	// The duration is monotonic: over a sleep the end is taken a little early. By
	// a clock that was ahead at the start it is taken for now.
	endMs := min(j.state().LastRunAtMs.N+max(0, j.state().LastDurationMs.N), t.now)
	p, ok := t.cfg.pauseAfter(j.state(), endMs)
	if !ok {
		return 0
	}
	return p.untilMs()
}

// retryAt makes an instant the job's next deadline: another attempt of the slot
// that failed first. One that has passed by the time the failure is told is now.
func (t *turn) retryAt(j *Job, r *Run, deadlineMs int64) error {
	deadlineMs = max(deadlineMs, t.now)
	if dueMs, ok := j.NextRunMs(); ok && dueMs <= t.now && !j.timedOneShot() {
		// A slot that was due and waited for this end waits longer than that.
		var err error
		if j, err = t.passWait(j); err != nil {
			return err
		}
		markMs, err := t.pass(j, max(dueMs-1, j.consumed().N), t.now, RuleBackoff, waited(j))
		if err != nil {
			return err
		}
		if j, err = t.editState(j, func(s *store.State) { s.RotaConsumedMs = store.Some(markMs) }); err != nil {
			return err
		}
	}
	originMs := r.OriginSlotMs
	if originMs == 0 {
		originMs = r.SlotMs
	}
	if originMs == 0 {
		originMs = j.consumed().N // a manual run that stood for the slot
	}
	retry := store.Retry{JobID: j.ID, DeadlineMs: deadlineMs, OriginMs: originMs, Attempt: max(1, r.Attempt) + 1}
	if err := store.PutRetry(t.tx, retry); err != nil {
		return err
	}
	t.wrote = true
	next := *j
	next.retry = &retry
	_, err := t.editState(&next, func(s *store.State) {
		s.NextRunAtMs = store.Some(deadlineMs)
		s.StartupCatchupAtMs, s.PacedNextRunAtMs, s.ForcePreservedNextRunAtMs = store.Int{}, store.Int{}, store.Int{}
	})
	return err
}

// forgetRetry drops the job's planned attempt: a run of its timetable has
// ended, or the timetable was replaced.
func (t *turn) forgetRetry(j *Job) (*Job, error) {
	if j.retry == nil {
		return j, nil
	}
	if err := store.DeleteRetry(t.tx, j.ID); err != nil {
		return nil, err
	}
	t.wrote = true
	next := *j
	next.retry = nil
	return t.putJob(&next), nil
}

// dropStaleRetry forgets a planned attempt whose deadline was replaced: by the
// operator, a catch-up, a corrected clock. The run that the attempt became still
// needs it.
func (t *turn) dropStaleRetry(j *Job) error {
	if j.retry == nil || j.next() == store.Some(j.retry.DeadlineMs) {
		return nil
	}
	if open, ok := t.st.open.Get(j.ID); ok && open.SlotMs == j.retry.DeadlineMs {
		return nil
	}
	_, err := t.forgetRetry(j)
	return err
}

// attempting reports whether the job's deadline is not one of its slots but a
// wait after a failure: one that rota planned, or one found in a file.
func (j *Job) attempting() (store.Retry, bool) {
	deadlineMs, ok := j.NextRunMs()
	if !ok {
		return store.Retry{}, false
	}
	if j.retry != nil && j.retry.DeadlineMs == deadlineMs {
		return *j.retry, true
	}
	if j.state().LastOutcome() != string(StatusError) || j.state().ConsecutiveErrors.N < 1 {
		return store.Retry{}, false
	}
	if slotMs, ok := j.timing.Prev(deadlineMs + 1); ok && slotMs == deadlineMs {
		return store.Retry{}, false
	}
	return store.Retry{JobID: j.ID, DeadlineMs: deadlineMs, Attempt: int(j.state().ConsecutiveErrors.N) + 1}, true
}

// passWait records the natural slots that have come and that a wait after a
// failure jumped over: those between the mark and the deadline. It gives the
// job with the mark behind them.
func (t *turn) passWait(j *Job) (*Job, error) {
	mark := j.consumed()
	deadlineMs, ok := j.NextRunMs()
	if !ok || !mark.Set || j.timedOneShot() {
		return j, nil
	}
	afterMs := max(mark.N, j.state().ScheduleActivatedAtMs.N)
	untilMs := min(t.now, deadlineMs-1)
	if untilMs <= afterMs {
		return j, nil
	}
	lastMs, err := t.pass(j, afterMs, untilMs, RuleBackoff, waited(j))
	if err != nil || lastMs == afterMs {
		return j, err
	}
	return t.editState(j, func(s *store.State) { s.RotaConsumedMs = store.Some(lastMs) })
}

// waited is the detail of slots that a wait after a failure jumped over.
func waited(j *Job) map[string]int64 {
	return map[string]int64{"consecutiveErrors": j.state().ConsecutiveErrors.N}
}

// autoDisable turns a job off that cannot go on by itself, and says why.
func (t *turn) autoDisable(j *Job, reason string, count int) error {
	detail, err := rawjson.Encode(struct {
		Reason            string `json:"reason"`
		AtMs              int64  `json:"atMs"`
		ConsecutiveErrors int    `json:"consecutiveErrors"`
	}{reason, t.now, count})
	if err != nil {
		return err
	}
	if j, err = t.passWait(j); err != nil {
		return err
	}
	markMs := j.consumed()
	if dueMs, ok := j.NextRunMs(); ok && dueMs <= t.now && markMs.Set && !j.timedOneShot() { // due, and not requested yet
		if markMs.N, err = t.pass(j, max(dueMs-1, markMs.N), t.now, RuleDisabled, nil); err != nil {
			return err
		}
		markMs.N = max(markMs.N, j.consumed().N)
	}
	j, err = t.editState(j, func(s *store.State) { s.AutoDisabled, s.RotaConsumedMs = detail, markMs })
	if err != nil {
		return err
	}
	if err := t.abandonPlan(j, job.Change{Disabled: true}); err != nil {
		return err
	}
	if err := store.DeletePlan(t.tx, j.ID, 0); err != nil {
		return err
	}
	j.plan = nil
	if err := t.turnOff(j); err != nil {
		return err
	}
	told, err := rawjson.Encode(map[string]json.RawMessage{"autoDisabled": detail})
	if err != nil {
		return err
	}
	return t.emit(Event{Kind: EventWarning, JobID: j.ID, Status: "auto-disabled", Detail: told})
}

// noteScheduleError counts one failure to compute a job's next deadline, and
// turns the job off after a few.
func (t *turn) noteScheduleError(j *Job) error {
	why, broken := strings.CutPrefix(j.SetAside, invalidSchedule)
	if !broken || !j.Enabled {
		return nil
	}
	n := int(j.state().ScheduleErrorCount.N) + 1
	j, err := t.editState(j, func(s *store.State) {
		s.ScheduleErrorCount, s.NextRunAtMs = store.Some(int64(n)), store.Int{}
		s.LastError = why
	})
	if err != nil || n < t.cfg.DisableScheduleErrors {
		return err
	}
	return t.autoDisable(j, "schedule-errors", n)
}
