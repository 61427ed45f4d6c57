package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

const dailyAtNoon = `{"kind":"cron","expr":"0 12 * * *","tz":"UTC","staggerMs":0}`

// failWith ends the newest run after it took some time.
func (d *desk) failWith(took time.Duration, reason, text string) {
	d.t.Helper()
	l := d.last()
	d.advance(took)
	d.w.outcomes.put(Outcome{ReceiptID: l.ReceiptID, Status: StatusError, Kind: KindExit, Error: text, ErrorReason: reason,
		StartedAtMs: l.RunAtMs, EndedAtMs: d.nowMs, DurationMs: d.nowMs - l.RunAtMs})
	d.turn()
}

// TestErrorBackoffCountsFromTheEndOfTheRun: what fails for good waits longer
// each time, and the next deadline is the later of that and the natural slot.
func TestErrorBackoffCountsFromTheEndOfTheRun(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:30Z")
	d.add("j", everyMinute)
	d.advance(30 * time.Second)
	wants := []string{
		"2026-10-01T12:01:00.000Z", // 30 s after 12:00:05 is before the next slot
		"2026-10-01T12:02:05.000Z", // 1 min after 12:01:05
		"2026-10-01T12:07:10.000Z", // 5 min
		"2026-10-01T12:22:15.000Z", // 15 min
		"2026-10-01T13:22:20.000Z", // an hour, and so on
		"2026-10-01T14:22:25.000Z",
	}
	for i, want := range wants {
		d.failWith(5*time.Second, "unknown", "command exited with code 3")
		d.wantNext("j", want)
		if n := d.job("j").state().ConsecutiveErrors.N; n != int64(i+1) {
			t.Errorf("%d consecutive errors after %d failures", n, i+1)
		}
		d.advance(time.Duration(at(t, want)-d.nowMs) * time.Millisecond)
	}
	l := d.last()
	if l.Trigger != TriggerRetry || l.Attempt != 6 {
		t.Errorf("the newest attempt is %s %d", l.Trigger, l.Attempt)
	}
	got := strings.Join(d.decisions("j"), "\n")
	want := strings.Join([]string{
		"backoff 2026-10-01T12:02:00Z..2026-10-01T12:02:00Z x1",
		"backoff 2026-10-01T12:03:00Z..2026-10-01T12:07:00Z x5",
		"backoff 2026-10-01T12:08:00Z..2026-10-01T12:22:00Z x15",
		"backoff 2026-10-01T12:23:00Z..2026-10-01T13:22:00Z x60",
		"backoff 2026-10-01T13:23:00Z..2026-10-01T14:22:00Z x60",
	}, "\n")
	if got != want {
		t.Errorf("decisions\n%s\nwant\n%s", got, want)
	}
}

// TestCase120RetriesComeWhenTheTableSays: a daily job with a passing failure is
// tried again soon and keeps its next day; a restart in the wait changes
// nothing; success resets the counter.
func TestCase120RetriesComeWhenTheTableSays(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.cfg.RetryBackoffMs, d.cfg.Version = []int64{5_000, 25_000, 120_000}, 2
	d.w.Configure(d.cfg)
	d.add("j", dailyAtNoon)
	d.advance(time.Minute)
	d.failWith(0, "network", "connection reset")
	d.wantNext("j", "2026-10-01T12:00:05.000Z")
	d.advance(5 * time.Second)
	d.failWith(0, "network", "connection reset")
	d.wantNext("j", "2026-10-01T12:00:30.000Z")
	d.restart(10 * time.Second)
	d.wantNext("j", "2026-10-01T12:00:30.000Z")
	d.advance(15 * time.Second)
	d.failWith(0, "network", "connection reset")
	d.wantNext("j", "2026-10-01T12:02:30.000Z")
	d.advance(2 * time.Minute)
	d.wantSlots("2026-10-01T12:00:00.000Z", "2026-10-01T12:00:05.000Z", "2026-10-01T12:00:30.000Z", "2026-10-01T12:02:30.000Z")
	for i, l := range d.launched {
		if want := []Trigger{TriggerTimer, TriggerRetry, TriggerRetry, TriggerRetry}[i]; l.Trigger != want || l.Attempt != i+1 {
			t.Errorf("run %d is %s, attempt %d", i, l.Trigger, l.Attempt)
		}
	}
	// The fourth failure in a row is not tried again before the next day.
	d.failWith(0, "network", "connection reset")
	d.wantNext("j", "2026-10-02T12:00:00.000Z")
	origins := d.query(`SELECT detail_json ->> '$.originSlotMs' FROM task_runs WHERE detail_json ->> '$.trigger' = 'retry'`)
	if want := fmt.Sprint(at(t, "2026-10-01T12:00:00Z")); strings.Join(origins, " ") != strings.Join([]string{want, want, want}, " ") {
		t.Errorf("origins %v, want %s each", origins, want)
	}
	d.advance(24 * time.Hour)
	d.end(d.last(), StatusOK)
	if n := d.job("j").state().ConsecutiveErrors.N; n != 0 {
		t.Errorf("%d consecutive errors after a success", n)
	}
	d.wantNext("j", "2026-10-03T12:00:00.000Z")
}

