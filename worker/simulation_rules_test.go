package worker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// simRules are what must hold, and what has to be remembered to see it.
type simRules struct {
	mark     map[string]int64  // rotaConsumedMs by job
	launched map[string]int    // launches by receipt
	slot     map[string]string // receipt by job and slot
	looked   int               // orders in the lane that were looked at
	finished []Event           // ends since the last look
	orphaned []string          // begun in the moment of a kill
	fresh    bool              // started a moment ago: its last events were lost
}

// simRange is a recorded decision.
type simRange struct {
	slotRange
	rule string
}

func (r *simRules) init() {
	r.mark, r.launched, r.slot = map[string]int64{}, map[string]int{}, map[string]string{}
}

// check looks after every turn, before its orders are taken.
func (s *simulation) check() {
	s.rules.finished = s.rules.finished[:0]
	for len(s.events.C) > 0 {
		e := <-s.events.C
		s.say("event %d %s %s %s %d %s", e.Seq, e.Kind, e.JobID, e.RunID, e.SlotMs, e.Status)
		s.rules.finished = append(s.rules.finished, e)
	}
	s.checkLaunches()
	if s.events.Lost() {
		s.fail("more events in a turn than anybody can hear")
	}
	s.host.answered(s)
	s.checkJobs()
	s.checkRuns()
	s.rules.fresh = false
}

// checkLaunches: a launch is a committed activation, of a run that never began,
// for a slot that has no other run, and for a place that is free.
func (s *simulation) checkLaunches() {
	s.m.w.orders.mu.Lock()
	lane := slices.Clone(s.m.w.orders.items)
	s.m.w.orders.mu.Unlock()
	for _, o := range lane[min(s.rules.looked, len(lane)):] {
		if o.Launch != nil {
			s.checkLaunch(o.Launch, len(lane))
		}
	}
	s.rules.looked = len(lane)
	if !s.m.away {
		s.rules.looked = 0
	}
}

func (s *simulation) checkLaunch(l *Launch, lane int) {
	r := &s.rules
	if r.launched[l.ReceiptID] > 0 && !s.launch.unstarted[l.ReceiptID] {
		s.fail("%s of %s is launched again", l.RunID, l.JobID)
	}
	delete(s.launch.unstarted, l.ReceiptID)
	r.launched[l.ReceiptID]++
	if l.SlotMs != 0 && store.ParseRunKey(l.ReceiptID).Again == "" {
		key := fmt.Sprint(l.JobID, " ", l.SlotMs)
		if was, ok := r.slot[key]; ok && was != l.ReceiptID {
			s.fail("slot %s of %s runs under two ids", schedule.FormatInstant(l.SlotMs), l.JobID)
		}
		r.slot[key] = l.ReceiptID
	}
	if n := s.launch.executing() + lane; n > s.m.cfg.MaxConcurrent && s.tooMany() {
		s.fail("%s is launched beside %d others, with %d places", l.RunID, n-1, s.m.cfg.MaxConcurrent)
	}
	if got := s.m.query(`SELECT status || ' ' || (SELECT coalesce(state_json ->> '$.runningReceiptId', '') = receipt_id FROM cron_jobs j WHERE j.job_id = r.job_id)
		FROM cron_run_receipts r WHERE receipt_id = ?`, l.ReceiptID); len(got) != 1 || got[0] != "running 1" {
		s.fail("%s is launched and the file says %q of it", l.RunID, got)
	}
	if got := s.m.query(`SELECT task_id FROM task_runs WHERE detail_json ->> '$.runId' = ?`, l.RunID); len(got) != 0 {
		s.fail("%s has ended and is launched", l.RunID)
	}
}

// tooMany counts the launches that wait or run, exactly.
func (s *simulation) tooMany() bool {
	open := s.launch.executing()
	for _, o := range s.m.w.orders.items {
		if o.Launch != nil {
			open++
		}
	}
	return open > s.m.cfg.MaxConcurrent
}

// checkJobs: marks rise, deadlines lie behind them, what the operator said
// stands, and nobody waits for nothing.
func (s *simulation) checkJobs() {
	for _, id := range s.host.order {
		j := s.host.jobs[id]
		now, there := s.m.w.st.jobs.Get(id)
		switch {
		case j.removed && there:
			s.fail("%s was removed and is there", id)
		case j.removed:
			continue
		case !there:
			if !j.oneShot() || !s.rules.fresh && !s.ended(id) {
				s.fail("%s is gone and nobody removed it", id)
			}
			j.removed = true
			continue
		}
		if c := now.ConsumedMs(); c < s.rules.mark[id] {
			s.fail("the mark of %s fell from %s to %s", id, schedule.FormatInstant(s.rules.mark[id]), schedule.FormatInstant(c))
		}
		s.rules.mark[id] = now.ConsumedMs()
		s.checkJob(j, now)
	}
	for j := range s.m.w.st.jobs.Values() {
		if s.host.jobs[j.ID] == nil {
			s.fail("%s is there and nobody added it", j.ID)
		}
	}
}

