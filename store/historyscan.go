package store

import (
	"bytes"
	"encoding/json"
	"math"
)

// HistoryScan walks the history of one job or of all jobs in the order of its
// time, a bounded slice at a time, each in a transaction of its own. It counts
// the rows that match and keeps those of one page.
//
// The answer is as of the scan's start. A row that was added later is left out,
// whatever time it carries, and one that is there all the while is seen exactly
// once. A row that retention removes on the way is seen where the scan was there
// first.
//
// In a file that rota made, every history row is a run of its own partition. A
// scan without a filter then reads the index and no row, except for the page.
type HistoryScan struct {
	Total int            // rows that matched so far; all of them when the scan is done
	Page  []HistoryEntry // of these, the ones of the page, so far
	Done  bool

	match         matcher
	ascending     bool
	offset, limit int
	known         bool // Total was known from the start
	passed        int  // matching rows behind the scan
	newest        int64
	at            historyKey
	sql           historyQueries
	args          []any // what every statement begins with: the job, if there is one
}

// HistoryEntry is one row of a page.
type HistoryEntry struct {
	JobID     string
	EndedAtMs int64
	Detail    json.RawMessage
}

// historyKey is the place of a row in the order of history. task_id makes it
// unique.
type historyKey struct {
	endedAtMs, createdAtMs int64
	taskID                 string
}

// What a slice may do is counted in rows read. Rows that were added since the
// start are not counted: they are passed in the index. To pass an entry of the index
// costs a fiftieth of that; pricing it higher keeps a slice short also where the
// index is not in memory. A row of the page is read and handed on, which is
// twice the work.
const (
	IndexEntriesPerRow = 32
	pageRowCost        = 2
)

// NewHistoryScan begins a scan for one page. total is how many rows match where
// that is known, and -1 where the scan has to count them.
func NewHistoryScan(t *Tx, f HistoryFilter, ascending bool, limit, offset, total int) (*HistoryScan, error) {
	s := &HistoryScan{match: newMatcher(t, f), ascending: ascending, offset: offset, limit: limit,
		sql: historyQueriesOf(f.JobID != "", ascending), at: endOfHistory(!ascending)}
	if f.JobID != "" {
		s.args = []any{f.JobID}
	}
	if total >= 0 {
		s.Total, s.known = total, true
		s.Done = offset >= total || limit <= 0
	}
	var err error
	s.newest, err = newestHistory(t)
	return s, err
}

// newestHistory is the row that was added last: its rowid is the greatest.
func newestHistory(t *Tx) (rowid int64, err error) {
	err = t.Query(`SELECT coalesce(max(rowid), 0) FROM task_runs`, nil, func(scan func(...any) error) error { return scan(&rowid) })
	return rowid, err
}

// Slice goes on for the price of at most budget rows, which is at least one, and
// says how much of it was spent.
func (s *HistoryScan) Slice(t *Tx, budget int) (spent int, err error) {
	for spent < budget && !s.Done {
		left := budget - spent
		switch {
		case !s.match.everyRow:
			spent += left
			err = s.examine(t, left)
		case s.passed < s.offset || len(s.Page) >= s.limit:
			var entries int
			entries, err = s.pass(t, left*IndexEntriesPerRow)
			spent += (entries + IndexEntriesPerRow - 1) / IndexEntriesPerRow
		default:
			rows := min(s.limit-len(s.Page), max(1, left/pageRowCost))
			spent += min(left, rows*pageRowCost)
			err = s.examine(t, rows)
		}
		if err != nil {
			return spent, err
		}
		if s.known && len(s.Page) >= s.limit {
			s.Done = true
		}
	}
	return spent, nil
}

// examine reads the next rows and tests each. Where they end is looked up
// first: three columns less of every row make the walk a third faster.
func (s *HistoryScan) examine(t *Tx, limit int) error {
	to, more, err := s.place(t, limit)
	if err != nil {
		return err
	}
	args := s.bind(s.newest, to.endedAtMs, to.createdAtMs, to.taskID, s.match.AgentID)
	s.at, s.Done = to, !more
	var detail []byte // of one row after the other
	return t.Query(s.sql.rows, args, func(scan func(...any) error) error {
		var e HistoryEntry
		if err := scan(&e.JobID, &e.EndedAtMs, &detail); err != nil {
			return err
		}
		if !s.match.row(e.JobID, detail) {
			return nil
		}
		if s.passed >= s.offset && len(s.Page) < s.limit {
			e.Detail = bytes.Clone(detail)
			s.Page = append(s.Page, e)
		}
		s.matched(1)
		return nil
	})
}

// place finds the row that many entries on, or the end where fewer are left.
func (s *HistoryScan) place(t *Tx, entries int) (at historyKey, found bool, err error) {
	at = endOfHistory(s.ascending)
	err = t.Query(s.sql.place, s.bind(s.newest, entries-1), func(scan func(...any) error) error {
		found = true
		return scan(&at.endedAtMs, &at.createdAtMs, &at.taskID)
	})
	return at, found, err
}

// endOfHistory is a place behind every row.
func endOfHistory(ascending bool) historyKey {
	if ascending {
		return historyKey{math.MaxInt64, math.MaxInt64, ""}
	}
	return historyKey{math.MinInt64, math.MinInt64, ""}
}

// pass goes by entries of the index without reading their rows.
func (s *HistoryScan) pass(t *Tx, limit int) (entries int, err error) {
	if s.passed < s.offset {
		limit = min(limit, s.offset-s.passed)
	}
	entries = limit
	to, more, err := s.place(t, limit)
	if err == nil && !more { // fewer are left
		err = t.Query(s.sql.rest, s.bind(s.newest), func(scan func(...any) error) error { return scan(&entries) })
	}
	s.at, s.Done = to, !more
	s.matched(entries)
	return limit, err
}

func (s *HistoryScan) matched(rows int) {
	s.passed += rows
	if !s.known {
		s.Total += rows
	}
}

// bind gives the values of a statement: the job, the place, and the rest.
func (s *HistoryScan) bind(more ...any) []any {
	args := append(s.args[:len(s.args):len(s.args)], s.at.endedAtMs, s.at.createdAtMs, s.at.taskID)
	return append(args, more...)
}

// historyQueries are the statements of one direction of one scope. All of them
// go along one index, from a place on.
type historyQueries struct{ rows, place, rest string }

func historyQueriesOf(ofJob, ascending bool) historyQueries {
	to := ` AND (ended_at, created_at, task_id) >= (?, ?, ?)`
	from, order := ` FROM task_runs WHERE runtime = 'cron' `, ` ORDER BY ended_at DESC, created_at DESC, task_id DESC `
	if ofJob {
		from += `AND source_id = ? `
	}
	if ascending {
		from += `AND (ended_at, created_at, task_id) > (?, ?, ?) AND rowid <= ?`
		to, order = ` AND (ended_at, created_at, task_id) <= (?, ?, ?)`, ` ORDER BY ended_at, created_at, task_id `
	} else {
		from += `AND (ended_at, created_at, task_id) < (?, ?, ?) AND rowid <= ?`
	}
	return historyQueries{
		rows: `SELECT coalesce(source_id, ''), ended_at, coalesce(detail_json, '{}')` + from + to +
			` AND coalesce(agent_id, '') = coalesce(nullif(?, ''), agent_id, '')` + order,
		place: `SELECT ended_at, created_at, task_id` + from + order + `LIMIT 1 OFFSET ?`,
		rest:  `SELECT count(*)` + from,
	}
}
