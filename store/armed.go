package store

import (
	"encoding/json"
	"strings"
)

// ArmedRow is one row of rota_armed: a run that is committed ahead of its moment.
type ArmedRow struct {
	N         int64 // its key, given by the caller
	JobID     string
	ReceiptID string
	State     json.RawMessage // the job's as it was before
	RuntimeMs int64           // the time of its last write; 0 = never
}

// InsertArmed adds a row.
func InsertArmed(t *Tx, r ArmedRow) error {
	_, err := t.Exec(`INSERT INTO rota_armed (n, job_id, receipt_id, was_json, was_ms) VALUES (?, ?, ?, ?, ?)`,
		r.N, r.JobID, r.ReceiptID, string(r.State), null(r.RuntimeMs))
	return err
}

// armedAtOnce is how many rows one statement takes away.
const armedAtOnce = 16

var (
	deleteArmed  = deleteArmedSQL(1)
	deleteArmeds = deleteArmedSQL(armedAtOnce)
)

func deleteArmedSQL(rows int) string {
	return `DELETE FROM rota_armed WHERE n IN (` + strings.TrimSuffix(strings.Repeat("?, ", rows), ", ") + `)`
}

// DeleteArmed takes rows away: their moment has come, or they were disarmed.
func DeleteArmed(t *Tx, rows []int64) error {
	var args [armedAtOnce]any
	for len(rows) > 0 {
		n, query := 1, deleteArmed
		if len(rows) >= armedAtOnce {
			n, query = armedAtOnce, deleteArmeds
		}
		for i := range n {
			args[i] = rows[i]
		}
		if _, err := t.Exec(query, args[:n]...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// WithdrawReceipt takes an open receipt away as if it had never been: its run was
// armed and not handed out.
func WithdrawReceipt(t *Tx, id string) error {
	_, err := t.Exec(`DELETE FROM cron_run_receipts WHERE receipt_id = ? AND status = 'running'`, id)
	return err
}

// RestoreArmed puts back what every armed run changed, and says how many there
// were.
func RestoreArmed(t *Tx) (int64, error) {
	_, err := t.Exec(`UPDATE cron_jobs SET state_json = a.was_json, runtime_updated_at_ms = a.was_ms
		FROM rota_armed a WHERE cron_jobs.store_key = ? AND cron_jobs.job_id = a.job_id`, t.StoreKey())
	if err != nil {
		return 0, err
	}
	_, err = t.Exec(`DELETE FROM cron_run_receipts WHERE status = 'running' AND receipt_id IN (SELECT receipt_id FROM rota_armed)`)
	if err != nil {
		return 0, err
	}
	return t.Exec(`DELETE FROM rota_armed`)
}