// TestOneShotRetries: a one-shot is tried again while its failure may pass and
// attempts are left; a lasting failure, or the fourth in a row, disables it and
// keeps it, also when it should be deleted after its run.
func TestOneShotRetries(t *testing.T) {
	for _, c := range []struct {
		covers, reason, text string
		runs                 int
	}{
		{"TR2", "", "HTTP 429 too many requests", 4},
		{"TR2 by reason", "rate_limit", "slow down", 4},
		{"lasting", "unknown", "command exited with code 7", 1},
		{"auth", "auth", "status 503 while refreshing the token", 1},
	} {
		t.Run(c.covers, func(t *testing.T) {
			d := deskAt(t, "2026-10-01T11:59:00Z")
			d.add("j", `{"kind":"at","at":"2026-10-01T12:00:00Z"}`, `,"deleteAfterRun":true`)
			d.advance(time.Minute)
			for range 10 {
				if d.w.st.active.Len() == 0 {
					break
				}
				if !d.job("j").Enabled {
					t.Error("disabled while it runs")
				}
				d.failWith(time.Second, c.reason, c.text)
				d.advance(10 * time.Minute)
			}
			if len(d.launched) != c.runs {
				t.Errorf("%d executions, want %d", len(d.launched), c.runs)
			}
			if j := d.job("j"); j.Enabled || j.next().Set {
				t.Errorf("enabled %v, next %v", j.Enabled, j.next())
			}
		})
	}
	t.Run("TR21", func(t *testing.T) {
		d := deskAt(t, "2026-10-01T11:59:00Z")
		d.add("j", `{"kind":"at","at":"2026-10-01T12:00:00Z"}`, `,"deleteAfterRun":true`)
		d.advance(time.Minute)
		d.failWith(time.Second, "", "529 overloaded")
		d.wantNext("j", "2026-10-01T12:00:31.000Z")
		d.advance(30 * time.Second)
		d.end(d.last(), StatusOK)
		if _, ok := d.w.Snapshot().Job("j"); ok || len(d.launched) != 2 {
			t.Errorf("%d executions, the job is still there: %v", len(d.launched), ok)
		}
	})
	t.Run("TR22", func(t *testing.T) {
		d := deskAt(t, "2026-10-01T11:59:00Z")
		d.cfg.RetryMax, d.cfg.RetryBackoffMs, d.cfg.Version = 2, []int64{1000, 2000}, 2
		d.w.Configure(d.cfg)
		d.add("j", `{"kind":"at","at":"2026-10-01T12:00:00Z"}`)
		d.advance(time.Minute)
		for range 3 {
			d.failWith(0, "timeout", "timed out")
			d.advance(5 * time.Second)
		}
		if len(d.launched) != 3 || d.job("j").Enabled {
			t.Errorf("%d executions, enabled %v", len(d.launched), d.job("j").Enabled)
		}
	})
}

// TestTransientFailures: what is worth another attempt, by reason and by text.
// A number alone is no HTTP status unless the text is nothing else.
func TestTransientFailures(t *testing.T) {
	all := DefaultConfig()
	only := func(reasons ...string) *Config { c := all; c.RetryOn = reasons; return &c }
	for _, c := range []struct {
		cfg          *Config
		reason, text string
		want         bool
	}{
		{&all, "rate_limit", "", true},
		{&all, "unknown", "Rate limit reached", true},
		{&all, "", "too many tokens per day", true},
		{&all, "", "the model is overloaded", true},
		{&all, "", "connect ECONNREFUSED 10.0.0.7:443", true},
		{&all, "", "getaddrinfo EAI_AGAIN example.org", true},
		{&all, "", "request timed out", true},
		{&all, "", "stalled before execution start", true},
		{&all, "", "HTTP 502 from upstream", true},
		{&all, "", "status: 500", true},
		{&all, "", "503 Service Unavailable", true},
		{&all, "", "  500 ", true},
		{&all, "", "upstream answered 5xx", true},
		{&all, "", "command exited with code 3", false},
		{&all, "", "imported 500 rows, then failed", false},
		{&all, "", "order 503 is not known", false},
		{&all, "", "", false},
		{&all, "billing", "HTTP 503", false},
		{&all, "auth", "timed out", false},
		{&all, "tls_certificate", "network error", false},
		{only("overloaded"), "", "HTTP 529 overloaded", true},                     // TR23
		{only("server_error"), "", "status 500 internal server error", true},      // TR23
		{only("server_error"), "", "rate limit", false},                           // not allowed
		{only("server_error"), "rate_limit", "status 500, rate limit hit", false}, // the reason is known
		{only(), "timeout", "timed out", false},
	} {
		if got := c.cfg.transient(c.reason, c.text); got != c.want {
			t.Errorf("transient(%q, %q) on %v is %v", c.reason, c.text, c.cfg.RetryOn, got)
		}
	}
}