func (j *simJob) oneShot() bool { return strings.Contains(string(j.definition), `"kind":"at"`) }

func (s *simulation) checkJob(j *simJob, now *Job) {
	if !sameButEnabled(j.definition, now.Definition) {
		s.fail("the definition of %s is not what the operator wrote\nwrote %s\nis    %s", j.id, j.definition, now.Definition)
	}
	switch {
	case now.Enabled && (!j.enabled || j.ended):
		s.fail("%s is enabled, against the operator's word", j.id)
	case !now.Enabled && j.enabled && !j.ended:
		if now.timedOneShot() && !s.rules.fresh && !s.ended(j.id) {
			s.fail("one-shot %s is disabled and nothing of it ended: %s", j.id, now.State)
		}
		if !now.timedOneShot() && len(now.state().AutoDisabled) == 0 {
			s.fail("%s is disabled and nobody did it: %s", j.id, now.State)
		}
		j.ended = true
		j.endEra(s.m.nowMs)
	}
	next, has := now.NextRunMs()
	j.planned, j.nextMs = len(now.plan) > 0, next
	_, open := s.m.w.st.open.Get(j.id)
	switch {
	case now.SetAside != "":
		s.fail("%s is set aside: %s", j.id, now.SetAside)
	case !now.Enabled && has:
		s.fail("disabled %s has a deadline", j.id)
	case now.Enabled && !has && !now.timedOneShot():
		s.fail("%s waits for nothing: %s", j.id, now.State)
	case now.Enabled && !has && !open:
		s.fail("one-shot %s waits for nothing: %s %v", j.id, now.State, s.m.decisions(j.id))
	case has && !now.timedOneShot() && !now.state().StartupCatchupAtMs.Set && now.retry == nil && next <= now.ConsumedMs():
		s.fail("the deadline of %s is at or below its mark: %s", j.id, now.State)
	}
}

// ended reports whether something of a job came to an end in this turn.
func (s *simulation) ended(jobID string) bool {
	for _, e := range s.rules.finished {
		if e.JobID == jobID && (e.Kind == EventFinished || e.Kind == EventSkippedSlot || e.Kind == EventRecovered) {
			return true
		}
	}
	return false
}

// checkRuns: one open run a job at most, and none that waits for a job that is
// turned off.
func (s *simulation) checkRuns() {
	seen := map[string]bool{}
	for _, runs := range []func(func(*Run) bool){
		func(yield func(*Run) bool) { s.m.w.st.queue.Values()(yield) },
		func(yield func(*Run) bool) { s.m.w.st.active.Values()(yield) },
	} {
		for r := range runs {
			if seen[r.JobID] {
				s.fail("two runs of %s are open", r.JobID)
			}
			seen[r.JobID] = true
			if j, ok := s.m.w.st.jobs.Get(r.JobID); !s.m.w.stopping.Load() && r.Phase == PhaseRequested && r.Mode != "force" && (!ok || !j.Enabled) {
				s.fail("%s waits although its job is not enabled", r.RunID)
			}
		}
	}
}

// rested looks when the worker has nothing to do: what is due was requested, and
// no place is free while a request waits.
func (s *simulation) rested() {
	if s.m.w.trouble.attempts > 0 || s.m.w.stopping.Load() {
		return
	}
	for j := range s.m.w.st.jobs.Values() {
		open, isOpen := s.m.w.st.open.Get(j.ID)
		if next, ok := j.NextRunMs(); ok && next <= s.m.nowMs && j.Enabled && s.m.cfg.Enabled && (!isOpen || open.timed() && !j.timedOneShot()) {
			s.fail("%s is due since %s and nothing was decided: %s", j.ID, schedule.FormatInstant(next), j.State)
		}
	}
	if st := &s.m.w.st; st.queue.Len() > 0 && st.active.Len() < s.m.cfg.MaxConcurrent {
		s.fail("%d requests wait while %d of %d places are taken", st.queue.Len(), st.active.Len(), s.m.cfg.MaxConcurrent)
	}
}

// afterDeath looks at what a start made of the past: a run that had begun is
// over.
func (s *simulation) afterDeath() {
	for _, receipt := range s.rules.orphaned {
		if got := s.m.query(`SELECT status FROM cron_run_receipts WHERE receipt_id = ?`, receipt); len(got) != 1 || got[0] == store.ReceiptRunning {
			s.fail("%s had begun when the daemon was killed, and now it is %q", receipt, got)
		}
	}
	s.rules.orphaned, s.rules.fresh, s.rules.looked = nil, true, 0
}

// account counts, for each job and era, what became of each slot: it ran, was
// decided against, is planned or open: once.
func (s *simulation) account() {
	ran, ranges := s.ledger()
	for _, id := range s.host.order {
		j := s.host.jobs[id]
		for _, era := range j.eras {
			untilMs := era.toMs
			if untilMs == 0 {
				now, ok := s.m.w.st.jobs.Get(id)
				if !ok {
					continue
				}
				next, _ := now.NextRunMs()
				if _, waits := now.attempting(); waits {
					next = 0 // what a wait after a failure jumps over is decided when it is over
				}
				if untilMs = min(s.m.nowMs, max(next-1, now.ConsumedMs())); len(now.plan) > 0 {
					untilMs = min(s.m.nowMs, now.ConsumedMs()) // later slots are decided with the planned run
				}
			}
			s.accountEra(id, era, untilMs, ran[id], ranges[id])
		}
	}
}

