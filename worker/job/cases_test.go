package job

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rota-scheduler/rota/schedule"
)

func TestCase006OneShotWithLocalTimeAndZone(t *testing.T) {
	runDocument(t, "case-006-at-with-zone.txt")
}

func TestCase043ASetFieldCanBeCleared(t *testing.T) { runDocument(t, "case-043-clear-a-field.txt") }

func TestCase081SecondsAreNotMilliseconds(t *testing.T) {
	runDocument(t, "case-081-seconds-as-milliseconds.txt")
}

func TestCase083TinyInterval(t *testing.T) { runDocument(t, "case-083-tiny-interval.txt") }
func TestCase089SecretsOutOfAddressesAndHeaders(t *testing.T) {
	runDocument(t, "case-089-secrets.txt")
}
func TestCase114DefaultsAreSaid(t *testing.T) { runDocument(t, "case-114-defaults-are-said.txt") }
func TestCase127OneShotInThePast(t *testing.T) {
	runDocument(t, "case-127-past-one-shot.txt")
}
func TestCase128OddNames(t *testing.T) { runDocument(t, "case-128-odd-names.txt") }

// An edit of other fields leaves the timing of a daily job alone: tomorrow's
// slot stays tomorrow's.
func TestCase009EditingADailyJobKeepsItsNextSlot(t *testing.T) {
	at := func(text string) int64 {
		ms, err := schedule.ParseAt(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ms
	}
	created, err := Create("daily", json.RawMessage(`{"name":"daily","schedule":{"kind":"cron","expr":"25 6 * * *","tz":"America/New_York"},
		"payload":{"kind":"command","argv":["true"]}}`), Env{NowMs: at("2026-02-05T00:00:00Z"), HostZone: "UTC"})
	if err != nil {
		t.Fatal(err)
	}
	definition := created.Definition
	now := Env{NowMs: at("2026-02-07T03:37:00Z"), HostZone: "UTC"}
	for _, patch := range []string{
		`{"description":"another text"}`,
		`{"payload":{"kind":"command","argv":["true","again"]}}`,
		`{"schedule":{"kind":"cron","expr":"25 6 * * *","tz":"America/New_York"},"description":"third"}`,
	} {
		c, err := Merge(definition, json.RawMessage(patch), now)
		if err != nil {
			t.Fatal(err)
		}
		if !c.Changed || c.Scheduling || c.Schedule {
			t.Errorf("%s: changed %v, scheduling %v, schedule %v; only the first is true", patch, c.Changed, c.Scheduling, c.Schedule)
		}
		definition = c.Definition
		d, err := Decode(definition)
		if err != nil {
			t.Fatal(err)
		}
		s, err := d.Compile(schedule.Vixie, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		next, ok := s.Next(now.NowMs)
		if want := at("2026-02-07T11:25:00Z"); !ok || next != want {
			t.Errorf("%s: next is %s, not %s", patch, schedule.FormatInstant(next), schedule.FormatInstant(want))
		}
	}
}

// walk follows the pages of a list as the command line does: a page that
// belongs to another snapshot starts the walk again.
func walk(t *testing.T, params string, rows func(page int) []Row) (seen map[string]int, total, restarts int) {
	t.Helper()
	for ; restarts <= 3; restarts++ {
		seen = map[string]int{}
		revision, offset := "", 0
		for page := 0; ; page++ {
			p, err := DecodeListParams(json.RawMessage(fmt.Sprintf(params, offset)))
			if err != nil {
				t.Fatal(err)
			}
			raw, err := listRows(rows(page), p)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Jobs             []struct{ ID string }
				SnapshotRevision string
				Total, Offset    int
				NextOffset       *int
				HasMore          bool
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if revision != "" && got.SnapshotRevision != revision {
				break
			}
			revision, total = got.SnapshotRevision, got.Total
			for _, j := range got.Jobs {
				seen[j.ID]++
			}
			if got.Offset != offset || got.HasMore != (got.NextOffset != nil) {
				t.Fatalf("page at %d says offset %d, hasMore %v, nextOffset %v", offset, got.Offset, got.HasMore, got.NextOffset)
			}
			if got.NextOffset == nil {
				return seen, total, restarts
			}
			offset = *got.NextOffset
		}
	}
	t.Fatal("the list never came to rest")
	return nil, 0, 0
}

func equalRow(i int) Row {
	r := Row{
		ID:          fmt.Sprintf("job-%03d", i),
		Definition:  []byte(`{"name":"same","enabled":true,"createdAtMs":5,"schedule":{"kind":"every","everyMs":60000,"anchorMs":5},"payload":{"kind":"command","argv":["true"]}}`),
		State:       []byte(`{"nextRunAtMs":60005}`),
		UpdatedAtMs: 5,
	}
	if i%7 == 0 {
		r.State = []byte(`{}`)
	}
	return r
}

// 250 jobs that differ by nothing but their id, some without a next run: each
// is listed once, in any sorting, also when jobs come and go between pages.
func TestCase041PagesOf250EqualJobs(t *testing.T) {
	var rows []Row
	for i := range 250 {
		rows = append(rows, equalRow(i))
	}
	for _, sorting := range []string{"nextRunAtMs", "updatedAtMs", "name"} {
		for _, direction := range []string{"asc", "desc"} {
			params := fmt.Sprintf(`{"limit":50,"offset":%%d,"sortBy":%q,"sortDir":%q}`, sorting, direction)
			seen, total, restarts := walk(t, params, func(int) []Row { return rows })
			expectEach(t, params, seen, rows)
			if total != len(rows) || restarts != 0 {
				t.Errorf("%s: total %d, restarts %d", params, total, restarts)
			}
		}
	}
	// After the second page 5 are added and 5 removed.
	changed := append([]Row{}, rows[5:]...)
	for i := 900; i < 905; i++ {
		changed = append(changed, equalRow(i))
	}
	now := rows
	params := `{"limit":50,"offset":%d}`
	seen, total, restarts := walk(t, params, func(page int) []Row {
		if page == 2 {
			now = changed
		}
		return now
	})
	expectEach(t, params, seen, changed)
	if total != len(changed) || restarts != 1 {
		t.Errorf("with changes: total %d, restarts %d", total, restarts)
	}
}

func expectEach(t *testing.T, what string, seen map[string]int, rows []Row) {
	t.Helper()
	for _, r := range rows {
		if seen[r.ID] != 1 {
			t.Errorf("%s: %s is listed %d times", what, r.ID, seen[r.ID])
		}
	}
	if len(seen) != len(rows) {
		t.Errorf("%s: %d jobs listed, %d exist", what, len(seen), len(rows))
	}
}

// A list of jobs that is applied again at each start holds one-shots that are
// over. Whoever applies it can tell them from mistakes.
func TestCase127PastOneShotCanBeToldFromOtherRefusals(t *testing.T) {
	env := Env{NowMs: 1795964145281}
	for _, c := range []struct {
		at   string
		past bool
	}{{"2020-01-01T00:00:00Z", true}, {"2099-01-01T00:00:00Z", false}, {"garbage", false}} {
		_, err := Create("id", json.RawMessage(`{"name":"x","schedule":{"kind":"at","at":"`+c.at+`"},"payload":{"kind":"command","argv":["true"]}}`), env)
		if err == nil || InThePast(err) != c.past {
			t.Errorf("at %s: %v, in the past %v", c.at, err, InThePast(err))
		}
	}
}
