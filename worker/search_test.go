package worker

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rota-scheduler/rota/store"
)

// fill puts finished runs of jobs h0 to h9 into the file, one a second up to
// now, and starts the worker anew. Every seventh failed.
func (d *desk) fill(rows int) {
	d.t.Helper()
	d.exec(fillHistory, rows, d.nowMs-int64(rows)*1000, d.nowMs+dayMs)
	d.crash()
	d.open(Options{LogID: "log"})
}

// fillHistory makes rows as runs leave them: how many, since when, kept until when.
const fillHistory = `INSERT INTO task_runs (task_id, runtime, task_kind, source_id, requester_session_key, owner_key, scope_kind, run_id,
	task, status, delivery_status, notify_policy, created_at, started_at, ended_at, last_event_at, cleanup_after, terminal_summary, detail_json)
	WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?1)
	SELECT printf('%08x-%032d', (?2 / 1000 + i) * 2654435761 & 4294967295, ?2 / 1000 + i), 'cron', 'automation_run', 'h' || (i % 10), '', '', 'system', 'cron:' || i,
	'h' || (i % 10), iif(i % 7 = 0, 'failed', 'succeeded'), 'not_applicable', 'silent', ?2 + i * 1000, ?2 + i * 1000, ?2 + i * 1000 + 812, ?2 + i * 1000, ?3, 'done',
	printf('{"kind":"cron-run","status":"%s","completionStatus":"succeeded","summary":"backup of volume %d done: 12 files changed, 3 removed\nall is well with run %d","deliveryStatus":"not-requested","storeKey":"rota","runId":"cron-slot-v1.WyJyb3RhIiwiam9iLTAwMDAiLDE3OTAwMDAwMDAwMDBd%08d","runAtMs":%d,"durationMs":812,"nextRunAtMs":%d,"trigger":"timer","startedAtMs":%d,"slotMs":%d,"lateMs":4,"attempt":1,"waitedMs":2,"output":{"bytes":812,"exitCode":0}}',
	iif(i % 7 = 0, 'error', 'ok'), i % 97, i, i, ?2 + i * 1000, ?2 + i * 1000 + 60000, ?2 + i * 1000, ?2 + i * 1000) FROM n`

// asks puts a read of history before the worker.
func (d *desk) asks(q RunsQuery) *call {
	c := &call{command: q, reply: make(chan answer, 1)}
	d.w.commands.put(c)
	return c
}

// once is one turn of the worker, and what it handed out.
func (d *desk) once() {
	d.t.Helper()
	if _, err := d.w.turn(); err != nil {
		d.t.Fatal(err)
	}
	d.take()
}

func answered(t *testing.T, c *call) RunsPage {
	t.Helper()
	select {
	case a := <-c.reply:
		if a.err != nil {
			t.Fatal(a.err)
		}
		return a.value.(RunsPage)
	default:
		t.Fatal("there is no answer")
		return RunsPage{}
	}
}

// A page without a filter is answered in its turn, however much there is: its
// total is known, and a page far behind is found in the index.
func TestAPageOfALongHistoryIsAnsweredAtOnce(t *testing.T) {
	d := newDesk(t)
	d.fill(20_000)
	first := d.asks(RunsQuery{Limit: 50})
	job := d.asks(RunsQuery{JobID: "h3", Limit: 5, Offset: 7, Ascending: true})
	d.once()
	if p := answered(t, first); p.Total != 20_000 || len(p.Entries) != 50 || !p.Known {
		t.Errorf("%d of %d runs", len(p.Entries), p.Total)
	}
	p := answered(t, job)
	if p.Total != 2000 || len(p.Entries) != 5 || p.Offset != 7 {
		t.Errorf("%d of %d runs of one job from %d on", len(p.Entries), p.Total, p.Offset)
	}
	var entry struct {
		JobID      string
		DurationMs int
		Summary    string
	}
	if err := json.Unmarshal(p.Entries[0], &entry); err != nil || entry.JobID != "h3" || entry.Summary == "" {
		t.Errorf("entry %s, %v", p.Entries[0], err)
	}
	past := must[RunsPage](d, RunsQuery{JobID: "h3", Limit: 5, Offset: 9000})
	if past.Offset != 2000 || past.Total != 2000 || len(past.Entries) != 0 {
		t.Errorf("past the end: %d entries from %d of %d", len(past.Entries), past.Offset, past.Total)
	}
}

