package store

// Receipt statuses. "running" covers a request that waits and a run that is
// active: the job's state says which.
const (
	ReceiptRunning     = "running"
	ReceiptOK          = "ok"
	ReceiptError       = "error"
	ReceiptSkipped     = "skipped"
	ReceiptInterrupted = "interrupted"
)

// Receipt is one row of cron_run_receipts: the ledger's word on one run.
type Receipt struct {
	ID             string
	JobID          string
	ConfigRevision string
	AgentID        string
	RequestRunID   string // the public id of a manual run; empty for timed ones
	Status         string
	OwnerPID       int64
	StartedAtMs    int64 // reservation, then activation
	FinishedAtMs   int64 // 0 while running
	ErrorText      string
}

const receiptColumns = `receipt_id, job_id, config_revision, agent_id, coalesce(request_run_id, ''), status,
	owner_pid, started_at_ms, coalesce(finished_at_ms, 0), coalesce(error_text, '')`

func scanReceipt(scan func(...any) error) (Receipt, error) {
	var r Receipt
	err := scan(&r.ID, &r.JobID, &r.ConfigRevision, &r.AgentID, &r.RequestRunID, &r.Status,
		&r.OwnerPID, &r.StartedAtMs, &r.FinishedAtMs, &r.ErrorText)
	return r, err
}

func receiptsWhere(t *Tx, where string, args ...any) ([]Receipt, error) {
	var out []Receipt
	err := t.Query(`SELECT `+receiptColumns+` FROM cron_run_receipts WHERE `+where, args,
		func(scan func(...any) error) error {
			r, err := scanReceipt(scan)
			out = append(out, r)
			return err
		})
	return out, err
}

// RunningReceipts are the open ones of the partition, oldest first.
func RunningReceipts(t *Tx) ([]Receipt, error) {
	return receiptsWhere(t, `store_key = ? AND status = 'running' ORDER BY started_at_ms, receipt_id`, t.StoreKey())
}

// ReceiptByID finds one receipt whatever its store and job.
func ReceiptByID(t *Tx, id string) (Receipt, bool, error) {
	rs, err := receiptsWhere(t, `receipt_id = ?`, id)
	if err != nil || len(rs) == 0 {
		return Receipt{}, false, err
	}
	return rs[0], true, nil
}

// InsertReceipt opens a receipt. A known id, or a second open receipt of the
// job, is a constraint error.
func InsertReceipt(t *Tx, r Receipt) error {
	_, err := t.Exec(`INSERT INTO cron_run_receipts (receipt_id, store_key, job_id, config_revision, agent_id,
		request_run_id, status, owner_pid, started_at_ms) VALUES (?, ?, ?, ?, ?, ?, 'running', ?, ?)`,
		r.ID, t.s.word(t.StoreKey()), r.JobID, r.ConfigRevision, t.s.word(r.AgentID), orNull(r.RequestRunID), r.OwnerPID, r.StartedAtMs)
	return err
}

// ActivateReceipt records the activation: the time, and what the definition
// and the holder are now.
func ActivateReceipt(t *Tx, id, configRevision string, ownerPID, startedAtMs int64) error {
	_, err := t.Exec(`UPDATE cron_run_receipts SET started_at_ms = ?, config_revision = ?, owner_pid = ?
		WHERE receipt_id = ? AND status = 'running'`, startedAtMs, configRevision, ownerPID, id)
	return err
}

// NoteReceipt keeps a sentence with an open receipt: why its run was asked to end.
func NoteReceipt(t *Tx, id, text string) error {
	_, err := t.Exec(`UPDATE cron_run_receipts SET error_text = ? WHERE receipt_id = ? AND status = 'running'`, orNull(text), id)
	return err
}

// RequeueReceipt takes an activation back: the run never started.
func RequeueReceipt(t *Tx, id string, requestedAtMs int64) error {
	_, err := t.Exec(`UPDATE cron_run_receipts SET started_at_ms = ? WHERE receipt_id = ? AND status = 'running'`,
		requestedAtMs, id)
	return err
}

// FinishReceipt ends an open receipt; false when it had ended already.
func FinishReceipt(t *Tx, id, status string, finishedAtMs int64, errorText string) (bool, error) {
	n, err := t.Exec(`UPDATE cron_run_receipts SET status = ?, finished_at_ms = ?, error_text = ?
		WHERE receipt_id = ? AND status = 'running'`, t.s.word(status), finishedAtMs, orNull(errorText), id)
	return n == 1, err
}

// null is an optional integer column.
func null(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}
