package store

import (
	"encoding/json"
	"strings"
)

// HistoryRow is one terminal row of task_runs, as cron writes it.
type HistoryRow struct {
	TaskID      string
	JobID       string
	AgentID     string
	RunID       string // internal: cron:<job>:<startedAt>:<receipt>[:<public id>]
	Status      string // succeeded, failed, timed_out, cancelled
	StartedAtMs int64
	EndedAtMs   int64
	CleanupMs   int64 // when retention may take it
	Error       string
	Summary     string
	Detail      json.RawMessage // detail_json: the entry clients read
}

// InsertHistory adds the row of a finished run.
func InsertHistory(t *Tx, r HistoryRow) error {
	var jobID, startedAtMs, endedAtMs any = r.JobID, r.StartedAtMs, r.EndedAtMs // each stands twice
	_, err := t.Exec(`INSERT INTO task_runs (task_id, runtime, task_kind, source_id, requester_session_key, owner_key,
		scope_kind, agent_id, run_id, task, status, delivery_status, notify_policy, created_at, started_at, ended_at,
		last_event_at, cleanup_after, error, terminal_summary, detail_json)
		VALUES (?, 'cron', 'automation_run', ?, '', '', 'system', ?, ?, ?, ?, 'not_applicable', 'silent', ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.TaskID, jobID, t.s.wordOrNull(r.AgentID), r.RunID, jobID, t.s.word(r.Status),
		startedAtMs, startedAtMs, endedAtMs, endedAtMs, r.CleanupMs,
		orNull(r.Error), orNull(r.Summary), string(r.Detail))
	return err
}

// HistoryFilter selects history rows. Text filters look into detail_json,
// which no index covers: they examine rows one by one.
type HistoryFilter struct {
	JobID            string
	RunID            string // the public id
	AgentID          string
	Statuses         []string
	DeliveryStatuses []string
	Query            string
	// JobIDs of jobs whose name matches Query: their rows match too.
	JobIDs []string
}

// HistoryPage reads one page and counts all matches.
func HistoryPage(t *Tx, f HistoryFilter, ascending bool, limit, offset int) (details []HistoryRow, total int, err error) {
	where, args := f.where(t.StoreKey())
	err = t.Query(`SELECT count(*) FROM task_runs WHERE `+where, args,
		func(scan func(...any) error) error { return scan(&total) })
	if err != nil || total <= offset {
		return nil, total, err
	}
	dir := "DESC"
	if ascending {
		dir = "ASC"
	}
	err = t.Query(`SELECT task_id, source_id, status, coalesce(started_at, created_at),
		coalesce(ended_at, last_event_at, created_at), coalesce(error, ''), coalesce(terminal_summary, ''), coalesce(detail_json, '{}')
		FROM task_runs WHERE `+where+` ORDER BY ended_at `+dir+`, created_at `+dir+`, task_id `+dir+` LIMIT ? OFFSET ?`,
		append(args, limit, offset),
		func(scan func(...any) error) error {
			var r HistoryRow
			var detail string
			err := scan(&r.TaskID, &r.JobID, &r.Status, &r.StartedAtMs, &r.EndedAtMs, &r.Error, &r.Summary, &detail)
			r.Detail = json.RawMessage(detail)
			details = append(details, r)
			return err
		})
	return details, total, err
}

// where renders the filter. Only constants enter the text; values are bound.
func (f *HistoryFilter) where(storeKey string) (string, []any) {
	var b strings.Builder
	args := []any{storeKey}
	b.WriteString(`runtime = 'cron' AND ended_at IS NOT NULL AND detail_json ->> '$.kind' = 'cron-run'
		AND detail_json ->> '$.storeKey' = ?`)
	and := func(text string, values ...any) {
		b.WriteString(" AND " + text)
		args = append(args, values...)
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
	in := func(expr string, values []string) {
		if len(values) > 0 {
			and(expr+` IN (SELECT value FROM json_each(?))`, list(values))
		}
	}
	in(`detail_json ->> '$.status'`, f.Statuses)
	in(`coalesce(detail_json ->> '$.deliveryStatus', 'not-requested')`, f.DeliveryStatuses)
	if f.Query != "" {
		text := `(instr(lower(coalesce(detail_json ->> '$.summary', '') || ' ' || coalesce(detail_json ->> '$.error', '') || ' ' ||
			coalesce(detail_json ->> '$.errorReason', '') || ' ' || coalesce(detail_json ->> '$.diagnostics', '') || ' ' || source_id), ?) > 0`
		values := []any{strings.ToLower(f.Query)}
		if len(f.JobIDs) > 0 {
			text += ` OR source_id IN (SELECT value FROM json_each(?))`
			values = append(values, list(f.JobIDs))
		}
		and(text+`)`, values...)
	}
	return b.String(), args
}

// list is a list of texts as one bound value: however long it is, the query's
// text stays the same.
func list(values []string) string {
	raw, err := json.Marshal(values)
	if err != nil {
		panic("store: texts can be encoded: " + err.Error())
	}
	return string(raw)
}

// HasHistory reports whether a job ever finished a run that is still kept.
func HasHistory(t *Tx, jobID string) (bool, error) {
	found := false
	err := t.Query(`SELECT 1 FROM task_runs WHERE runtime = 'cron' AND source_id = ? LIMIT 1`, []any{jobID},
		func(scan func(...any) error) error { found = true; var one int; return scan(&one) })
	return found, err
}

// FinalizedHistory finds the finished row of a run by its receipt: a run that
// has one is restored, never run again.
func FinalizedHistory(t *Tx, jobID string, startedAtMs int64, receiptID string) (HistoryRow, bool, error) {
	internal := InternalRunID(jobID, startedAtMs, receiptID, "")
	var r HistoryRow
	found := false
	err := t.Query(`SELECT task_id, status, coalesce(started_at, created_at), ended_at, coalesce(error, ''),
		coalesce(terminal_summary, ''), detail_json
		FROM task_runs WHERE runtime = 'cron' AND source_id = ? AND ended_at IS NOT NULL AND detail_json IS NOT NULL
		AND detail_json ->> '$.storeKey' = ? AND detail_json ->> '$.status' IS NOT NULL
		AND (run_id = ? OR substr(run_id, 1, ?) = ?)
		ORDER BY ended_at DESC, created_at DESC, task_id DESC LIMIT 1`,
		[]any{jobID, t.StoreKey(), internal, len([]rune(internal)) + 1, internal + ":"},
		func(scan func(...any) error) error {
			found = true
			var detail string
			err := scan(&r.TaskID, &r.Status, &r.StartedAtMs, &r.EndedAtMs, &r.Error, &r.Summary, &detail)
			r.JobID, r.Detail = jobID, json.RawMessage(detail)
			return err
		})
	return r, found, err
}
