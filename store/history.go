package store

import "encoding/json"

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
		VALUES (?, 'cron', 'automation_run', ?, '', '', 'system', ?, ?, ?, ?, 'not_applicable', 'silent', ?, ?, ?, ?, ?, ?, ?, CAST(? AS TEXT))`,
		r.TaskID, jobID, t.s.wordOrNull(r.AgentID), r.RunID, jobID, t.s.word(r.Status),
		startedAtMs, startedAtMs, endedAtMs, endedAtMs, r.CleanupMs,
		orNull(r.Error), orNull(r.Summary), []byte(r.Detail))
	return err
}

// HistoryOfRun finds the newest row of one run by its public id. It looks at the
// job's rows from an instant on, at most limit of them: a run ends no earlier
// than it was asked for.
func HistoryOfRun(t *Tx, jobID, runID string, fromMs int64, limit int) (e HistoryEntry, found bool, err error) {
	m := newMatcher(t, HistoryFilter{JobID: jobID, RunID: runID})
	err = t.Query(`SELECT ended_at, coalesce(detail_json, '{}') FROM task_runs
		WHERE runtime = 'cron' AND source_id = ? AND ended_at >= ? ORDER BY ended_at, created_at, task_id LIMIT ?`,
		[]any{jobID, fromMs, limit}, func(scan func(...any) error) error {
			var endedAtMs int64
			var detail string
			if err := scan(&endedAtMs, &detail); err != nil || !m.row(jobID, []byte(detail)) {
				return err
			}
			e, found = HistoryEntry{JobID: jobID, EndedAtMs: endedAtMs, Detail: json.RawMessage(detail)}, true
			return nil
		})
	return e, found, err
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
