package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store"
)

// How scripts write down what is in the file.

// instantText is an instant without the milliseconds where they are zero.
func instantText(ms int64) string {
	return strings.Replace(schedule.FormatInstant(ms), ".000Z", "Z", 1)
}

// name is what a script calls a run, by its public id or its receipt's.
func (s *script) name(id string) string {
	switch key := store.ParseRunKey(id); {
	case id == "":
		return ""
	case key.Kind == "slot" && key.Again != "":
		return key.JobID + "@" + instantText(key.SlotMs) + "+again"
	case key.Kind == "slot":
		return key.JobID + "@" + instantText(key.SlotMs)
	case s.manual[id] != "":
		return s.manual[id]
	}
	for _, line := range s.m.query(`SELECT receipt_id || ' ' || request_run_id FROM cron_run_receipts
		WHERE request_run_id IS NOT NULL AND (receipt_id = ? OR request_run_id = ?)`, id, id) {
		receiptID, runID, _ := strings.Cut(line, " ")
		jobID := jobOfRun(runID)
		s.count[jobID]++
		s.manual[receiptID] = fmt.Sprintf("%s#%d", jobID, s.count[jobID])
		s.manual[runID] = s.manual[receiptID]
		return s.manual[id]
	}
	return id
}

var (
	anyRunID   = regexp.MustCompile(`(cron-slot-v1|rota-manual-v1)\.[A-Za-z0-9_-]+|manual:[^:"]+:\d+:\d+`)
	anyInstant = regexp.MustCompile(`\b(1[6-9]\d{11}|8639\d{12})\b`) // of these years, and near the last
)

// readable puts names for run ids, and instants for their numbers.
func (s *script) readable(text string) string {
	text = anyRunID.ReplaceAllStringFunc(text, s.name)
	return anyInstant.ReplaceAllStringFunc(text, func(digits string) string {
		ms, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return digits
		}
		return instantText(ms)
	})
}

