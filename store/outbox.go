package store

import "encoding/json"

// OutboxRow is the result of a run whose delivery is under way.
type OutboxRow struct {
	ReceiptID   string
	JobID       string
	Destination string          // URL
	Result      json.RawMessage // what the run's end needs once the delivery is over
	Answered    int             // sends whose answer is known
	Held        bool            // a daemon stopped in order, and no send was under way
	AtMs        int64           // when the result was committed
}

// InsertOutbox keeps a result before the first send.
func InsertOutbox(t *Tx, r OutboxRow) error {
	_, err := t.Exec(`INSERT INTO rota_outbox (receipt_id, job_id, destination, result, answered, at_ms)
		VALUES (?, ?, ?, ?, ?, ?)`, r.ReceiptID, r.JobID, r.Destination, string(r.Result), r.Answered, r.AtMs)
	return err
}

// HoldOutbox says that no send is under way, and how many were answered.
func HoldOutbox(t *Tx, receiptID string, answered int) error {
	_, err := t.Exec(`UPDATE rota_outbox SET answered = ?, held = 1 WHERE receipt_id = ?`, answered, receiptID)
	return err
}

// ReleaseOutbox says that sends may be under way again.
func ReleaseOutbox(t *Tx, receiptID string) error {
	_, err := t.Exec(`UPDATE rota_outbox SET held = 0 WHERE receipt_id = ? AND held = 1`, receiptID)
	return err
}

// OutboxByReceipt reads one result; ok is false when there is none.
func OutboxByReceipt(t *Tx, receiptID string) (r OutboxRow, ok bool, err error) {
	r.ReceiptID = receiptID
	err = t.Query(`SELECT job_id, destination, result, answered, held, at_ms FROM rota_outbox WHERE receipt_id = ?`, []any{receiptID},
		func(scan func(...any) error) error {
			var result string
			err := scan(&r.JobID, &r.Destination, &result, &r.Answered, &r.Held, &r.AtMs)
			r.Result, ok = json.RawMessage(result), true
			return err
		})
	return r, ok, err
}

// DeleteOutbox forgets a result; its run has ended.
func DeleteOutbox(t *Tx, receiptID string) error {
	_, err := t.Exec(`DELETE FROM rota_outbox WHERE receipt_id = ?`, receiptID)
	return err
}

// DropStrays removes results whose receipt has ended and attempts whose job is
// gone: another program may have done either while rota was not running.
func DropStrays(t *Tx) (removed int64, err error) {
	results, err := t.Exec(`DELETE FROM rota_outbox WHERE receipt_id NOT IN
		(SELECT receipt_id FROM cron_run_receipts WHERE status = 'running')`)
	if err != nil {
		return 0, err
	}
	attempts, err := t.Exec(`DELETE FROM rota_retries WHERE job_id NOT IN (SELECT job_id FROM cron_jobs WHERE store_key = ?)`, t.StoreKey())
	return results + attempts, err
}

// Retry is the next attempt of a job whose run failed.
type Retry struct {
	JobID      string
	DeadlineMs int64 // its own slot
	OriginMs   int64 // the natural slot that failed first
	Attempt    int   // from 2
}

// PutRetry plans the next attempt; a job has at most one.
func PutRetry(t *Tx, r Retry) error {
	_, err := t.Exec(`INSERT INTO rota_retries (job_id, deadline_ms, origin_ms, attempt) VALUES (?, ?, ?, ?)
		ON CONFLICT (job_id) DO UPDATE SET deadline_ms = excluded.deadline_ms, origin_ms = excluded.origin_ms, attempt = excluded.attempt`,
		r.JobID, r.DeadlineMs, r.OriginMs, r.Attempt)
	return err
}

// DeleteRetry forgets a job's next attempt.
func DeleteRetry(t *Tx, jobID string) error {
	_, err := t.Exec(`DELETE FROM rota_retries WHERE job_id = ?`, jobID)
	return err
}

// Retries reads every planned attempt.
func Retries(t *Tx) ([]Retry, error) {
	var out []Retry
	err := t.Query(`SELECT job_id, deadline_ms, origin_ms, attempt FROM rota_retries ORDER BY job_id`, nil,
		func(scan func(...any) error) error {
			var r Retry
			err := scan(&r.JobID, &r.DeadlineMs, &r.OriginMs, &r.Attempt)
			out = append(out, r)
			return err
		})
	return out, err
}