// TestTenFailuresTurnAJobOff, and enabling it starts a new count. Failures of
// authorization do not count towards it: they are for the owner to mend.
func TestTenFailuresTurnAJobOff(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.add("j", everyMinute)
	d.add("login", everyMinute)
	for len(d.launched) < 26 && d.nowMs < at(t, "2026-10-03T00:00:00Z") {
		d.advance(time.Minute)
		for r := range d.w.st.active.Values() {
			reason := "unknown"
			if r.JobID == "login" {
				reason = "auth"
			}
			d.w.outcomes.put(Outcome{ReceiptID: r.ReceiptID, Status: StatusError, Kind: KindExit, Error: "no", ErrorReason: reason, EndedAtMs: d.nowMs})
		}
		d.turn()
	}
	j := d.job("j")
	var off struct {
		Reason            string
		AtMs              int64
		ConsecutiveErrors int
	}
	if err := json.Unmarshal(j.state().AutoDisabled, &off); err != nil || j.Enabled || j.next().Set ||
		off.Reason != "consecutive-failures" || off.ConsecutiveErrors != 10 || off.AtMs == 0 {
		t.Errorf("enabled %v, autoDisabled %s %v", j.Enabled, j.state().AutoDisabled, err)
	}
	if !d.job("login").Enabled {
		t.Error("a job that may not log in was turned off")
	}
	if rows := d.query(`SELECT status FROM rota_events WHERE kind = 'warning' AND job_id = 'j'`); len(rows) != 1 {
		t.Errorf("%d warnings", len(rows))
	}
	must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":true}`)})
	if j := d.job("j"); j.state().AutoDisabled != nil || j.state().ConsecutiveErrors.N != 0 || !j.Enabled {
		t.Errorf("after enabling: %s", j.State)
	}
}

// TestAJobThatIsTurnedOffLosesNoSlotUnrecorded tells of a job's last failure in
// the turn in which slots of it are due: each has its row, also after someone
// turns the job on again.
func TestAJobThatIsTurnedOffLosesNoSlotUnrecorded(t *testing.T) {
	for _, c := range []struct {
		what        string
		laterMs     int64 // the worker hears of the end so much after the start
		asleep      bool
		toMs, slots int64 // the slots of that time
	}{
		{"in the second of a slot", 61_000, false, 60_000, 1},
		{"after a sleep", 8 * 3_600_000, true, 8 * 3_600_000, 480},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newDesk(t)
			d.cfg.Version, d.cfg.DisableFailures = 2, 1
			d.w.Configure(d.cfg)
			d.turn()
			d.add("j", `{"kind":"cron","expr":"* * * * *","tz":"UTC"}`)
			d.advance(time.Minute)
			startMs := d.nowMs
			d.nowMs += c.laterMs
			if !c.asleep {
				d.monoMs += c.laterMs
			}
			d.end(d.last(), StatusError)
			want := fmt.Sprintf("disabled %d..%d x%d", startMs+60_000, startMs+c.toMs, c.slots)
			if got := d.query(`SELECT rule || ' ' || from_ms || '..' || to_ms || ' x' || slots FROM rota_slots`); len(got) != 1 || got[0] != want {
				t.Errorf("decisions %q, want %q", got, want)
			}
			must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(`{"enabled":true}`)})
			if got := d.job("j").ConsumedMs(); got != startMs+c.toMs {
				t.Errorf("the mark is %d, want %d", got, startMs+c.toMs)
			}
		})
	}
}

// TestAManualFailureCountsAndMovesNothing: the streak grows, the deadline and a
// pending attempt stay.
func TestAManualFailureCountsAndMovesNothing(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.add("j", dailyAtNoon)
	d.advance(time.Minute)
	d.failWith(0, "timeout", "timed out")
	d.wantNext("j", "2026-10-01T12:00:30.000Z")
	must[RunAnswer](d, RunJob{ID: "j", Mode: "force", Key: "k"})
	d.failWith(time.Second, "unknown", "command exited with code 3")
	d.wantNext("j", "2026-10-01T12:00:30.000Z")
	if n := d.job("j").state().ConsecutiveErrors.N; n != 2 {
		t.Errorf("%d consecutive errors", n)
	}
	d.advance(29 * time.Second)
	if l := d.last(); l.Trigger != TriggerRetry || l.Attempt != 2 {
		t.Errorf("then %s, attempt %d", l.Trigger, l.Attempt)
	}
}

