package store

import (
	"encoding/json"
	"strings"
)

// SlotRow is one row of rota_slots: a range of slots of one job that one rule
// decided against.
type SlotRow struct {
	Seq     int64
	JobID   string
	FromMs  int64
	ToMs    int64
	Slots   int64
	Rule    string
	Verdict string
	Detail  json.RawMessage
	AtMs    int64
}

// InsertSlots adds a decision. Seq comes from the worker's one sequence.
func InsertSlots(t *Tx, r SlotRow) error {
	_, err := t.Exec(`INSERT INTO rota_slots (seq, job_id, from_ms, to_ms, slots, rule, verdict, detail, at_ms)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, r.JobID, r.FromMs, r.ToMs, r.Slots, r.Rule, r.Verdict, string(r.Detail), r.AtMs)
	return err
}

// ExtendSlots makes the latest row of a job cover a following range, where it
// was decided by the same rule with the same detail; false when it was not.
func ExtendSlots(t *Tx, r SlotRow, beforeMs int64) (bool, error) {
	n, err := t.Exec(`UPDATE rota_slots SET to_ms = ?, slots = slots + ?, at_ms = ?
		WHERE seq = (SELECT seq FROM rota_slots WHERE job_id = ? ORDER BY to_ms DESC, seq DESC LIMIT 1)
		AND rule = ? AND verdict = ? AND detail = ? AND to_ms = ?`,
		r.ToMs, r.Slots, r.AtMs, r.JobID, r.Rule, r.Verdict, string(r.Detail), beforeMs)
	return n == 1, err
}

// SlotsAt reads the decisions that cover one instant, or the latest one when
// atMs is 0.
func SlotsAt(t *Tx, jobID string, atMs int64) ([]SlotRow, error) {
	query := `SELECT seq, job_id, from_ms, to_ms, slots, rule, verdict, detail, at_ms FROM rota_slots
		WHERE job_id = ? AND to_ms >= ? AND from_ms <= ? ORDER BY to_ms, seq LIMIT 100`
	args := []any{jobID, atMs, atMs}
	if atMs == 0 {
		query = `SELECT seq, job_id, from_ms, to_ms, slots, rule, verdict, detail, at_ms FROM rota_slots
		WHERE job_id = ? ORDER BY to_ms DESC, seq DESC LIMIT 1`
		args = []any{jobID}
	}
	var out []SlotRow
	err := t.Query(query, args, func(scan func(...any) error) error {
		var r SlotRow
		var detail string
		err := scan(&r.Seq, &r.JobID, &r.FromMs, &r.ToMs, &r.Slots, &r.Rule, &r.Verdict, &detail, &r.AtMs)
		r.Detail = json.RawMessage(detail)
		out = append(out, r)
		return err
	})
	return out, err
}

// EventRow is one row of rota_events.
type EventRow struct {
	Seq    int64
	AtMs   int64
	Kind   string
	JobID  string
	RunID  string
	SlotMs int64
	Status string
	Detail json.RawMessage
	// Task is the history row that Detail names as its "task", as far as it is
	// read here; nil where it names none, or retention took it. It is not
	// repeated in the event, which would double what a run's end writes.
	Task *HistoryRow
}

// eventsAtOnce is how many events one statement takes: what a statement costs
// beside its rows is then shared.
const eventsAtOnce = 16

var (
	insertEvent  = insertEventsSQL(1)
	insertEvents = insertEventsSQL(eventsAtOnce)
)

func insertEventsSQL(rows int) string {
	return `INSERT INTO rota_events (seq, at_ms, kind, job_id, run_id, slot_ms, status, detail)
		VALUES ` + strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?, ?, ?, ?), ", rows), ", ")
}

// InsertEvents adds the events of a turn.
func InsertEvents(t *Tx, events []EventRow) error {
	// A run tells two of its events in one turn: its ids are arguments once.
	clear(t.s.ids)
	var args [8 * eventsAtOnce]any
	for len(events) > 0 {
		n, query := 1, insertEvent
		if len(events) >= eventsAtOnce {
			n, query = eventsAtOnce, insertEvents
		}
		for i := range n {
			e, row := &events[i], args[8*i:8*i+8]
			row[0], row[1], row[2] = e.Seq, e.AtMs, t.s.word(e.Kind)
			if i > 0 && e.AtMs == events[i-1].AtMs {
				row[1] = args[8*i-7]
			}
			row[3], row[4] = t.s.id(e.JobID), t.s.id(e.RunID)
			row[5], row[6], row[7] = null(e.SlotMs), t.s.wordOrNull(e.Status), orNull(string(e.Detail))
		}
		if _, err := t.Exec(query, args[:8*n]...); err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// word is one of the few texts that come again and again, as an argument: it is
// made once.
func (s *Store) word(text string) any {
	if w, ok := s.words[text]; ok {
		return w
	}
	if s.words == nil {
		s.words = map[string]any{}
	}
	if len(s.words) < maxWords {
		s.words[text] = text
	}
	return text
}

// wordOrNull is word for columns that are NULL when unset.
func (s *Store) wordOrNull(text string) any {
	if text == "" {
		return nil
	}
	return s.word(text)
}

// id is an id as an argument, made once a statement or turn; an empty one is NULL.
func (s *Store) id(text string) any {
	if text == "" {
		return nil
	}
	if w, ok := s.ids[text]; ok {
		return w
	}
	if s.ids == nil {
		s.ids = map[string]any{}
	}
	var w any = text
	s.ids[text] = w
	return w
}

// maxWords bounds what is kept of them, whatever a file says.
const maxWords = 256

// EventsAfter reads events in order; the caller asks for more than it needs to
// keep a commit together.
func EventsAfter(t *Tx, seq int64, limit int) ([]EventRow, error) {
	var out []EventRow
	err := t.Query(`SELECT e.seq, e.at_ms, e.kind, coalesce(e.job_id, ''), coalesce(e.run_id, ''), coalesce(e.slot_ms, 0),
		coalesce(e.status, ''), coalesce(e.detail, ''), coalesce(h.task_id, ''), coalesce(h.ended_at, 0), coalesce(h.detail_json, '')
		FROM rota_events e LEFT JOIN task_runs h ON h.task_id = e.detail ->> '$.task'
		WHERE e.seq > ? ORDER BY e.seq LIMIT ?`,
		[]any{seq, limit}, func(scan func(...any) error) error {
			var e EventRow
			var h HistoryRow
			var detail, task string
			err := scan(&e.Seq, &e.AtMs, &e.Kind, &e.JobID, &e.RunID, &e.SlotMs, &e.Status, &detail, &h.TaskID, &h.EndedAtMs, &task)
			if detail != "" {
				e.Detail = json.RawMessage(detail)
			}
			if h.TaskID != "" {
				h.JobID, h.Detail = e.JobID, json.RawMessage(task)
				e.Task = &h
			}
			out = append(out, e)
			return err
		})
	return out, err
}

// LastSeq is the highest sequence number of the file. A commit whose answer
// was lost is there exactly if its number is.
func LastSeq(t *Tx) (int64, error) {
	var seq int64
	err := t.Query(`SELECT max(
		coalesce((SELECT max(seq) FROM rota_events), 0),
		coalesce((SELECT max(seq) FROM rota_slots), 0))`, nil,
		func(scan func(...any) error) error { return scan(&seq) })
	return seq, err
}

// PlanRow is one missed slot that will be run late.
type PlanRow struct {
	JobID   string
	SlotMs  int64
	RunAtMs int64
}

// InsertPlan plans a late run; planning the same slot twice moves its start.
func InsertPlan(t *Tx, p PlanRow) error {
	_, err := t.Exec(`INSERT INTO rota_plan (job_id, slot_ms, run_at_ms) VALUES (?, ?, ?)
		ON CONFLICT (job_id, slot_ms) DO UPDATE SET run_at_ms = excluded.run_at_ms`, p.JobID, p.SlotMs, p.RunAtMs)
	return err
}

// DeletePlan forgets one planned slot, or all of a job when slotMs is 0.
func DeletePlan(t *Tx, jobID string, slotMs int64) error {
	_, err := t.Exec(`DELETE FROM rota_plan WHERE job_id = ? AND (? = 0 OR slot_ms = ?)`, jobID, slotMs, slotMs)
	return err
}

// Plans reads every planned slot, oldest start first.
func Plans(t *Tx) ([]PlanRow, error) {
	var out []PlanRow
	err := t.Query(`SELECT job_id, slot_ms, run_at_ms FROM rota_plan ORDER BY run_at_ms, job_id, slot_ms`, nil,
		func(scan func(...any) error) error {
			var p PlanRow
			err := scan(&p.JobID, &p.SlotMs, &p.RunAtMs)
			out = append(out, p)
			return err
		})
	return out, err
}

// Request is a remembered key of a manual run.
type Request struct {
	RunID string
	Mode  string
}

// RequestByKey finds the run asked for under a key.
func RequestByKey(t *Tx, jobID, key string) (Request, bool, error) {
	var r Request
	found := false
	err := t.Query(`SELECT run_id, mode FROM rota_requests WHERE job_id = ? AND key = ?`, []any{jobID, key},
		func(scan func(...any) error) error { found = true; return scan(&r.RunID, &r.Mode) })
	return r, found, err
}

// InsertRequest remembers a key.
func InsertRequest(t *Tx, jobID, key string, r Request, atMs int64) error {
	_, err := t.Exec(`INSERT INTO rota_requests (job_id, key, run_id, mode, at_ms) VALUES (?, ?, ?, ?, ?)`,
		jobID, key, r.RunID, r.Mode, atMs)
	return err
}

// Meta reads one word that the worker keeps about the file, "" when unset.
func Meta(t *Tx, key string) (string, error) {
	value := ""
	err := t.Query(`SELECT value FROM rota_meta WHERE key = ?`, []any{key},
		func(scan func(...any) error) error { return scan(&value) })
	return value, err
}

// SetMeta keeps one word about the file.
func SetMeta(t *Tx, key, value string) error {
	_, err := t.Exec(`INSERT INTO rota_meta (key, value) VALUES (?, ?)
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, key, value)
	return err
}

