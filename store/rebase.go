package store

// RebaseTimes brings the times of rota's own rows that lie after nowMs back to
// it, when the clock they were written by turns out to have been ahead.
// Retention walks these rows in the order they were written, and rows of a far
// future at the front would hold up all that follow.
func RebaseTimes(t *Tx, nowMs int64) (changed int64, err error) {
	for _, query := range []string{
		`UPDATE rota_events SET at_ms = ? WHERE at_ms > ?`,
		`UPDATE rota_slots SET at_ms = ? WHERE at_ms > ?`,
		`UPDATE rota_requests SET at_ms = ? WHERE at_ms > ?`,
	} {
		n, err := t.Exec(query, nowMs, nowMs)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	return changed, nil
}

// DropSlotsAfter takes back decisions of a job about slots that lie after nowMs.
func DropSlotsAfter(t *Tx, jobID string, nowMs int64) (int64, error) {
	return t.Exec(`DELETE FROM rota_slots WHERE job_id = ? AND from_ms > ?`, jobID, nowMs)
}

// CutSlots lets one decision end earlier.
func CutSlots(t *Tx, seq, toMs, slots int64) error {
	_, err := t.Exec(`UPDATE rota_slots SET to_ms = ?, slots = ? WHERE seq = ?`, toMs, slots, seq)
	return err
}
