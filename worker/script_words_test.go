package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/store"
)

// The commands of scripts; script_test.go says what each does.

type scriptCommand func(s *script, words []string, line string) error

var scriptCommands map[string]scriptCommand

func init() { // tell's commands are in a table that the runner reads
	scriptCommands = map[string]scriptCommand{
		"start": (*script).doStart, "add": (*script).doAdd, "edit": (*script).doEdit, "run": (*script).doRun,
		"enable":  func(s *script, w []string, l string) error { return s.doEdit(append(w, `{"enabled":true}`), l) },
		"disable": func(s *script, w []string, l string) error { return s.doEdit(append(w, `{"enabled":false}`), l) },
		"remove":  (*script).doRemove, "cancel": (*script).doCancel, "end": (*script).doEnd, "finish-all": (*script).doFinishAll,
		"deliver": (*script).doDeliver, "advance": (*script).doAdvance, "step": (*script).doStep, "sleep": (*script).doStep,
		"config": (*script).doConfig, "launcher": (*script).doLauncher, "kill": (*script).doKill, "stop": (*script).doStop,
		"restart": (*script).doRestart, "sql": (*script).doSQL, "history-row": (*script).doHistoryRow, "why": (*script).doWhy,
		"show": (*script).doShow,
	}
}

var errScriptWords = errors.New("too few words")

func (s *script) doStart(w []string, _ string) error {
	if len(w) != 1 {
		return errScriptWords
	}
	s.m = newMachine(s.t, at(s.t, w[0]))
	s.m.take = s.take
	return s.begin()
}

func (s *script) begin() error {
	if err := s.m.start(); err != nil {
		return err
	}
	s.m.settle()
	return nil
}

// answer tells a refusal and passes a failure on.
func (s *script) answer(command any) (any, error) {
	value, err := s.m.ask(command)
	if code := codeOf(err); code != "" {
		s.say("refused %s: %s", code, s.readable(err.Error()))
		return nil, nil
	}
	return value, err
}