// Expiry bounds one look of retention.
type Expiry struct {
	BeforeMs   int64 // events, decisions and request keys older than this go
	KeepEvents int64 // and events beyond so many
	LastSeq    int64
	Limit      int // rows a table
}

// Expire deletes what is past its time, oldest first, and says how much that
// was. Each statement looks at the oldest rows of its table only, in the order
// they were written: a row that is kept longer than its neighbours (a decision
// that was extended) delays those right behind it, never the rest.
func Expire(t *Tx, e Expiry) (removed int64, more bool, err error) {
	for _, d := range []struct {
		query string
		args  []any
	}{
		{`DELETE FROM rota_events WHERE seq IN (SELECT seq FROM (SELECT seq, at_ms FROM rota_events ORDER BY seq LIMIT ?)
			WHERE seq <= ? OR at_ms < ?)`, []any{e.Limit, e.LastSeq - e.KeepEvents, e.BeforeMs}},
		{`DELETE FROM rota_slots WHERE seq IN (SELECT seq FROM (SELECT seq, at_ms FROM rota_slots ORDER BY seq LIMIT ?)
			WHERE at_ms < ?)`, []any{e.Limit, e.BeforeMs}},
		{`DELETE FROM rota_requests WHERE seq IN (SELECT seq FROM (SELECT seq, at_ms FROM rota_requests ORDER BY seq LIMIT ?)
			WHERE at_ms < ?)`, []any{e.Limit, e.BeforeMs}},
	} {
		n, err := t.Exec(d.query, d.args...)
		if err != nil {
			return removed, more, err
		}
		removed += n
		more = more || n == int64(e.Limit)
	}
	return removed, more, nil
}