// While a search goes through a long history, what is due runs.
func TestASlotIsRequestedBetweenTheSlicesOfASearch(t *testing.T) {
	d := newDesk(t)
	d.fill(20_000)
	d.add("j", everyHour)
	d.add("backups", everyHour)
	search := d.asks(RunsQuery{Query: "Volume 13 ", Limit: 20, Offset: 100})
	d.once()
	d.nowMs = d.job("j").state().NextRunAtMs.N
	d.once()
	if len(d.launched) != 2 || len(search.reply) != 0 {
		t.Fatalf("%d launches, %d answers", len(d.launched), len(search.reply))
	}
	d.end(d.launched[0], StatusOK) // and what ends is recorded, and not in the answer
	d.turn()
	if p := answered(t, search); p.Total != 207 || len(p.Entries) != 20 || p.Offset != 100 {
		t.Errorf("%d of %d from %d", len(p.Entries), p.Total, p.Offset)
	}
	if p := must[RunsPage](d, RunsQuery{Query: "BACKUPS", Limit: 1}); p.Total != 0 {
		t.Errorf("%d runs of a job that has not ended one", p.Total)
	}
}

// Between two turns no more rows are read than the bound says, by all searches
// together, and each search gets on.
func TestASliceReadsNoMoreThanItsBound(t *testing.T) {
	d := newDesk(t)
	d.fill(5_000)
	var calls []*call
	for range 5 {
		calls = append(calls, d.asks(RunsQuery{Statuses: []string{"ok", "error"}, Limit: 3, Offset: 10_000})) // all rows match
	}
	seen := map[*call]int{}
	for slices := 0; len(seen) < 5 || seen[calls[4]] < 5000; slices++ {
		bound := d.w.searches.rows
		waiting := d.w.searches.waiting
		d.once()
		if slices == 0 {
			waiting = d.w.searches.waiting
		}
		read := 0
		for _, q := range waiting {
			if q.scan.Total == seen[q.call] {
				t.Errorf("slice %d: a search did not get on", slices)
			}
			read += q.scan.Total - seen[q.call]
			seen[q.call] = q.scan.Total
		}
		if read > bound || read == 0 {
			t.Fatalf("slice %d read %d rows, and the bound is %d", slices, read, bound)
		}
		if bound > sliceRowsMax {
			t.Fatalf("the bound is %d", bound)
		}
	}
	d.turn()
	for _, c := range calls {
		if p := answered(t, c); p.Total != 5000 {
			t.Errorf("total %d", p.Total)
		}
	}
}

// The bound follows what the slice before took.
func TestTheBoundOfASliceFollowsItsTime(t *testing.T) {
	for _, c := range []struct {
		rows   int
		tookMs int64
		want   int
	}{{128, 0, 144}, {128, 1, 144}, {128, 2, 128}, {128, 3, 64}, {40, 90, 32}, {32, 0, 36}, {1000, 0, 1024}} {
		if got := rowsAfter(c.rows, c.tookMs); got != c.want {
			t.Errorf("after %d rows in %d ms: %d, want %d", c.rows, c.tookMs, got, c.want)
		}
	}
}

// A search whose caller has gone is forgotten; the others go on.
func TestASearchEndsWithItsCaller(t *testing.T) {
	d := newDesk(t)
	d.fill(5_000)
	gone := make(chan struct{})
	given := &call{command: RunsQuery{Query: "volume", Limit: 1}, reply: make(chan answer, 1), givenUp: gone}
	d.w.commands.put(given)
	stays := d.asks(RunsQuery{Query: "volume", Limit: 1})
	d.once()
	close(gone)
	d.once()
	if len(d.w.searches.waiting) != 1 {
		t.Errorf("%d searches go on", len(d.w.searches.waiting))
	}
	d.turn()
	if p := answered(t, stays); p.Total != 5000 || len(given.reply) != 0 {
		t.Errorf("total %d; %d answers to nobody", p.Total, len(given.reply))
	}
}