// events hands over each event after a sequence number as a line.
func (s *script) events(afterSeq int64, line func(string)) {
	for _, e := range s.eventsAfter(afterSeq) {
		s.seq = max(s.seq, e.Seq)
		if e.Kind == EventNoted {
			continue
		}
		about := e.JobID
		if e.RunID != "" {
			about = s.name(e.RunID)
		}
		line(strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s", instantText(e.AtMs), e.Kind, about, s.eventDetail(e))), " "))
	}
}

func (s *script) eventsAfter(afterSeq int64) (events []Event) {
	s.m.looking = true
	defer func() { s.m.looking = false }()
	tx, err := s.m.w.store.Begin()
	if err != nil {
		s.t.Fatal(err)
	}
	rows, err := store.EventsAfter(tx, afterSeq, 10_000)
	if err := errors.Join(err, tx.Rollback()); err != nil {
		s.t.Fatal(err)
	}
	for _, r := range rows {
		events = append(events, eventOf(r))
	}
	return events
}

// eventDetail is what an event says beside its kind and subject.
func (s *script) eventDetail(e Event) string {
	switch e.Kind {
	case EventSkippedSlot:
		var d struct {
			Rule         string
			FromMs, ToMs int64
			Slots        int64
		}
		if json.Unmarshal(e.Detail, &d) == nil {
			return slotsText(d.Rule, d.FromMs, d.ToMs, d.Slots)
		}
	case EventFinished:
		return s.entryText(e.Detail)
	}
	return e.Status + " " + s.readable(string(e.Detail))
}

func slotsText(rule string, fromMs, toMs, slots int64) string {
	if slots == 1 {
		return rule + " " + instantText(fromMs)
	}
	return fmt.Sprintf("%s %s..%s x%d", rule, instantText(fromMs), instantText(toMs), slots)
}

// entryText is a history entry in one line.
func (s *script) entryText(detail []byte) string {
	var e entry
	if err := json.Unmarshal(detail, &e); err != nil {
		return err.Error()
	}
	text := fmt.Sprintf("%s %s", e.Status, e.Trigger)
	if e.DeliveryStatus != "" && e.DeliveryStatus != "not-requested" {
		text += " delivery=" + string(e.DeliveryStatus)
	}
	if e.ErrorReason != "" {
		text += " reason=" + e.ErrorReason
	}
	if e.Error != "" {
		text += fmt.Sprintf(" %q", s.readable(e.Error))
	}
	return text
}

// scriptShows are the views of the file: one row of text each.
var scriptShows = map[string]string{
	"receipts": `SELECT receipt_id || ' ' || status || ' started ' || started_at_ms || coalesce(' finished ' || finished_at_ms, '') ||
		coalesce(' "' || error_text || '"', '') FROM cron_run_receipts ORDER BY started_at_ms, receipt_id`,
	"slots": `SELECT job_id || ' ' || rule || ' ' || from_ms || CASE WHEN slots > 1 THEN '..' || to_ms || ' x' || slots ELSE '' END ||
		CASE WHEN detail IN ('null', '{}') THEN '' ELSE ' ' || detail END FROM rota_slots ORDER BY job_id, from_ms, seq`,
	"plan":  `SELECT job_id || ' slot ' || slot_ms || ' at ' || run_at_ms FROM rota_plan ORDER BY run_at_ms, job_id, slot_ms`,
	"jobs":  `SELECT job_id || CASE WHEN enabled THEN ' enabled' ELSE ' disabled' END || ' ' || state_json FROM cron_jobs ORDER BY sort_order, job_id`,
	"tasks": `SELECT coalesce(detail_json ->> '$.runId', task_id) || ' ' || status || coalesce(' "' || error || '"', '') FROM task_runs ORDER BY ended_at, task_id`,
	"runs": `SELECT (detail_json ->> '$.runId') || ' started ' || started_at || ' ended ' || ended_at || ' took ' || (detail_json ->> '$.durationMs') || ' ms'
		FROM task_runs ORDER BY started_at, task_id`,
	"definitions": `SELECT job_id || ' ' || (job_json ->> '$.schedule') || ' ' || (job_json ->> '$.payload') || coalesce(' ' || (job_json ->> '$.delivery'), '')
		FROM cron_jobs ORDER BY sort_order, job_id`,
	"next": `SELECT job_id || ' ' || coalesce(state_json ->> '$.nextRunAtMs', 'never') FROM cron_jobs ORDER BY sort_order, job_id`,
}

func (s *script) doShow(w []string, _ string) error {
	if len(w) == 0 {
		return errScriptWords
	}
	s.tell()
	switch w[0] {
	case "ledger":
		for _, part := range []string{"receipts", "history", "slots", "plan"} {
			if err := s.doShow([]string{part}, ""); err != nil {
				return err
			}
		}
		return nil
	case "history":
		for _, line := range s.m.query(`SELECT coalesce(detail_json ->> '$.runId', task_id) || ' ' || started_at || ' ' || detail_json
			FROM task_runs WHERE detail_json IS NOT NULL ORDER BY ended_at, task_id`) {
			runID, rest, _ := strings.Cut(line, " ")
			atMs, detail, _ := strings.Cut(rest, " ")
			s.say("history %s started %s %s", s.name(runID), s.readable(atMs), s.entryText([]byte(detail)))
		}
		return nil
	case "events":
		s.events(0, func(line string) { s.say("event %s", line) })
		return nil
	}
	query, ok := scriptShows[w[0]]
	if !ok {
		return fmt.Errorf("there is no view %s", w[0])
	}
	for _, line := range s.m.query(query) {
		s.say("%s %s", strings.TrimSuffix(w[0], "s"), s.readable(line))
	}
	return nil
}

func (s *script) doWhy(w []string, _ string) error {
	if len(w) == 0 {
		return errScriptWords
	}
	q := WhyQuery{JobID: w[0]}
	if len(w) > 1 {
		q.AtMs = at(s.t, w[1])
	}
	value, err := s.answer(q)
	why, ok := value.(Why)
	if !ok {
		return err
	}
	for _, d := range why.Decisions {
		s.say("%s: %s %s, decided %s", instantText(why.SlotMs), d.Rule, d.Verdict, instantText(d.AtMs))
	}
	return nil
}
