package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// oneStatement is the whole answer of a scan in one statement, which is what a
// scan in slices is measured by. SQLite's lower case is that of ASCII alone, so
// the rows of these tests are too.
func oneStatement(t *testing.T, tx *Tx, f HistoryFilter, ascending bool) (details []string) {
	t.Helper()
	where, args := "", []any{tx.StoreKey()}
	and := func(text string, values ...any) {
		where += " AND " + text
		args = append(args, values...)
	}
	in := func(expr string, values []string) {
		if len(values) > 0 {
			raw, err := json.Marshal(values)
			if err != nil {
				t.Fatal(err)
			}
			and(expr+` IN (SELECT value FROM json_each(?))`, string(raw))
		}
	}
	if f.JobID != "" {
		and(`source_id = ?`, f.JobID)
	}
	if f.RunID != "" {
		and(`detail_json ->> '$.runId' = ?`, f.RunID)
	}
	if f.AgentID != "" {
		and(`agent_id = ?`, f.AgentID)
	}
	in(`detail_json ->> '$.status'`, f.Statuses)
	in(`coalesce(detail_json ->> '$.deliveryStatus', 'not-requested')`, f.DeliveryStatuses)
	if f.Query != "" {
		named := []string{""}
		for _, id := range scanJobs {
			if f.Named != nil && f.Named(id) {
				named = append(named, id)
			}
		}
		raw, err := json.Marshal(named)
		if err != nil {
			t.Fatal(err)
		}
		and(`(instr(lower(coalesce(detail_json ->> '$.summary', '') || ' ' || coalesce(detail_json ->> '$.error', '') || ' ' ||
			coalesce(detail_json ->> '$.errorReason', '') || ' ' || coalesce(detail_json ->> '$.diagnostics', '') || ' ' || source_id), ?) > 0
			OR source_id IN (SELECT value FROM json_each(?)))`, strings.ToLower(f.Query), string(raw))
	}
	dir := "DESC"
	if ascending {
		dir = "ASC"
	}
	err := tx.Query(`SELECT detail_json FROM task_runs WHERE runtime = 'cron' AND ended_at IS NOT NULL
		AND detail_json ->> '$.kind' = 'cron-run' AND detail_json ->> '$.storeKey' = ?`+where+
		` ORDER BY ended_at `+dir+`, created_at `+dir+`, task_id `+dir, args, func(scan func(...any) error) error {
		var detail string
		err := scan(&detail)
		details = append(details, detail)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return details
}

// scanBench is a file of random history and what may happen to it.
type scanBench struct {
	*rand.Rand
	t     *testing.T
	s     *Store
	rows  int  // ever inserted
	alien bool // the file holds rows of others too, as one that rota only opened
}

var (
	scanJobs  = []string{"Job-a", "job-b", "j_c%", "d"}
	scanWords = []string{"Backup", "done", "FAILED", "disk", "\"quoted\"", "line\nbreak", `C:\temp`, "50%", "a/b", "<tag>", "", "x"}
	// scanQueries are found in a text, across two, in a job's id, or nowhere.
	scanQueries = []string{"backup", "DONE", "led", "k d", "\"quoted\"", `\temp`, "0%", "a/b", "<tag>", "job", "_c%", "nowhere", " ", "ne disk"}
)

func (b *scanBench) words() string {
	all := make([]string, b.IntN(4))
	for i := range all {
		all[i] = scanWords[b.IntN(len(scanWords))]
	}
	return strings.Join(all, " ")
}

func (b *scanBench) tx(f func(*Tx) error) {
	b.t.Helper()
	tx, err := b.s.Begin()
	if err == nil {
		err = f(tx)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// insert adds a row of any time; each says its number.
func (b *scanBench) insert(tx *Tx) error {
	b.rows++
	d := map[string]any{"kind": "cron-run", "storeKey": tx.StoreKey(), "n": b.rows,
		"status": []string{"ok", "error", "skipped"}[b.IntN(3)], "runId": fmt.Sprintf("run:%d", b.IntN(40))}
	for _, key := range []string{"summary", "error", "errorReason"} {
		if b.IntN(2) == 0 {
			d[key] = b.words()
		}
	}
	if b.IntN(3) == 0 {
		d["deliveryStatus"] = []string{"delivered", "unknown", "not-requested"}[b.IntN(3)]
	}
	if b.IntN(3) == 0 {
		d["diagnostics"] = map[string]any{"summary": b.words(), "entries": []string{b.words()}}
	}
	if b.alien {
		switch b.IntN(6) {
		case 0:
			d["kind"] = "agent-run"
		case 1:
			d["storeKey"] = "elsewhere"
		case 2:
			d["summary"] = nil
		}
	}
	detail, err := rawjson.Encode(d)
	if b.IntN(2) == 0 {
		detail, err = json.Marshal(d) // with its own ideas of what to escape
	}
	if err == nil && b.IntN(4) == 0 {
		detail = bytes.ReplaceAll(detail, []byte("ack"), []byte(`\u0061ck`)) // nobody writes letters so; it would be JSON all the same
	}
	if err != nil {
		return err
	}
	agent := []string{"", "main", "ops"}[b.IntN(3)]
	return InsertHistory(tx, HistoryRow{TaskID: fmt.Sprintf("%08x", b.Uint32()), JobID: scanJobs[b.IntN(len(scanJobs))], AgentID: agent,
		RunID: "r", Status: "succeeded", StartedAtMs: int64(b.IntN(60)), EndedAtMs: int64(b.IntN(60)) - 5, Detail: detail})
}

func (b *scanBench) filter() HistoryFilter {
	var f HistoryFilter
	if b.IntN(3) == 0 {
		f.JobID = scanJobs[b.IntN(len(scanJobs))]
	}
	switch b.IntN(7) {
	case 0:
		f.RunID = fmt.Sprintf("run:%d", b.IntN(40))
	case 1:
		f.AgentID = "main"
	case 2:
		f.Statuses = []string{"error", "skipped"}[:1+b.IntN(2)]
	case 3:
		f.DeliveryStatuses = []string{"not-requested"}
	case 4, 5:
		f.Query = scanQueries[b.IntN(len(scanQueries))]
		if b.IntN(2) == 0 {
			f.Named = func(jobID string) bool { return jobID == "d" }
		}
	}
	return f
}

// A scan in slices, whatever the bound of each and whatever happens between
// them, gives what one statement gave when it began.
func TestAScanInSlicesIsOneStatement(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			b := &scanBench{Rand: rand.New(rand.NewPCG(seed, 7)), t: t, alien: seed%2 == 1}
			var err error
			if b.s, err = Open(Options{Path: filepath.Join(t.TempDir(), "rota.sqlite"), Durability: Normal, NowMs: 1}); err != nil {
				t.Fatal(err)
			}
			defer b.s.Close()
			b.s.found.made = !b.alien
			b.tx(func(tx *Tx) error {
				for range b.IntN(400) {
					if err := b.insert(tx); err != nil {
						return err
					}
				}
				return nil
			})
			for range 12 {
				b.scanOnce()
			}
		})
	}
}

func (b *scanBench) scanOnce() {
	t := b.t
	f, ascending := b.filter(), b.IntN(2) == 0
	limit, offset := 1+b.IntN(20), 0
	if b.IntN(2) == 0 {
		offset = b.IntN(b.rows + 2)
	}
	var want []string
	var s *HistoryScan
	begin := func(tx *Tx) (err error) {
		want = oneStatement(t, tx, f, ascending)
		total := -1
		if f.JobID == "" && f.Query == "" && b.IntN(2) == 0 && newMatcher(tx, f).everyRow {
			total = len(want) // as where it is known
		}
		s, err = NewHistoryScan(tx, f, ascending, limit, offset, total)
		return err
	}
	b.tx(begin)
	removed, most := 0, 1+b.IntN(30)
	for slices := 0; !s.Done; slices++ {
		b.tx(func(tx *Tx) error {
			budget := 1 + b.IntN(most)
			from := s.at
			spent, err := s.Slice(tx, budget)
			if err != nil {
				return err
			}
			if n := b.between(tx, s, f.JobID, from); spent > budget || n > budget*IndexEntriesPerRow || !s.match.everyRow && n > budget {
				t.Errorf("a slice of %d rows went by %d and says %d", budget, n, spent)
			}
			for range b.IntN(3) { // runs end meanwhile
				if err := b.insert(tx); err != nil {
					return err
				}
			}
			if b.IntN(20) == 0 { // and retention takes what is old
				n, _, err := ExpireHistory(tx, 1, 3)
				removed += int(n)
				return err
			}
			return nil
		})
		if slices > 10_000 {
			t.Fatal("the scan does not end")
		}
	}
	var got []string
	for _, e := range s.Page {
		got = append(got, string(e.Detail))
	}
	page := want[min(offset, len(want)):min(offset+limit, len(want))]
	if removed == 0 {
		if s.Total != len(want) || !slices.Equal(got, page) {
			t.Errorf("filter %+v ascending %v, rows %d to %d: total %d, want %d; page\n%s\nwant\n%s", f, ascending, offset, offset+limit,
				s.Total, len(want), strings.Join(got, "\n"), strings.Join(page, "\n"))
		}
		return
	}
	if s.Total > len(want) || s.Total < len(want)-removed {
		t.Errorf("%d rows matched, %d of them removed meanwhile, and the total is %d", len(want), removed, s.Total)
	}
	at := -1
	for _, detail := range got {
		next := slices.Index(want, detail)
		if next <= at {
			t.Errorf("row %s is new, twice, or out of order", detail)
		}
		at = next
	}
}

// between counts the rows from a place to where the scan is now.
func (b *scanBench) between(tx *Tx, s *HistoryScan, jobID string, from historyKey) (n int) {
	to := s.at
	if !s.ascending {
		from, to = to, from
	}
	err := tx.Query(`SELECT count(*) FROM task_runs WHERE rowid <= ? AND (? = '' OR source_id = ?) AND (ended_at, created_at, task_id) > (?, ?, ?) AND (ended_at, created_at, task_id) < (?, ?, ?)`,
		[]any{s.newest, jobID, jobID, from.endedAtMs, from.createdAtMs, from.taskID, to.endedAtMs, to.createdAtMs, to.taskID},
		func(scan func(...any) error) error { return scan(&n) })
	if err != nil {
		b.t.Fatal(err)
	}
	if from != to {
		n++ // one of the two ends
	}
	return n
}

// The count in slices is the count, and retention says what it took from it.
func TestTotalsFollowTheRows(t *testing.T) {
	for seed := range uint64(8) {
		b := &scanBench{Rand: rand.New(rand.NewPCG(seed, 11)), t: t, alien: seed%2 == 1}
		var err error
		if b.s, err = Open(Options{Path: filepath.Join(t.TempDir(), "rota.sqlite"), Durability: Normal, NowMs: 1}); err != nil {
			t.Fatal(err)
		}
		b.s.found.made = !b.alien
		b.tx(func(tx *Tx) error {
			for range 300 {
				if err := b.insert(tx); err != nil {
					return err
				}
			}
			if b.alien {
				_, err = tx.Exec(`UPDATE task_runs SET detail_json = 'not json' WHERE rowid = 7`)
			}
			return err
		})
		totals := HistoryTotals{}
		var c *HistoryCount
		b.tx(func(tx *Tx) error { c, err = NewHistoryCount(tx); return err })
		for !c.Done {
			b.tx(func(tx *Tx) error {
				budget, sum := 1+b.IntN(5), 0
				part, err := c.Slice(tx, budget)
				for job, n := range part {
					totals[job] += n
					sum += n
				}
				if sum > budget*IndexEntriesPerRow || b.alien && sum > budget {
					t.Errorf("seed=%d: a slice of %d rows counted %d", seed, budget, sum)
				}
				return err
			})
		}
		b.check(seed, totals)
		b.tx(func(tx *Tx) error {
			_, expired, err := ExpireHistory(tx, 30, 100)
			if err != nil {
				return err
			}
			_, trimmed, err := TrimHistory(tx, "d", 5)
			for _, by := range []HistoryTotals{expired, trimmed} {
				for job, n := range by {
					totals[job] -= n
				}
			}
			return err
		})
		b.check(seed, totals)
		if err := b.s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func (b *scanBench) check(seed uint64, totals HistoryTotals) {
	b.t.Helper()
	b.tx(func(tx *Tx) error {
		for _, job := range scanJobs {
			is := 0
			err := tx.Query(`SELECT count(*) FROM task_runs WHERE source_id = ? AND json_valid(detail_json)
				AND detail_json ->> '$.kind' = 'cron-run' AND detail_json ->> '$.storeKey' = ?`, []any{job, tx.StoreKey()},
				func(scan func(...any) error) error { return scan(&is) })
			if err != nil {
				return err
			}
			if totals[job] != is {
				b.t.Errorf("seed=%d: %s has %d rows and is counted as %d", seed, job, is, totals[job])
			}
		}
		return nil
	})
}

// Texts are compared without their case, in any script.
func TestASearchKnowsEveryScript(t *testing.T) {
	inTx(t, func(tx *Tx) error {
		for i, summary := range []string{`ДИСК im ÄRMEL`, `\u006Bein Platz`, "3 \u212Aelvin"} {
			err := InsertHistory(tx, HistoryRow{TaskID: fmt.Sprint(i), JobID: "Übung", Status: "succeeded", EndedAtMs: 5,
				Detail: json.RawMessage(`{"kind":"cron-run","storeKey":"rota","summary":"` + summary + `"}`)})
			if err != nil {
				return err
			}
		}
		for query, want := range map[string]int{"диск": 1, "ärmel": 1, "ÜBUNG": 3, "Kein": 1, "3 kelvin": 1, "дИ": 1, "armel": 0} {
			s, err := NewHistoryScan(tx, HistoryFilter{Query: query}, false, 1, 0, -1)
			if err != nil {
				return err
			}
			if _, err := s.Slice(tx, 10); err != nil || s.Total != want || !s.Done {
				t.Errorf("%s: %d rows, done %v, %v; want %d", query, s.Total, s.Done, err, want)
			}
		}
		return nil
	})
}

// Every statement of a scan goes along one index and never sorts.
func TestScansGoAlongAnIndex(t *testing.T) {
	inTx(t, func(tx *Tx) error {
		for _, ofJob := range []bool{false, true} {
			for _, ascending := range []bool{false, true} {
				q := historyQueriesOf(ofJob, ascending)
				for _, query := range []string{q.rows, q.place, q.rest} {
					args := make([]any, strings.Count(query, "?"))
					for i := range args {
						args[i] = 1
					}
					err := tx.Query("EXPLAIN QUERY PLAN "+query, args, func(scan func(...any) error) error {
						var id, parent, unused int
						var step string
						err := scan(&id, &parent, &unused, &step)
						index, bound := "idx_task_runs_runtime_ended", "(runtime=? AND (ended_at,created_at,task_id)"
						if ofJob {
							index, bound = "idx_task_runs_runtime_source_ended", "(runtime=? AND source_id=? AND (ended_at,created_at,task_id)"
						}
						if !strings.Contains(step, index+" "+bound) || query != q.rows && !strings.Contains(step, "COVERING") {
							t.Errorf("%s\n%s", query, step)
						}
						return err
					})
					if err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}
