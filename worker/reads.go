package worker

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// jobOfRun finds the job that a public run id names, "" when it names none.
func jobOfRun(runID string) string {
	if k := store.ParseRunKey(runID); k.Kind != "" {
		return k.JobID
	}
	parts := strings.Split(runID, ":")
	if len(parts) < 4 || parts[0] != "manual" {
		return ""
	}
	return strings.Join(parts[1:len(parts)-2], ":")
}

// eventsPage is how many events a page holds; a commit that would be split is
// read to its end.
const eventsPage = 1000

// readEvents reads events after a sequence number. Events of one commit share
// its time, so a page is cut where the time changes.
func (t *turn) readEvents(q EventsQuery) ([]Event, error) {
	limit := min(q.Limit, eventsPage)
	if limit <= 0 {
		limit = eventsPage
	}
	if err := t.keepEvents(); err != nil { // those of this turn's messages before
		return nil, err
	}
	rows, err := store.EventsAfter(t.tx, q.SinceSeq, limit+1)
	if err != nil {
		return nil, err
	}
	if len(rows) > limit {
		cut := limit
		for cut > 0 && rows[cut-1].AtMs == rows[cut].AtMs {
			cut--
		}
		for cut == 0 { // one commit larger than a page
			more, err := store.EventsAfter(t.tx, rows[len(rows)-1].Seq, limit)
			if err != nil {
				return nil, err
			}
			rows = append(rows, more...)
			cut = endOfCommit(rows)
			if len(more) == 0 {
				cut = len(rows)
			}
		}
		rows = rows[:cut]
	}
	events := make([]Event, 0, len(rows))
	for _, r := range rows {
		events = append(events, eventOf(r))
	}
	return events, nil
}

// endOfCommit is the number of leading rows that share a time, 0 when all do.
func endOfCommit(rows []store.EventRow) int {
	for i := range rows {
		if rows[i].AtMs != rows[0].AtMs {
			return i
		}
	}
	return 0
}

// whyRows is how many of a job's history rows are looked at for the end of a
// slot's run, from its start on, or from the slot on where the receipt is gone.
const whyRows = 512

// readWhy explains one slot of a job: what the ledger says of it, and where it
// says nothing, why not.
func (t *turn) readWhy(q WhyQuery) (Why, error) {
	j, err := t.find("rota.why", q.JobID)
	if err != nil {
		return Why{}, err
	}
	answer := Why{JobID: j.ID, SlotMs: t.askedAbout(j, q.AtMs)}
	ran, err := t.whyRan(j, answer.SlotMs)
	if err != nil {
		return Why{}, err
	}
	answer.Decisions = append(answer.Decisions, ran...)
	if len(ran) == 0 && q.AtMs != 0 && !j.slotAt(answer.SlotMs) {
		answer.Decisions = []Decision{t.notASlot(j, answer.SlotMs)}
		return answer, nil
	}
	rows, err := store.SlotsAt(t.tx, j.ID, answer.SlotMs)
	if err != nil {
		return Why{}, err
	}
	for _, r := range rows {
		detail, err := rawjson.Encode(map[string]any{"fromMs": r.FromMs, "toMs": r.ToMs, "slots": r.Slots, "inputs": r.Detail, "text": rules[Rule(r.Rule)].Text})
		if err != nil {
			return Why{}, err
		}
		answer.Decisions = append(answer.Decisions, Decision{r.Rule, r.Verdict, detail, r.AtMs, r.Seq})
	}
	if len(answer.Decisions) == 0 {
		answer.Decisions = []Decision{t.whyNothing(j, answer.SlotMs)}
	}
	if q.AtMs == 0 {
		answer.Decisions = append(answer.Decisions, t.whyNow(j)...)
	}
	return answer, nil
}

// askedAbout is the slot that a question means: the one in the second that was
// written, and without a time the last that was decided, else the next.
func (t *turn) askedAbout(j *Job, atMs int64) int64 {
	if atMs != 0 {
		if slotMs, ok := j.timing.Next(atMs - 1); ok && atMs%1000 == 0 && slotMs < atMs+1000 {
			return slotMs // shown without its milliseconds
		}
		return atMs
	}
	mark := j.consumed().N
	if _, ok, err := store.ReceiptByID(t.tx, store.SlotID(t.id.storeKey, j.ID, mark, "")); ok && err == nil {
		return mark // a slot, or an attempt, which is none of the schedule
	}
	if slotMs, ok := j.timing.Prev(mark + 1); ok && slotMs > j.def().CreatedAtMs {
		return slotMs
	}
	next, _ := j.NextRunMs()
	return next
}

func (t *turn) notASlot(j *Job, atMs int64) Decision {
	detail := map[string]any{}
	if slotMs, ok := j.timing.Prev(atMs); ok {
		detail["previousSlot"] = schedule.FormatInstant(slotMs)
	}
	if slotMs, ok := j.timing.Next(atMs); ok {
		detail["nextSlot"] = schedule.FormatInstant(slotMs)
	}
	return t.verdict(RuleNotASlot, detail)
}

