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
