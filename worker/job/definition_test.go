package job

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/schedule"
)

// compiled decodes and compiles a definition with this schedule, and more
// members if given.
func compiled(t *testing.T, scheduleJSON, more string, dst schedule.DST, zone string) (schedule.Schedule, error) {
	t.Helper()
	d, err := Decode([]byte(`{"id":"job-1","createdAtMs":5,"schedule":` + scheduleJSON + `,"payload":{"kind":"command","argv":["true"]}` + more + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return d.Compile(dst, zone)
}

func TestCompileFillsInWhatTheScheduleLeavesOut(t *testing.T) {
	const now = "2026-03-08T05:00:00Z" // two hours before New York's clocks go forward
	nowMs, err := schedule.ParseAt(now, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, schedule, more string
		dst                  schedule.DST
		zone, want           string
	}{
		{"an interval without an anchor lies on the grid of its creation", `{"kind":"every","everyMs":3600000}`, "", 0, "", "2026-03-08T05:00:00.005Z"},
		{"an anchor counts", `{"kind":"every","everyMs":3600000,"anchorMs":7}`, "", 0, "", "2026-03-08T05:00:00.007Z"},
		{"the host's zone stands in", `{"kind":"cron","expr":"0 1 * * *"}`, "", 0, "America/New_York", "2026-03-08T06:00:00.000Z"},
		{"no zone at all is UTC", `{"kind":"cron","expr":"0 6 * * *"}`, "", 0, "", "2026-03-08T06:00:00.000Z"},
		{"its own zone wins", `{"kind":"cron","expr":"0 6 * * *","tz":"UTC"}`, "", 0, "America/New_York", "2026-03-08T06:00:00.000Z"},
		{"vixie: a lost time fires at the end of the jump", `{"kind":"cron","expr":"30 2 * * *"}`, "", schedule.Vixie, "America/New_York", "2026-03-08T07:00:00.000Z"},
		{"skip: a lost time is lost", `{"kind":"cron","expr":"30 2 * * *"}`, "", schedule.Skip, "America/New_York", "2026-03-09T06:30:00.000Z"},
		{"the job's own rule wins", `{"kind":"cron","expr":"30 2 * * *"}`, `,"dst":"skip"`, schedule.Vixie, "America/New_York", "2026-03-09T06:30:00.000Z"},
		{"the top of the hour is spread by the id", `{"kind":"cron","expr":"0 * * * *"}`, "", 0, "", "2026-03-08T05:00:47.897Z"},
		{"an exact one is not", `{"kind":"cron","expr":"0 * * * *","staggerMs":0}`, "", 0, "", "2026-03-08T06:00:00.000Z"},
		{"a one-shot", `{"kind":"at","at":"2026-03-08T06:00:00+01:00"}`, "", 0, "", "never"},
		{"an old one-shot", `{"atMs":1772953200000}`, "", 0, "", "2026-03-08T07:00:00.000Z"},
		{"a kind that time does not fire", `{"kind":"on-exit","command":"make"}`, "", 0, "", "never"},
		{"a kind of a later build", `{"kind":"event","novel":1}`, "", 0, "", "never"},
	} {
		s, err := compiled(t, c.schedule, c.more, c.dst, c.zone)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := "never"
		if next, ok := s.Next(nowMs); ok {
			got = schedule.FormatInstant(next)
		}
		if got != c.want {
			t.Errorf("%s: %s%s after %s is %s, not %s", c.name, c.schedule, c.more, now, got, c.want)
		}
	}
}

func TestCompileRefusesWithTheField(t *testing.T) {
	for _, c := range []struct{ schedule, more, field string }{
		{`{"kind":"cron","expr":"99 * * * *"}`, "", "/schedule/expr"},
		{`{"kind":"cron","expr":""}`, "", "/schedule/expr"},
		{`{"kind":"cron","expr":"0 9 * * *","tz":"Mars/Base"}`, "", "/schedule/tz"},
		{`{"kind":"every","everyMs":0}`, "", "/schedule/everyMs"},
		{`{"kind":"at","at":"tomorrow"}`, "", "/schedule/at"},
		{`{"kind":"cron","expr":"0 9 * * *"}`, `,"dst":"never"`, "/dst"},
	} {
		_, err := compiled(t, c.schedule, c.more, schedule.Vixie, "UTC")
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeInvalid || e.Field != c.field {
			t.Errorf("%s%s: %v, want a refusal of %s", c.schedule, c.more, err, c.field)
		}
	}
}

// A refusal names the method, so that a surface can prefix it.
func TestRefusalsNameTheMethod(t *testing.T) {
	row := []byte(`{"id":"j","name":"n","schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["true"]}}`)
	_, add := Create("j", []byte(`{}`), Env{})
	_, again := Converge(row, []byte(`{}`), Env{})
	_, update := Merge(row, []byte(`{"bogus":1}`), Env{})
	_, list := DecodeListParams([]byte(`{"bogus":1}`))
	for want, errs := range map[string][]error{"cron.add": {add, again}, "cron.update": {update}, "cron.list": {list}} {
		for _, err := range errs {
			var e *Error
			if !errors.As(err, &e) || e.Op != want {
				t.Errorf("%v: names %q, not %q", err, e.Op, want)
			}
		}
	}
}

// What is in force survives a round of reading: the stored bytes are not
// touched by views.
func TestViewsLeaveTheRowAlone(t *testing.T) {
	for _, r := range readRows(t) {
		definition, state := string(r.Definition), string(r.State)
		_, _ = View(r)
		_, _ = PublicView(r)
		_, _ = CompactView(r)
		_, _ = listRows([]Row{r}, ListParams{Enabled: "all"})
		if string(r.Definition) != definition || string(r.State) != state {
			t.Errorf("%s: a view changed the row", r.ID)
		}
	}
}

// A request of a megabyte of mistakes is refused at once, in a short sentence.
func TestRefusalsStayShort(t *testing.T) {
	many, long := `{"a":1`, strings.Repeat("x", 1<<20)
	var b strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&b, `,"bogus%d":1`, i)
	}
	many += b.String() + "}"
	for _, params := range []string{
		many, `{"` + long + `":1}`, `{"` + long + `":1,"` + long + `":1}`,
		`{"name":"x","schedule":{"kind":"cron","expr":"` + long + `"},"payload":{"kind":"command","argv":["true"]}}`,
		`{"name":"x","schedule":{"kind":"at","at":"` + long + `"},"payload":{"kind":"command","argv":["true"]}}`,
		`{"name":"` + long + `","schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["true"]}}`,
		`{"name":"x","schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["true"],"env":{"=` + long + `":"x"}}}`,
	} {
		_, err := Create("j", []byte(params), Env{})
		var e *Error
		if !errors.As(err, &e) || len(e.Message)+len(e.Hint)+len(e.Field) > 1000 {
			t.Errorf("%.60s…: %.200v", params, err)
		}
	}
}