// whyNow says what keeps the job from its next slot, whatever was decided about
// the last one.
func (t *turn) whyNow(j *Job) []Decision {
	next, has := j.NextRunMs()
	switch {
	case !j.Enabled:
		return []Decision{t.disabledNow(j)}
	case !t.cfg.Enabled:
		return []Decision{t.verdict(RuleOff, map[string]any{"nextRunAtMs": next})}
	case has && next > t.now && j.retry != nil && j.retry.DeadlineMs == next:
		return []Decision{t.verdict(RuleBackoff, map[string]any{"nextRunAtMs": next, "consecutiveErrors": j.state().ConsecutiveErrors.N})}
	}
	return nil
}

func (t *turn) disabledNow(j *Job) Decision {
	detail := map[string]any{"sinceMs": j.UpdatedMs}
	if j.def().DisabledReason != "" {
		detail["reason"] = j.def().DisabledReason
	}
	if len(j.state().AutoDisabled) > 0 {
		detail["autoDisabled"] = j.state().AutoDisabled
	}
	return t.verdict(RuleDisabled, detail)
}

// whyRan tells the life of the slot's run, if it has one.
func (t *turn) whyRan(j *Job, slotMs int64) ([]Decision, error) {
	var all []Decision
	id := store.SlotID(t.id.storeKey, j.ID, slotMs, "")
	rec, ok, err := store.ReceiptByID(t.tx, id)
	if err != nil {
		return nil, err
	}
	if open, isOpen := t.st.open.Get(j.ID); isOpen && open.SlotMs == slotMs {
		all = append(all, t.at(RuleDue, open.RequestedAtMs, map[string]any{"runId": open.RunID, "trigger": open.Trigger}))
		if open.ActiveAtMs != 0 {
			all = append(all, t.at(RuleStarted, open.ActiveAtMs, map[string]any{"runId": open.RunID}))
		}
		switch open.Phase {
		case PhaseActive:
			return all, nil
		case PhaseDelivering:
			return append(all, t.verdict(RuleDelivering, map[string]any{"runId": open.RunID})), nil
		}
		queued, active := t.st.queue.Len(), t.st.active.Len()
		return append(all, t.verdict(RuleWaiting, map[string]any{"queued": queued, "active": active, "maxConcurrentRuns": t.cfg.MaxConcurrent})), nil
	}
	if ok {
		all = append(all, t.at(RuleDue, rec.StartedAtMs, map[string]any{"runId": rec.ID, "status": rec.Status}))
	}
	// The history outlives the receipt.
	fromMs := slotMs
	if ok {
		fromMs = rec.StartedAtMs
	}
	e, found, err := store.HistoryOfRun(t.tx, j.ID, id, fromMs, whyRows)
	if found {
		all = append(all, Decision{string(RuleFinished), rules[RuleFinished].Verdict, wireEntry(j.ID, e.EndedAtMs, e.Detail, j.Name), e.EndedAtMs, 0})
	}
	if mark := j.consumed().N; len(all) > 0 && slotMs > t.now && slotMs <= mark {
		all = append(all, t.verdict(RuleWaitsClock, map[string]any{"consumedMs": mark}))
	}
	return all, err
}

// whyNothing explains a slot that the ledger is silent about.
func (t *turn) whyNothing(j *Job, slotMs int64) Decision {
	next, hasNext := j.NextRunMs()
	for _, p := range j.plan {
		if p.SlotMs == slotMs {
			return t.verdict(RulePlanned, map[string]any{"runAtMs": p.RunAtMs, "planned": len(j.plan)})
		}
	}
	mark := j.consumed().N
	switch a := j.state().ScheduleActivatedAtMs; {
	case slotMs > t.now && slotMs <= mark && j.Enabled:
		return t.verdict(RuleWaitsClock, map[string]any{"consumedMs": mark})
	case slotMs > mark && j.Enabled && !t.cfg.Enabled && !(a.Set && slotMs <= a.N):
		return t.verdict(RuleOff, map[string]any{"nextRunAtMs": next})
	case slotMs > t.now && j.Enabled:
		return t.verdict(RuleFuture, map[string]any{"nextRunAtMs": next})
	case !j.Enabled:
		return t.disabledNow(j)
	case a.Set && slotMs <= a.N || slotMs <= j.def().CreatedAtMs:
		return t.verdict(RuleBeforeActive, map[string]any{"activatedAtMs": a.N, "createdAtMs": j.def().CreatedAtMs})
	case hasNext && slotMs < next && slotMs > j.consumed().N && j.retry != nil && j.retry.DeadlineMs == next:
		return t.verdict(RuleBackoff, map[string]any{"nextRunAtMs": next, "consecutiveErrors": j.state().ConsecutiveErrors.N})
	case hasNext && next <= t.now:
		return t.verdict(RuleWaiting, map[string]any{"nextRunAtMs": next})
	}
	return t.verdict(RuleUnrecorded, map[string]any{"keptDays": t.cfg.DecisionDays})
}

func (t *turn) verdict(rule Rule, detail map[string]any) Decision { return t.at(rule, t.now, detail) }

func (t *turn) at(rule Rule, atMs int64, detail map[string]any) Decision {
	detail["text"] = rules[rule].Text
	raw, err := rawjson.Encode(detail)
	if err != nil {
		raw = json.RawMessage(fmt.Sprintf(`{"error":%q}`, err))
	}
	return Decision{Rule: string(rule), Verdict: rules[rule].Verdict, Detail: raw, AtMs: atMs}
}