// Searches end with an error that says why: at a stop, on a broken disk, and
// where too many wait.
func TestSearchesEndWithAReason(t *testing.T) {
	for name, c := range map[string]struct {
		code string
		ends func(*desk)
	}{
		"stop":     {"stopping", func(d *desk) { d.w.stopping.Store(true); d.once() }},
		"finished": {"stopping", func(d *desk) { d.w.finish() }},
		"broken": {"storage", func(d *desk) {
			failing := true
			d.fault = func(at string) error {
				if failing && at == "begin" {
					failing = false
					return store.IO
				}
				return nil
			}
			d.once()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.fill(5_000)
			first, second := d.asks(RunsQuery{Query: "volume", Limit: 1}), d.asks(RunsQuery{Query: "nowhere", Limit: 1})
			d.once()
			c.ends(d)
			for _, search := range []*call{first, second} {
				select {
				case a := <-search.reply:
					if codeOf(a.err) != c.code {
						t.Errorf("the caller is told %v", a.err)
					}
				default:
					t.Error("the caller gets no answer")
				}
			}
			if name != "broken" {
				return
			}
			d.turn()
			if p := must[RunsPage](d, RunsQuery{Query: "volume 13 ", Limit: 1}); p.Total == 0 {
				t.Error("no search works any more")
			}
		})
	}
	d := newDesk(t)
	d.fill(5_000)
	var calls []*call
	for range searchesWaiting + 1 {
		calls = append(calls, d.asks(RunsQuery{Query: "nowhere", Limit: 1}))
	}
	refused := 0
	for d.w.commands.len() > 0 {
		d.once()
	}
	for _, c := range calls {
		select {
		case a := <-c.reply:
			refused++
			if codeOf(a.err) != "overloaded" {
				t.Errorf("one too many is told %v", a.err)
			}
		default:
		}
	}
	if refused != 1 {
		t.Errorf("%d searches of %d are refused", refused, len(calls))
	}
}

// Until the rows are counted nothing is removed, and a page counts for itself.
func TestRetentionWaitsForTheCount(t *testing.T) {
	d := newDesk(t)
	d.cfg.HistoryRowsPerJob = 100
	d.exec(fillHistory, 3_000, d.nowMs-30_000_000, d.nowMs+1)
	d.crash()
	s, err := store.Open(store.Options{Path: d.path, Durability: store.Normal, NowMs: d.nowMs})
	if err != nil {
		t.Fatal(err)
	}
	d.w = New(Options{Store: s, Config: d.cfg, LogID: "log", Clock: Clock{WallMs: func() int64 { return d.nowMs }, MonoMs: func() int64 { return d.monoMs }}})
	if err := d.w.start(); err != nil {
		t.Fatal(err)
	}
	d.nowMs, d.monoMs = d.nowMs+retainEveryMs, d.monoMs+retainEveryMs
	page := d.asks(RunsQuery{Limit: 1})
	d.once()
	if kept := d.query(`SELECT count(*) FROM task_runs`); d.w.st.totals.known || kept[0] != "3000" {
		t.Fatalf("known %v, rows %s", d.w.st.totals.known, kept)
	}
	for !d.w.st.totals.known {
		d.once()
	}
	if n := fmt.Sprint(d.w.st.totals.lines()); d.w.st.totals.all != 3_000 {
		t.Errorf("counted %s", n)
	}
	for len(page.reply) == 0 {
		d.once()
	}
	if p := answered(t, page); p.Total != 3_000 {
		t.Errorf("the page counted %d", p.Total)
	}
	d.turn() // it checks the totals with each turn of retention
	if p := must[RunsPage](d, RunsQuery{Limit: 1}); p.Total != 0 {
		t.Errorf("%d rows are left after their time", p.Total)
	}
}
