package worker

import "github.com/rota-scheduler/rota/store"

// retainEveryMs is how often retention looks; each look is bounded by perTurn
// rows a table.
const retainEveryMs = 60_000

// retain is the last duty: events, decisions, request keys and history rows
// past their time go, oldest first. It never takes a row that an open run
// needs: those are receipts and markers, which end with their runs.
func (t *turn) retain() error {
	days := int64(t.cfg.DecisionDays) * dayMs
	removed, err := store.Expire(t.tx, store.Expiry{
		NowMs: t.now, BeforeMs: t.now - days, KeepEvents: int64(t.cfg.Events), LastSeq: t.st.seq, Limit: perTurn,
	})
	if removed > 0 {
		t.wrote = true
	}
	return err
}