func (s *script) doAdd(w []string, _ string) error {
	if len(w) < 2 {
		return errScriptWords
	}
	id, schedule, rest := w[0], w[1], w[2:]
	if schedule[0] != '{' {
		if len(rest) == 0 {
			return errScriptWords
		}
		value := rest[0]
		rest = rest[1:]
		switch schedule {
		case "every":
			span, err := scriptSpan(value)
			if err != nil {
				return err
			}
			schedule = fmt.Sprintf(`{"kind":"every","everyMs":%d}`, span.Milliseconds())
		case "at":
			schedule = fmt.Sprintf(`{"kind":"at","at":%q}`, value)
		case "cron":
			zone := "UTC"
			if len(rest) > 0 && rest[0][0] != '{' {
				zone, rest = rest[0], rest[1:]
			}
			schedule = fmt.Sprintf(`{"kind":"cron","expr":%q,"tz":%q,"staggerMs":0}`, value, zone)
		}
	}
	params := map[string]json.RawMessage{"name": json.RawMessage(fmt.Sprintf("%q", id)), "schedule": json.RawMessage(schedule),
		"payload": json.RawMessage(`{"kind":"command","argv":["/bin/true"]}`)}
	if len(rest) > 0 {
		if err := json.Unmarshal([]byte(rest[0]), &params); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	_, err = s.answer(AddJob{ID: id, Params: raw})
	return err
}

func (s *script) doEdit(w []string, _ string) error {
	if len(w) < 2 {
		return errScriptWords
	}
	_, err := s.answer(UpdateJob{ID: w[0], Patch: json.RawMessage(w[1])})
	return err
}

func (s *script) doRun(w []string, _ string) error {
	if len(w) < 2 {
		return errScriptWords
	}
	c := RunJob{ID: w[0], Mode: w[1], Key: fmt.Sprint("made-", s.count[w[0]]+1)}
	if len(w) > 2 {
		c.Key, c.Given = w[2], true
	}
	value, err := s.answer(c)
	a, ok := value.(RunAnswer)
	if !ok {
		return err
	}
	if a.Reason != "" {
		s.say("not run: %s %s", a.Reason, s.name(a.OpenRunID))
		return nil
	}
	s.say("accepted %s", s.name(a.RunID))
	return nil
}

func (s *script) doRemove(w []string, _ string) error {
	if len(w) != 1 {
		return errScriptWords
	}
	value, err := s.answer(RemoveJob{ID: w[0]})
	if a, ok := value.(Removed); ok && a.CleanupPending {
		s.say("its run is still to end")
	}
	return err
}

func (s *script) doCancel(w []string, _ string) error {
	if len(w) != 1 {
		return errScriptWords
	}
	for r := range s.m.w.st.open.Values() {
		if r.JobID == w[0] || s.name(r.RunID) == w[0] {
			_, err := s.answer(StopRun{RunID: r.RunID})
			return err
		}
	}
	_, err := s.answer(StopRun{RunID: w[0]})
	return err
}

// launched finds the newest launch of a job, or the launch of a run by its name.
func (s *script) launched(name string) (*Launch, error) {
	for i := len(s.launches) - 1; i >= 0; i-- {
		if l := s.launches[i]; l.JobID == name || s.name(l.RunID) == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("%s was not launched", name)
}

func (s *script) doEnd(w []string, _ string) error {
	if len(w) < 2 {
		return errScriptWords
	}
	l, err := s.launched(w[0])
	if err != nil {
		return err
	}
	o := Outcome{ReceiptID: l.ReceiptID, Status: Status(w[1]), Kind: KindExit, StartedAtMs: l.RunAtMs, EndedAtMs: s.m.nowMs,
		DurationMs: s.m.nowMs - l.RunAtMs}
	if o.Status == StatusError {
		o.Error, o.ErrorReason = "command exited with code 3", "unknown"
	}
	for _, word := range w[2:] {
		switch key, value, isPair := strings.Cut(word, "="); {
		case isPair && key == "reason":
			o.ErrorReason = value
		case isPair && key == "kind":
			o.Kind = value
		case o.Status == StatusOK:
			o.Summary = word
		default:
			o.Error = word
		}
	}
	s.m.w.outcomes.put(o)
	s.m.settle()
	return nil
}

func (s *script) doFinishAll([]string, string) error {
	for range 1000 {
		any := false
		for r := range s.m.w.st.active.Values() {
			any = true
			s.m.w.outcomes.put(Outcome{ReceiptID: r.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: r.ActiveAtMs,
				EndedAtMs: s.m.nowMs, DurationMs: s.m.nowMs - r.ActiveAtMs})
		}
		if !any {
			return nil
		}
		s.m.settle()
	}
	return errors.New("runs never cease")
}

func (s *script) doDeliver(w []string, _ string) error {
	if len(w) != 2 {
		return errScriptWords
	}
	l, err := s.launched(w[0])
	if err != nil {
		return err
	}
	end := DeliveryEnd{Status: DeliveryStatus(w[1]), Answered: 1, EndedAtMs: s.m.nowMs}
	if end.Status == NotDelivered {
		end.HTTPCode, end.Error = 500, "the receiver answered 500"
	}
	s.m.w.outcomes.put(Outcome{ReceiptID: l.ReceiptID, Delivery: &end})
	s.m.settle()
	return nil
}

func (s *script) doAdvance(w []string, _ string) error {
	if len(w) != 1 {
		return errScriptWords
	}
	span, err := scriptSpan(w[0])
	if err == nil {
		s.m.advance(span)
	}
	return err
}

func (s *script) doStep(w []string, _ string) error {
	if len(w) != 1 {
		return errScriptWords
	}
	span, err := scriptSpan(w[0])
	s.m.nowMs += span.Milliseconds()
	s.m.settle()
	return err
}

func (s *script) doConfig(w []string, _ string) error {
	if len(w) != 1 {
		return errScriptWords
	}
	if err := json.Unmarshal([]byte(w[0]), &s.m.cfg); err != nil {
		return err
	}
	s.m.cfg.Version++
	if s.m.w != nil {
		s.m.w.Configure(s.m.cfg)
		s.m.settle()
	}
	return nil
}

func (s *script) doLauncher(w []string, _ string) error {
	if len(w) != 1 {
		return errScriptWords
	}
	s.m.away = w[0] == "away"
	s.m.handOut()
	return nil
}

func (s *script) doKill([]string, string) error {
	s.m.kill()
	return nil
}

// doStop stops the daemon as its signal does: what runs is ended by the
// launcher, and what was handed out too late is taken back.
func (s *script) doStop([]string, string) error {
	w := s.m.w
	w.stopping.Store(true)
	for range 100 {
		s.m.settle()
		if !w.takeBack() && w.st.active.Len() == 0 {
			break
		}
		for r := range w.st.active.Values() {
			w.outcomes.put(Outcome{ReceiptID: r.ReceiptID, Status: StatusError, Kind: KindShutdown, Interrupted: KindShutdown,
				Error: "the daemon stopped before the run ended", StartedAtMs: r.ActiveAtMs, EndedAtMs: s.m.nowMs})
		}
	}
	s.tell()
	s.m.kill()
	return nil
}

func (s *script) doRestart(w []string, _ string) error {
	if s.m.w != nil {
		s.m.kill()
	}
	s.m.away = false
	for len(w) >= 2 {
		switch w[0] {
		case "down":
			span, err := scriptSpan(w[1])
			if err != nil {
				return err
			}
			s.m.nowMs += span.Milliseconds()
			s.m.monoMs += span.Milliseconds()
		case "boot":
			s.m.boot++
			s.m.monoMs = 0
		case "log":
			s.m.logID, s.m.log = s.m.logID+"'", nil
		default:
			return fmt.Errorf("restart knows no %s", w[0])
		}
		w = w[2:]
	}
	return s.begin()
}

func (s *script) doSQL(_ []string, line string) error {
	s.m.exec(strings.TrimPrefix(line, "sql "))
	return nil
}

// doHistoryRow writes what another program leaves that recorded a run's end and
// died before it settled the job.
func (s *script) doHistoryRow(w []string, _ string) error {
	if len(w) != 2 {
		return errScriptWords
	}
	l, err := s.launched(w[0])
	if err != nil {
		return err
	}
	word, public := map[string]string{"ok": "succeeded"}[w[1]], ""
	if word == "" {
		word = "failed"
	}
	if l.SlotMs == 0 {
		public = l.RunID
	}
	s.m.exec(`INSERT INTO task_runs (task_id, runtime, task_kind, source_id, requester_session_key, owner_key, scope_kind, run_id, task,
		status, delivery_status, notify_policy, created_at, started_at, ended_at, last_event_at, detail_json)
		VALUES (?, 'cron', 'automation_run', ?, '', '', 'system', ?, ?, ?, 'not_applicable', 'silent', ?, ?, ?, ?, ?)`,
		"task-"+l.ReceiptID, l.JobID, store.InternalRunID(l.JobID, l.RunAtMs, l.ReceiptID, public), l.JobID,
		word, l.RunAtMs, l.RunAtMs, s.m.nowMs, s.m.nowMs,
		fmt.Sprintf(`{"kind":"cron-run","status":%q,"completionStatus":%q,"storeKey":"rota","runId":%q}`, w[1], word, l.RunID))
	return nil
}