// trimReceipts reads the index by job alone, and no further than it must: what a
// trim costs does not depend on how many receipts there are.
const trimReceipts = `DELETE FROM cron_run_receipts WHERE status <> 'running' AND rowid IN (
	SELECT r FROM (SELECT rowid AS r FROM cron_run_receipts WHERE store_key = ?1 AND job_id = ?2 AND started_at_ms <= ?3
		ORDER BY started_at_ms DESC, receipt_id DESC LIMIT ?4 OFFSET ?5)
	UNION ALL
	SELECT r FROM (SELECT rowid AS r FROM cron_run_receipts WHERE store_key = ?1 AND job_id = ?2 AND started_at_ms > ?3
		ORDER BY started_at_ms DESC, receipt_id DESC LIMIT ?4 OFFSET (SELECT ?5 - count(*) FROM
		(SELECT 1 FROM cron_run_receipts WHERE store_key = ?1 AND job_id = ?2 AND started_at_ms <= ?3 LIMIT ?5))))`

// TrimReceipts keeps so many of a job's newest receipts, the open one among them,
// and says how many it removed: at most limit of either kind. The open one stays
// wherever it is. Receipts of a time that has not come, left by a clock that was
// ahead, count as the oldest.
func TrimReceipts(t *Tx, jobID string, nowMs int64, keep, limit int) (removed int64, err error) {
	return t.Exec(trimReceipts, t.StoreKey(), jobID, nowMs, limit, keep)
}

// ExpireOrphans looks at limit receipts from a place in the table on and removes
// those of removed jobs that finished before beforeMs: nothing else ever trims
// them. next is where to look on, 0 at the end.
func ExpireOrphans(t *Tx, from, beforeMs int64, limit int) (next, removed int64, err error) {
	seen := 0
	err = t.Query(`SELECT rowid FROM cron_run_receipts WHERE rowid > ? ORDER BY rowid LIMIT ?`, []any{from, limit},
		func(scan func(...any) error) error { seen++; return scan(&next) })
	if err != nil || seen == 0 {
		return 0, 0, err
	}
	// Left to itself SQLite walks the index of the whole partition.
	removed, err = t.Exec(`DELETE FROM cron_run_receipts NOT INDEXED WHERE rowid > ? AND rowid <= ? AND store_key = ?
		AND status <> 'running' AND finished_at_ms < ?
		AND NOT EXISTS (SELECT 1 FROM cron_jobs j WHERE j.store_key = cron_run_receipts.store_key AND j.job_id = cron_run_receipts.job_id)`,
		from, next, t.StoreKey(), beforeMs)
	if seen < limit {
		next = 0
	}
	return next, removed, err
}
