package worker

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestBatchEqualsItsMessagesOneByOne applies the same random messages to two
// files, once as one batch in one turn and once one a turn, at the same now,
// with the duties once at the end: the rows must be the same. The messages
// crowd onto three jobs, so that most of them meet another one's effect. Some are
// refused when half of them is done: then the batch is begun again with a
// savepoint each, which the single ones have from the start.
func TestBatchEqualsItsMessagesOneByOne(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			together, apart := newDesk(t), newDesk(t)
			apart.w.careful = true
			for _, d := range []*desk{together, apart} {
				d.add("a", `{"kind":"every","everyMs":60000}`)
				d.add("b", `{"kind":"cron","expr":"*/5 * * * *","tz":"UTC"}`)
				d.add("c", `{"kind":"at","at":"+1h"}`)
				d.nowMs += 61_000
				d.turn() // a is due and active
			}
			for round := range 4 {
				messages := randomMessages(rng, together, round)
				together.nowMs += 7_000
				apart.nowMs = together.nowMs
				got := together.batch(messages)
				var want []string
				for _, m := range messages {
					want = append(want, apart.batchOf([]any{m}, false)...)
				}
				apart.batchOf(nil, true)
				if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
					t.Fatalf("answers differ\ntogether:\n%s\napart:\n%s\nmessages: %v", a, b, messages)
				}
				if a, b := together.dump(), apart.dump(); a != b {
					t.Fatalf("rows differ after %v\ntogether:\n%s\napart:\n%s", messages, a, b)
				}
			}
		})
	}
}

// randomMessages are outcomes of what is active, then commands, as a turn
// takes them.
func randomMessages(rng *rand.Rand, d *desk, round int) []any {
	var all []any
	for r := range d.w.st.active.Values() {
		if rng.IntN(2) == 0 {
			status := []Status{StatusOK, StatusError, StatusSkipped}[rng.IntN(3)]
			o := Outcome{ReceiptID: r.ReceiptID, Status: status, Kind: KindExit, StartedAtMs: d.nowMs, EndedAtMs: d.nowMs}
			all = append(all, o, o) // and once more, late
		}
	}
	for i := range 3 + rng.IntN(8) {
		id := []string{"a", "b", "c", "new"}[rng.IntN(4)]
		patch := []string{`{"enabled":false}`, `{"enabled":true}`, `{"description":"x"}`, `{}`,
			`{"schedule":{"kind":"every","everyMs":5000}}`, `{"schedule":{"kind":"cron","expr":"0 9 * * *","tz":"UTC"}}`,
			`{"schedule":{"kind":"at","at":"+2s"}}`, `{"payload":{"kind":"command","argv":["/bin/false"]}}`, `{"name":""}`}[rng.IntN(9)]
		switch rng.IntN(8) {
		case 7:
			file := fmt.Sprintf("file%d.%d", round, i)
			all = append(all, ApplyJobs{Source: file, IDs: []string{file + "a", file + "b"}, Jobs: []json.RawMessage{
				json.RawMessage(`{"name":"n","declarationKey":"` + file + `","schedule":{"kind":"every","everyMs":2000},"payload":{"kind":"command","argv":["/bin/true"]}}`),
				json.RawMessage(`{"name":"n"}`)}})
		case 0, 1:
			mode := []string{"force", "due", "if-enabled"}[rng.IntN(3)]
			all = append(all, RunJob{ID: id, Mode: mode, Key: fmt.Sprintf("k%d.%d", round, rng.IntN(3)), Given: true})
		case 2, 3, 4:
			all = append(all, UpdateJob{ID: id, Patch: json.RawMessage(patch)})
		case 5:
			all = append(all, RemoveJob{ID: id})
		default:
			all = append(all, AddJob{ID: fmt.Sprintf("new%d.%d", round, i), Params: json.RawMessage(
				`{"name":"n","declarationKey":"d","schedule":{"kind":"every","everyMs":2000},"payload":{"kind":"command","argv":["/bin/true"]}}`)})
		}
	}
	return all
}

// batch applies messages as one turn with its duties.
func (d *desk) batch(messages []any) []string { return d.batchOf(messages, true) }

// batchOf applies messages in one turn, with or without duties, and gives the
// answers as text.
func (d *desk) batchOf(messages []any, duties bool) []string {
	d.t.Helper()
	var b batch
	for _, m := range messages {
		if o, ok := m.(Outcome); ok {
			b.outcomes = append(b.outcomes, o)
			continue
		}
		b.calls = append(b.calls, &call{command: m, reply: make(chan answer, 1)})
	}
	err := d.w.commitTurn(instant{d.nowMs, d.monoMs}, &b, func(t *turn) error {
		if err := d.w.applyBatch(t, &b); err != nil || !duties {
			return err
		}
		_, err := d.w.duties(t)
		return err
	})
	if err != nil || d.w.trouble.attempts > 0 {
		d.t.Fatal("the turn failed", err)
	}
	d.checkMemory()
	d.take()
	var answers []string
	for _, c := range b.calls {
		a := <-c.reply
		answers = append(answers, fmt.Sprintf("%T %s %v", c.command, answerText(a.value), a.err))
	}
	return answers
}

func answerText(v any) string {
	switch v := v.(type) {
	case *Job:
		if v == nil {
			return "-"
		}
		return string(v.Definition) + string(v.State)
	case Added:
		return fmt.Sprint(v.Created, v.Updated, answerText(v.Job))
	}
	return fmt.Sprint(v)
}

// dump is every row that a turn can write, but for sequence numbers: a turn
// with nothing else to number takes one, so their count depends on the cut.
func (d *desk) dump() string {
	d.t.Helper()
	var b strings.Builder
	for _, query := range []string{
		`SELECT job_id || job_json || state_json || enabled || coalesce(schedule_identity, '') || sort_order || updated_at FROM cron_jobs ORDER BY job_id`,
		`SELECT receipt_id || ' ' || status || ' ' || started_at_ms || ' ' || coalesce(finished_at_ms, 0) || coalesce(error_text, '') FROM cron_run_receipts ORDER BY receipt_id`,
		`SELECT task_id || run_id || status || detail_json FROM task_runs ORDER BY task_id`,
		`SELECT job_id || ' ' || from_ms || ' ' || to_ms || ' ' || slots || ' ' || rule || detail FROM rota_slots ORDER BY job_id, from_ms, seq`,
		`SELECT kind || ' ' || coalesce(job_id, '') || ' ' || coalesce(run_id, '') || coalesce(status, '') || coalesce(detail, '') FROM rota_events WHERE kind <> 'noted' ORDER BY seq`,
		`SELECT job_id || ' ' || slot_ms || ' ' || run_at_ms FROM rota_plan ORDER BY job_id, slot_ms`,
		`SELECT job_id || key || run_id || mode FROM rota_requests ORDER BY job_id, key`,
	} {
		for _, line := range d.query(query) {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}
