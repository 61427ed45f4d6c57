package worker

import "github.com/rota-scheduler/rota/store"

// retainEveryMs is how often retention looks; each look is bounded by perTurn
// rows a table.
const retainEveryMs = 60_000

// jobsTrimmed is how many jobs' receipts and history one turn trims.
const jobsTrimmed = 32

// retain is the last duty: events, decisions, request keys and history rows
// past their time go, oldest first, and jobs that ran keep their newest rows.
// It never takes a row that an open run needs: those are receipts and markers,
// which end with their runs. more says that it is not done.
func (t *turn) retain() (more bool, err error) {
	days := int64(t.cfg.DecisionDays) * dayMs
	removed, more, err := store.Expire(t.tx, store.Expiry{
		BeforeMs: t.now - days, KeepEvents: int64(t.cfg.Events), LastSeq: t.st.seq, Limit: perTurn,
	})
	if err != nil {
		return false, err
	}
	expired, by, err := store.ExpireHistory(t.tx, t.now, perTurn)
	if err != nil {
		return false, err
	}
	t.st.totals = t.st.totals.addAll(t.edit, by, -1)
	removed += expired
	more = more || expired == perTurn
	for range jobsTrimmed {
		id, _, ok := t.st.grown.Min()
		if !ok {
			break
		}
		receipts, err := store.TrimReceipts(t.tx, id, t.now, t.id.receiptsKept, perTurn)
		if err != nil {
			return false, err
		}
		rows, by, err := store.TrimHistory(t.tx, id, t.cfg.HistoryRowsPerJob, perTurn)
		if err != nil {
			return false, err
		}
		t.st.totals = t.st.totals.addAll(t.edit, by, -1)
		removed += receipts + rows
		if max(receipts, rows) < perTurn {
			t.st.grown = t.st.grown.Delete(t.edit, id)
		}
	}
	next, orphans, err := store.ExpireOrphans(t.tx, t.st.orphansFrom, t.now-days, perTurn)
	if err != nil {
		return false, err
	}
	t.st.orphansFrom = next
	t.wrote = t.wrote || removed+orphans > 0
	return more || t.st.grown.Len() > 0, nil
}