func (s *simulation) accountEra(id string, era *simEra, untilMs int64, ran map[int64]string, ranges []simRange) {
	k := 0
	for at, ok := era.timing.Next(era.fromMs); ok && at <= untilMs; at, ok = era.timing.Next(at) {
		for k < len(ranges) && ranges[k].toMs < at {
			k++
		}
		count := 0
		for i := k; i < len(ranges) && ranges[i].fromMs <= at; i++ {
			if at <= ranges[i].toMs {
				count++
			}
		}
		if ran[at] != "" {
			count++
		}
		if count != 1 {
			s.fail("slot %s of %s is accounted for %d times; run %q, decisions %v", schedule.FormatInstant(at), id, count, ran[at], s.m.decisions(id))
		}
	}
}

// ledger is what the file and the plans say of slots: runs by job and slot, and
// decided ranges by job in the order of their first slots.
func (s *simulation) ledger() (ran map[string]map[int64]string, ranges map[string][]simRange) {
	ran, ranges = map[string]map[int64]string{}, map[string][]simRange{}
	add := func(jobID string, slotMs int64, what string) {
		if ran[jobID] == nil {
			ran[jobID] = map[int64]string{}
		}
		ran[jobID][slotMs] = what
	}
	for _, line := range s.m.query(`SELECT source_id || ' ' || (detail_json ->> '$.slotMs') || ' ' || (detail_json ->> '$.status') FROM task_runs
		WHERE detail_json ->> '$.slotMs' IS NOT NULL`) {
		var id, status string
		var slotMs int64
		if _, err := fmt.Sscan(line, &id, &slotMs, &status); err != nil {
			s.fail("%s: %v", line, err)
		}
		add(id, slotMs, status)
	}
	for _, line := range s.m.query(`SELECT job_id || ' ' || rule || ' ' || from_ms || ' ' || to_ms || ' ' || slots FROM rota_slots ORDER BY job_id, from_ms, seq`) {
		var id string
		var r simRange
		if _, err := fmt.Sscan(line, &id, &r.rule, &r.fromMs, &r.toMs, &r.slots); err != nil {
			s.fail("%s: %v", line, err)
		}
		ranges[id] = append(ranges[id], r)
	}
	for r := range s.m.w.st.open.Values() {
		if r.timed() {
			add(r.JobID, r.SlotMs, "open")
		}
	}
	for j := range s.m.w.st.jobs.Values() {
		for _, p := range j.plan {
			add(j.ID, p.SlotMs, "planned")
		}
	}
	return ran, ranges
}

// atRest looks at the file when everything has ended: each run has one end, each
// promise was kept, and nothing is left over.
func (s *simulation) atRest() {
	ends := map[string]int{}
	for _, runID := range s.m.query(`SELECT detail_json ->> '$.runId' FROM task_runs`) {
		if ends[runID]++; ends[runID] > 1 {
			s.fail("%s has %d ends", runID, ends[runID])
		}
	}
	for runID := range s.host.acked {
		if ends[runID] != 1 {
			s.fail("%s was promised and has %d ends", runID, ends[runID])
		}
	}
	for receipt, n := range s.launch.effects {
		if got := s.m.query(`SELECT status FROM cron_run_receipts WHERE receipt_id = ?`, receipt); n != 1 || len(got) > 0 && got[0] == store.ReceiptRunning {
			s.fail("%s began %d times and is %q", receipt, n, got)
		}
	}
	for _, query := range []string{
		`SELECT 'receipt ' || receipt_id FROM cron_run_receipts WHERE status = 'running' AND receipt_id NOT IN (SELECT receipt_id FROM rota_armed)`,
		`SELECT 'marker ' || job_id || state_json FROM cron_jobs WHERE (state_json ->> '$.queuedAtMs' IS NOT NULL
			OR state_json ->> '$.runningAtMs' IS NOT NULL OR state_json ->> '$.runningReceiptId' IS NOT NULL)
			AND job_id NOT IN (SELECT job_id FROM rota_armed)`,
		`SELECT 'manual-due ' || job_id || detail FROM rota_slots WHERE rule = 'manual-due'
			AND NOT EXISTS (SELECT 1 FROM task_runs WHERE detail_json ->> '$.runId' = rota_slots.detail ->> '$.runId')`,
	} {
		if left := s.m.query(query); len(left) > 0 {
			s.fail("left over: %v", left)
		}
	}
	for _, line := range s.m.query(`SELECT detail ->> '$.runId' FROM rota_slots WHERE rule = 'manual-due'`) {
		if mode, known := s.host.acked[line]; known && mode != "due" {
			s.fail("%s was asked for in mode %s and took a slot", line, mode)
		}
	}
}
