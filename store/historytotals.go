package store

import "math"

// HistoryTotals are numbers of history rows by job. Rows of other kinds, and of
// other partitions, which a file that rota only opened may hold, are not in them.
type HistoryTotals map[string]int

// ownHistory is what counts, in a file that rota opened. A detail that is not
// JSON is nobody's.
const ownHistory = `CASE WHEN json_valid(detail_json) THEN detail_json ->> '$.kind' = 'cron-run' AND detail_json ->> '$.storeKey' = ? END`

// HistoryCount counts the history of every job, a bounded slice at a time: one
// walk along the index by job. Rows added after its start are not counted.
// Nobody may remove history before it is done.
type HistoryCount struct {
	Done bool

	newest int64
	jobID  string
	at     historyKey
}

// NewHistoryCount begins a count.
func NewHistoryCount(t *Tx) (*HistoryCount, error) {
	newest, err := newestHistory(t)
	return &HistoryCount{newest: newest, at: historyKey{math.MinInt64, math.MinInt64, ""}}, err
}

// The walk: what lies behind the last place, and of that what lies before the next.
const (
	countedFrom = ` FROM task_runs WHERE runtime = 'cron' AND source_id <> '' AND ended_at IS NOT NULL AND rowid <= ?
		AND (source_id, ended_at, created_at, task_id) > (?, ?, ?, ?)`
	countedTo = ` AND (source_id, ended_at, created_at, task_id) <= (?, ?, ?, ?)`
)

// Slice goes on for the price of budget rows and gives what it counted.
func (c *HistoryCount) Slice(t *Tx, budget int) (HistoryTotals, error) {
	if t.s.Made() {
		budget *= IndexEntriesPerRow
	}
	args := []any{c.newest, c.jobID, c.at.endedAtMs, c.at.createdAtMs, c.at.taskID}
	c.Done = true
	err := t.Query(`SELECT source_id, ended_at, created_at, task_id`+countedFrom+` ORDER BY source_id, ended_at, created_at, task_id LIMIT 1 OFFSET ?`,
		append(args[:len(args):len(args)], budget-1), func(scan func(...any) error) error {
			c.Done = false
			return scan(&c.jobID, &c.at.endedAtMs, &c.at.createdAtMs, &c.at.taskID)
		})
	if err != nil {
		return nil, err
	}
	query := `SELECT source_id, count(*)` + countedFrom
	if !c.Done {
		query += countedTo
		args = append(args, c.jobID, c.at.endedAtMs, c.at.createdAtMs, c.at.taskID)
	}
	if !t.s.Made() {
		query += ` AND ` + ownHistory
		args = append(args, t.StoreKey())
	}
	totals := HistoryTotals{}
	err = t.Query(query+` GROUP BY source_id`, args, func(scan func(...any) error) error {
		var jobID string
		var n int
		err := scan(&jobID, &n)
		totals[jobID] = n
		return err
	})
	return totals, err
}

// ExpireHistory removes history rows whose cleanup time is past, at most limit
// and oldest first, and says which were. It looks at the oldest rows only: one
// that is kept longer delays those right behind it, never the rest.
func ExpireHistory(t *Tx, nowMs int64, limit int) (removed int64, by HistoryTotals, err error) {
	return removeHistory(t, `SELECT rowid FROM (SELECT rowid, cleanup_after FROM task_runs
		WHERE runtime = 'cron' AND ended_at < ? ORDER BY ended_at LIMIT ?) WHERE cleanup_after < ?`, nowMs, limit, nowMs)
}

// TrimHistory removes the oldest history rows of a job, as many as it is told.
func TrimHistory(t *Tx, jobID string, rows int) (removed int64, by HistoryTotals, err error) {
	const pick = `SELECT rowid FROM task_runs WHERE runtime = 'cron' AND source_id = ? AND ended_at IS NOT NULL
		ORDER BY ended_at, created_at, task_id LIMIT ?`
	if !t.s.Made() {
		return removeHistory(t, pick, jobID, rows)
	}
	removed, err = t.Exec(`DELETE FROM task_runs WHERE rowid IN (`+pick+`)`, jobID, rows)
	return removed, HistoryTotals{jobID: int(removed)}, err
}

// removeHistory removes the rows that a query picks, and counts them first.
func removeHistory(t *Tx, pick string, args ...any) (removed int64, by HistoryTotals, err error) {
	counts, counted := "1", args
	if !t.s.Made() {
		counts, counted = ownHistory, append([]any{t.StoreKey()}, args...)
	}
	by = HistoryTotals{}
	err = t.Query(`SELECT coalesce(source_id, ''), count(*), total(`+counts+`) FROM task_runs WHERE rowid IN (`+pick+`) GROUP BY source_id`,
		counted, func(scan func(...any) error) error {
			var jobID string
			var rows int64
			var own float64
			err := scan(&jobID, &rows, &own)
			if removed += rows; jobID != "" && own > 0 {
				by[jobID] = int(own)
			}
			return err
		})
	if err != nil || removed == 0 {
		return 0, nil, err
	}
	removed, err = t.Exec(`DELETE FROM task_runs WHERE rowid IN (`+pick+`)`, args...)
	return removed, by, err
}
