//go:build unix

package main

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// crashLedger is what a database file says, read with plain SQL and none of
// rota's own code.
type crashLedger struct {
	integrity string
	runs      []crashRunRow
	receipts  []crashReceiptRow
	jobs      map[string]crashJobRow
	outbox    map[string]bool // receipts whose result is kept while it is sent
	plans     int
	resumed   int // requests that a start took up again
}

// crashRunRow is one finished run of the history.
type crashRunRow struct {
	JobID          string `json:"-"`
	RunID          string `json:"runId"`
	Status         string `json:"status"`
	Error          string `json:"error"`
	Summary        string `json:"summary"`
	Trigger        string `json:"trigger"`
	SlotMs         int64  `json:"slotMs"`
	LateMs         int64  `json:"lateMs"`
	DeliveryStatus string `json:"deliveryStatus"`
	DeliveryError  string `json:"deliveryError"`
	Interrupted    *struct {
		Reason string `json:"reason"`
	} `json:"interrupted"`
}

// crashReceiptRow is one receipt; slotMs is what its id says, 0 for a manual run.
type crashReceiptRow struct {
	id, jobID, runID, status string
	slotMs                   int64
}

// crashJobRow is one job: its definition and where it stands.
type crashJobRow struct {
	name    string
	enabled bool
	Sched   struct {
		Kind     string `json:"kind"`
		At       string `json:"at"`
		EveryMs  int64  `json:"everyMs"`
		AnchorMs int64  `json:"anchorMs"`
		Expr     string `json:"expr"`
	} `json:"schedule"`
	sends, requests bool // its result goes to the receiver; it is a request itself
	state           struct {
		NextRunAtMs      int64  `json:"nextRunAtMs"`
		QueuedAtMs       int64  `json:"queuedAtMs"`
		RunningAtMs      int64  `json:"runningAtMs"`
		RunningReceiptID string `json:"runningReceiptId"`
	}
}

// readCrashLedger reads copies of the file and its log, so that looking at
// them repairs nothing. No daemon may be running.
func readCrashLedger(db, scratch string) (l *crashLedger, err error) {
	copied := filepath.Join(scratch, "copy.sqlite")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(copied + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	for _, suffix := range []string{"", "-wal"} {
		if err := copyCrashFile(db+suffix, copied+suffix); err != nil {
			return nil, err
		}
	}
	conn, err := sql.Open("sqlite", copied)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	l = &crashLedger{jobs: map[string]crashJobRow{}, outbox: map[string]bool{}}
	if err := conn.QueryRow(`PRAGMA integrity_check`).Scan(&l.integrity); err != nil {
		return nil, fmt.Errorf("integrity_check: %w", err)
	}
	if err := conn.QueryRow(`SELECT count(*) FROM rota_plan`).Scan(&l.plans); err != nil {
		return nil, err
	}
	err = conn.QueryRow(`SELECT count(*) FROM rota_events WHERE kind = 'run.requested' AND status = 'resumed'`).Scan(&l.resumed)
	err = errors.Join(err, eachCrashRow(conn, `SELECT receipt_id FROM rota_outbox`, func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		l.outbox[id] = true
		return err
	}))
	return l, errors.Join(err, l.readRuns(conn), l.readReceipts(conn), l.readJobs(conn))
}

func copyCrashFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func eachCrashRow(conn *sql.DB, query string, each func(scan func(...any) error) error) error {
	rows, err := conn.Query(query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return fmt.Errorf("%s: %w", query, err)
		}
	}
	return rows.Err()
}

func (l *crashLedger) readRuns(conn *sql.DB) error {
	return eachCrashRow(conn, `SELECT source_id, detail_json FROM task_runs WHERE runtime = 'cron' AND ended_at IS NOT NULL`,
		func(scan func(...any) error) error {
			var r crashRunRow
			var detail string
			if err := scan(&r.JobID, &detail); err != nil {
				return err
			}
			l.runs = append(l.runs, r)
			return json.Unmarshal([]byte(detail), &l.runs[len(l.runs)-1])
		})
}

func (l *crashLedger) readReceipts(conn *sql.DB) error {
	return eachCrashRow(conn, `SELECT receipt_id, job_id, coalesce(request_run_id, receipt_id), status FROM cron_run_receipts`,
		func(scan func(...any) error) error {
			var r crashReceiptRow
			err := scan(&r.id, &r.jobID, &r.runID, &r.status)
			r.slotMs = crashSlotOf(r.id)
			l.receipts = append(l.receipts, r)
			return err
		})
}

// crashSlotOf reads the slot out of the receipt id of a timed run: base64url
// of [store, job, slot].
func crashSlotOf(id string) (slotMs int64) {
	text, timed := strings.CutPrefix(id, "cron-slot-v1.")
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var parts []json.RawMessage
	if !timed || err != nil || json.Unmarshal(raw, &parts) != nil || len(parts) < 3 {
		return 0
	}
	_ = json.Unmarshal(parts[2], &slotMs) // 0 then
	return slotMs
}

func (l *crashLedger) readJobs(conn *sql.DB) error {
	return eachCrashRow(conn, `SELECT job_id, name, enabled, job_json, state_json FROM cron_jobs`,
		func(scan func(...any) error) error {
			var id, definition, state string
			var j crashJobRow
			if err := scan(&id, &j.name, &j.enabled, &definition, &state); err != nil {
				return err
			}
			err := errors.Join(json.Unmarshal([]byte(definition), &j), json.Unmarshal([]byte(state), &j.state))
			j.sends, j.requests = strings.Contains(definition, `"mode":"webhook"`), strings.Contains(definition, `"kind":"http"`)
			l.jobs[id] = j
			return err
		})
}

// of gives the finished runs of one job.
func (l *crashLedger) of(jobID string) []crashRunRow {
	var own []crashRunRow
	for _, r := range l.runs {
		if r.JobID == jobID {
			own = append(own, r)
		}
	}
	return own
}

// ledger reads the site's file; the daemon has ended.
func (s *crashSite) ledger() *crashLedger {
	s.t.Helper()
	l, err := readCrashLedger(s.db(), s.t.TempDir())
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.logTail())
	}
	return l
}