// TestAManualRunInModeDueIsTheAttempt that was due: it counts on, and leaves no
// row at an instant that is no slot.
func TestAManualRunInModeDueIsTheAttempt(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.add("j", dailyAtNoon)
	d.advance(time.Minute)
	d.failWith(0, "timeout", "timed out")
	d.nowMs += 31_000 // due, and not requested yet
	d.monoMs += 31_000
	must[RunAnswer](d, RunJob{ID: "j", Mode: "due", Key: "k"})
	if l := d.last(); l.Trigger != TriggerManual || l.Attempt != 2 || len(d.decisions("j")) != 0 {
		t.Errorf("%s, attempt %d, decisions %v", l.Trigger, l.Attempt, d.decisions("j"))
	}
	d.failWith(0, "timeout", "timed out")
	d.advance(time.Minute)
	if l := d.last(); l.Trigger != TriggerRetry || l.Attempt != 3 {
		t.Errorf("then %s, attempt %d", l.Trigger, l.Attempt)
	}
}

// TestAFailureAfterASleepWaitsFromItsEnd, and not from where its monotonic
// duration would put it.
func TestAFailureAfterASleepWaitsFromItsEnd(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.add("j", dailyAtNoon)
	d.advance(time.Minute)
	d.sleep(2 * time.Hour)
	d.w.outcomes.put(Outcome{ReceiptID: d.last().ReceiptID, Status: StatusError, Error: "timed out", ErrorReason: "timeout",
		StartedAtMs: d.last().RunAtMs, EndedAtMs: d.nowMs, DurationMs: 1000})
	d.turn()
	d.wantNext("j", "2026-10-01T14:00:30.000Z")
}

// TestAnEditDuringTheWait: another time ends the wait, another name does not,
// and turning the job off and on again starts its timetable afresh. What the
// wait had jumped over is recorded each time.
func TestAnEditDuringTheWait(t *testing.T) {
	for _, c := range []struct{ patch, next, rows string }{
		{`{"name":"other"}`, "2026-10-01T12:07:00.000Z", ""},
		{`{"schedule":{"kind":"cron","expr":"*/2 * * * *","tz":"UTC","staggerMs":0}}`, "2026-10-01T12:06:00.000Z", "backoff 2026-10-01T12:03:00Z..2026-10-01T12:04:00Z x2"},
		{`{"enabled":false}{"enabled":true}`, "2026-10-01T12:05:00.000Z", "backoff 2026-10-01T12:03:00Z..2026-10-01T12:04:00Z x2"},
	} {
		t.Run(c.patch, func(t *testing.T) {
			d := deskAt(t, "2026-10-01T11:59:00Z")
			d.add("j", everyMinute)
			for range 3 {
				d.advance(time.Minute)
				d.failWith(0, "unknown", "no")
			}
			d.wantNext("j", "2026-10-01T12:07:00.000Z")
			d.advance(2*time.Minute + 10*time.Second)
			for _, patch := range strings.SplitAfter(c.patch, "}{") {
				patch = strings.TrimSuffix(patch, "{")
				if !strings.HasPrefix(patch, "{") {
					patch = "{" + patch
				}
				must[*Job](d, UpdateJob{ID: "j", Patch: json.RawMessage(patch)})
			}
			d.wantNext("j", c.next)
			if got := strings.Join(d.decisions("j"), "\n"); got != c.rows {
				t.Errorf("rows %s\nwant %s", got, c.rows)
			}
		})
	}
}

// TestAWaitOverARestart: a restart in the wait does not run the job early, and
// a restart after it runs the newest missed slot once.
func TestAWaitOverARestart(t *testing.T) {
	d := deskAt(t, "2026-10-01T11:59:00Z")
	d.add("j", everyMinute)
	for range 3 {
		d.advance(time.Minute)
		d.failWith(0, "unknown", "no")
	}
	n := len(d.launched)
	d.restart(2 * time.Minute)
	d.wantNext("j", "2026-10-01T12:07:00.000Z")
	if len(d.launched) != n {
		t.Error("run early")
	}
	d.restart(10 * time.Minute) // 12:14
	if len(d.launched) != n+1 || d.last().SlotMs != at(t, "2026-10-01T12:14:00Z") {
		t.Errorf("launched %v", d.slots())
	}
	got := strings.Join(d.decisions("j"), "\n")
	if want := "backoff 2026-10-01T12:03:00Z..2026-10-01T12:06:00Z x4\nmissed 2026-10-01T12:07:00Z..2026-10-01T12:13:00Z x7"; got != want {
		t.Errorf("rows\n%s\nwant\n%s", got, want)
	}
}
