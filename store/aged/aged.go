// Package aged fills a new file with the rows that months of use leave behind:
// jobs, their finished receipts, and their history. It is what benchmarks start
// from, because an empty file flatters whoever writes to it.
//
// It writes rows in the shapes the worker writes and decides nothing. The same
// Ledger gives the same rows. It must have the file for itself: fill before a
// worker is made.
package aged

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Ledger says what to write.
type Ledger struct {
	Jobs int
	// Receipts is how many finished ones each job has.
	Receipts int
	// History is how many finished runs are kept, over all jobs and over the
	// last six days.
	History int
	NowMs   int64
	// DueMs is the deadline of every job. 0 spreads them: each job comes due once
	// a day, the first in an hour.
	DueMs int64
	// EveryMs is the interval of every job, which spreads their deadlines over the
	// one that begins at DueMs. 0: a day, and all are due at DueMs.
	EveryMs int64
	// Argv is what each job runs. Empty: /bin/true.
	Argv []string
}

const (
	hourMs = 3_600_000
	dayMs  = 24 * hourMs

	historyMs   = 6 * dayMs // below what retention takes at its defaults
	rowsPerFill = 10_000    // rows of one transaction
)

// JobID is the id of the i-th job.
func JobID(i int) string {
	r := rand.New(rand.NewPCG(uint64(i), 1))
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>52, b&0xffffffffffff)
}

// Fill writes all rows, in transactions of bounded size.
func (l Ledger) Fill(s *store.Store) error {
	if err := l.FillRuns(s); err != nil {
		return err
	}
	return l.FillJobs(s)
}

// FillRuns writes the receipts and the history.
func (l Ledger) FillRuns(s *store.Store) error {
	if err := fill(s, l.Jobs*l.Receipts, l.receipt); err != nil {
		return err
	}
	return fill(s, l.History, l.run)
}

// FillJobs writes the jobs, whose deadline may be a matter of seconds.
func (l Ledger) FillJobs(s *store.Store) error { return fill(s, l.Jobs, l.job) }

// fill writes rows, and between two transactions moves them out of the log, so
// that what is measured afterwards does not begin with moving them.
func fill(s *store.Store, rows int, write func(*store.Tx, int) error) error {
	for from := 0; from < rows; from += rowsPerFill {
		t, err := s.Begin()
		if err != nil {
			return err
		}
		for i := from; i < min(from+rowsPerFill, rows); i++ {
			if err := write(t, i); err != nil {
				_ = t.Rollback() // the first error is the one to tell
				return err
			}
		}
		if err := t.Commit(); err != nil {
			return err
		}
		if _, err := s.Idle().Checkpoint(); err != nil {
			return err
		}
	}
	return nil
}

// job writes the i-th job: its definition and state as an interval job has
// them after some good runs.
func (l Ledger) job(t *store.Tx, i int) error {
	id := JobID(i)
	nextMs := l.DueMs
	if nextMs == 0 {
		nextMs = l.NowMs + hourMs + int64(i)*(dayMs-hourMs)/int64(l.Jobs)
	}
	everyMs := int64(dayMs)
	if l.EveryMs != 0 {
		everyMs = l.EveryMs
		nextMs += int64(i) * everyMs / int64(l.Jobs)
	}
	argv := l.Argv
	if len(argv) == 0 {
		argv = []string{"/bin/true"}
	}
	name := fmt.Sprintf("job %06d", i)
	createdMs := l.NowMs - 60*dayMs
	definition, err := rawjson.Encode(map[string]any{
		"id": id, "name": name, "description": "collects what came in since yesterday and files it",
		"enabled": true, "createdAtMs": createdMs, "agentId": "main", "sessionTarget": "isolated", "wakeMode": "now",
		"schedule": map[string]any{"kind": "every", "everyMs": everyMs, "anchorMs": nextMs - 30*dayMs},
		"payload":  map[string]any{"kind": "command", "argv": argv, "cwd": "/", "timeoutSeconds": 600},
		"delivery": map[string]any{"mode": "none"},
	})
	if err != nil {
		return err
	}
	lastMs := nextMs - everyMs
	state, err := rawjson.Encode(map[string]any{
		"nextRunAtMs": nextMs, "lastRunAtMs": lastMs, "lastRunStatus": "ok", "lastStatus": "ok", "lastDurationMs": 1250,
		"consecutiveErrors": 0, "consecutiveSkipped": 0, "lastDeliveryStatus": "not-requested",
		"scheduleActivatedAtMs": createdMs, "rotaConsumedMs": lastMs,
	})
	if err != nil {
		return err
	}
	_, err = store.InsertJob(t, store.JobRow{
		JobID: id, Definition: definition, State: state, SortOrder: int64(i), UpdatedAtMs: createdMs,
		DefinitionColumns: store.DefinitionColumns{Name: name, Enabled: true, PayloadKind: "command", AgentID: "main"},
	})
	return err
}

// receipt writes a finished receipt; each round gives every job one.
func (l Ledger) receipt(t *store.Tx, i int) error {
	id := JobID(i % l.Jobs)
	slotMs := l.NowMs - dayMs*int64(l.Receipts-i/l.Jobs)
	r := store.Receipt{ID: store.SlotID(t.StoreKey(), id, slotMs, ""), JobID: id, ConfigRevision: strings.Repeat("0f", 32),
		AgentID: "main", OwnerPID: 1, StartedAtMs: slotMs}
	if err := store.InsertReceipt(t, r); err != nil {
		return err
	}
	_, err := store.FinishReceipt(t, r.ID, store.ReceiptOK, slotMs+1250, "")
	return err
}

// words are what summaries are made of.
var words = strings.Fields("fetched stored parsed skipped updated merged sent checked retried closed opened moved copied " +
	"mail invoice report calendar ticket branch backup photo feed digest note page build token quota window session")

// run writes the history row of a finished run; the runs go round the jobs.
func (l Ledger) run(t *store.Tx, i int) error {
	r := rand.New(rand.NewPCG(uint64(i), 2))
	id := JobID(i % l.Jobs)
	startedMs := l.NowMs - historyMs + int64(i)*historyMs/int64(l.History)
	durationMs := 200 + r.Int64N(3000)
	receiptID := store.SlotID(t.StoreKey(), id, startedMs-3, "")
	var summary []string
	for range 8 + r.IntN(12) {
		summary = append(summary, words[r.IntN(len(words))])
	}
	text := strings.Join(summary, " ")
	detail, err := rawjson.Encode(map[string]any{
		"kind": "cron-run", "status": "ok", "completionStatus": "succeeded", "summary": text,
		"diagnostics": map[string]any{"summary": text, "entries": []any{}}, "deliveryStatus": "not-requested",
		"storeKey": t.StoreKey(), "runId": receiptID, "runAtMs": startedMs, "durationMs": durationMs,
		"nextRunAtMs": startedMs + dayMs, "trigger": "timer", "startedAtMs": startedMs + 2, "slotMs": startedMs - 3, "lateMs": 5,
		"attempt": 1,
	})
	if err != nil {
		return err
	}
	return store.InsertHistory(t, store.HistoryRow{
		TaskID: store.TaskID(receiptID, startedMs, 0), JobID: id, AgentID: "main",
		RunID:  store.InternalRunID(id, startedMs, receiptID, ""),
		Status: "succeeded", StartedAtMs: startedMs, EndedAtMs: startedMs + durationMs, CleanupMs: startedMs + 7*dayMs,
		Summary: text, Detail: json.RawMessage(detail),
	})
}
