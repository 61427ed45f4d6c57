package worker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// simHost is the hosts as a model: what they asked, what they were answered,
// and what must therefore be true.
type simHost struct {
	jobs  map[string]*simJob
	order []string // ids in the order of their adds
	asks  []*simAsk
	// acked are the public ids of accepted manual runs, with their modes.
	acked map[string]string
	keys  map[string]string // what a request key was answered
	named int
}

// simJob is a job as its operator knows it.
type simJob struct {
	id         string
	definition []byte // of the last answer
	enabled    bool   // the operator's last word
	removed    bool
	ended      bool  // a one-shot that is over, or a job that turned itself off
	planned    bool  // slots of it were planned when it was last looked at
	nextMs     int64 // its deadline then, 0 for none
	eras       []*simEra
}

// simEra is a time in which one schedule was in force: each of its slots in
// (fromMs, toMs] must be accounted for once.
type simEra struct {
	timing schedule.Schedule
	fromMs int64
	toMs   int64 // 0 while it lasts
}

// simAsk is a command that waits for its answer.
type simAsk struct {
	c       *call
	id      string
	made    bool // by this ask the job comes to be
	looks   bool // nobody answered it: this is what a look at the job shows
	gone    bool // or ceases to be
	enabled *bool
}

func (h *simHost) init() {
	h.jobs, h.acked, h.keys = map[string]*simJob{}, map[string]string{}, map[string]string{}
}

// jobID is one of the jobs that there are, "" when there is none.
func (s *simulation) jobID() string {
	var ids []string
	for _, id := range s.host.order {
		if !s.host.jobs[id].removed {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return ids[s.rng.IntN(len(ids))]
}

func (s *simulation) send(a *simAsk, command any) {
	a.c = &call{command: command, reply: make(chan answer, 1)}
	s.host.asks = append(s.host.asks, a)
	s.m.w.commands.put(a.c)
	raw, err := json.Marshal(command)
	s.say("%T %s %v", command, raw, err)
}

// schedule draws one: fast grids, one-shots, cron.
func (s *simulation) schedule() string {
	switch s.rng.IntN(5) {
	case 0, 1:
		return fmt.Sprintf(`{"kind":"every","everyMs":%d}`, (5+s.rng.IntN(300))*1000)
	case 2:
		return fmt.Sprintf(`{"kind":"at","at":"+%ds"}`, 1+s.rng.IntN(600))
	case 3:
		return fmt.Sprintf(`{"kind":"cron","expr":"*/%d * * * *","tz":"UTC","staggerMs":%d}`, 1+s.rng.IntN(10), s.rng.IntN(2)*60_000)
	}
	return `{"kind":"cron","expr":"*/20 * * * * *","tz":"UTC","staggerMs":0}`
}

func (s *simulation) hostAdds() {
	living := 0
	for _, j := range s.host.jobs {
		if !j.removed {
			living++
		}
	}
	if living >= 6 || s.chance(3) { // a file of jobs of which the second is wrong: none of it is kept
		s.send(&simAsk{}, ApplyJobs{Source: "jobs.json", IDs: []string{"never", "never-either"}, Jobs: []json.RawMessage{
			json.RawMessage(`{"name":"never","schedule":` + s.schedule() + `,"payload":{"kind":"command","argv":["/bin/true"]}}`),
			json.RawMessage(`{"name":"never-either","schedule":{"kind":"every","everyMs":-1}}`)}})
		return
	}
	s.host.named++
	id := fmt.Sprint("j", s.host.named)
	more := pick(s, "", "", `,"catchUp":{"policy":"all","limit":3}`, `,"catchUp":{"policy":"skip"}`, `,"deleteAfterRun":false`,
		`,"catchUp":{"policy":"all","maxLatenessMs":600000}`, `,"delivery":{"mode":"webhook","to":"https://example.org/hook"}`)
	on := true
	s.send(&simAsk{id: id, made: true, enabled: &on}, AddJob{ID: id, Params: json.RawMessage(fmt.Sprintf(
		`{"name":%q,"schedule":%s,"payload":{"kind":"command","argv":["/bin/true"]}%s}`, id, s.schedule(), more))})
}

func (s *simulation) hostEdits() {
	id := s.jobID()
	if id == "" {
		return
	}
	on, off := true, false
	a := &simAsk{id: id}
	patch := ""
	switch s.rng.IntN(8) {
	case 0:
		patch, a.enabled = `{"enabled":false}`, &off
	case 1, 2:
		patch, a.enabled = `{"enabled":true}`, &on
	case 3:
		patch = fmt.Sprintf(`{"name":"n%d"}`, s.rng.IntN(100))
	case 4:
		patch = fmt.Sprintf(`{"payload":{"kind":"command","argv":["/bin/echo","%d"]}}`, s.rng.IntN(100))
	case 5:
		patch = `{"schedule":` + s.schedule() + `}`
	case 6:
		patch, a.enabled = `{"enabled":true,"schedule":`+s.schedule()+`}`, &on
	default:
		patch = pick(s, `{"dst":"skip"}`, `{"dst":"vixie"}`, `{"catchUp":{"policy":"all"}}`, `{"catchUp":null}`)
	}
	s.send(a, UpdateJob{ID: id, Patch: json.RawMessage(patch), Stop: s.chance(4)})
}

func (s *simulation) hostRuns() {
	id := s.jobID()
	if id == "" {
		return
	}
	c := RunJob{ID: id, Mode: pick(s, "force", "force", "if-enabled", "due"), Key: fmt.Sprint("k", s.rng.IntN(40)), Given: true}
	if s.chance(2) {
		s.host.named++
		c.Key, c.Given = fmt.Sprint("made", s.host.named), false
	}
	s.send(&simAsk{id: id}, c)
}

func (s *simulation) hostRemoves() {
	if id := s.jobID(); id != "" {
		s.send(&simAsk{id: id, gone: true}, RemoveJob{ID: id})
	}
}

func (s *simulation) hostStops() {
	for r := range s.m.w.st.open.Values() {
		if s.chance(2) {
			s.send(&simAsk{}, StopRun{RunID: r.RunID})
			return
		}
	}
}

func (s *simulation) hostReads() {
	id := s.jobID()
	s.send(&simAsk{}, pick[any](s, RunsQuery{JobID: id, Limit: 3}, RunsQuery{Limit: 2, Ascending: true, Query: "j"}, EventsQuery{Limit: 5},
		WhyQuery{JobID: id, AtMs: s.m.nowMs - s.upTo(time.Hour).Milliseconds()}))
}

func (s *simulation) hostConfigures() {
	s.host.configure(s, !s.chance(6), s.rng.IntN(5))
	if s.m.cfg.Enabled && s.m.cfg.MaxConcurrent > 0 {
		return
	}
	s.passes(s.upTo(3 * time.Minute))
	if !s.chance(3) {
		s.host.configure(s, true, 3)
	}
}

func (h *simHost) configure(s *simulation, enabled bool, places int) {
	s.m.cfg.Version++
	s.m.cfg.Enabled, s.m.cfg.MaxConcurrent = enabled, places
	s.say("config enabled=%v places=%d", enabled, places)
	s.m.w.Configure(s.m.cfg)
}

// answered takes the answers that have come.
func (h *simHost) answered(s *simulation) {
	waiting := h.asks[:0:0]
	for _, a := range h.asks {
		select {
		case got := <-a.c.reply:
			h.answer(s, a, got)
		default:
			waiting = append(waiting, a)
		}
	}
	h.asks = waiting
}

func (h *simHost) answer(s *simulation, a *simAsk, got answer) {
	s.say("answer to %T: %s %v", a.c.command, answerText(got.value), got.err)
	if got.err != nil {
		return
	}
	switch v := got.value.(type) {
	case Added:
		h.defined(s, a, v.Job, s.m.nowMs)
	case *Job:
		h.defined(s, a, v, s.m.nowMs)
	case Removed:
		h.jobs[a.id].remove(s.m.nowMs)
	case RunAnswer:
		h.accepted(s, a, v)
	}
}

// accepted is the answer to a manual run: its id is a promise, and its key
// always has the same one.
func (h *simHost) accepted(s *simulation, a *simAsk, v RunAnswer) {
	c, ok := a.c.command.(RunJob)
	if !ok || v.RunID == "" {
		return
	}
	if was, known := h.acked[v.RunID]; known && (!c.Given || was != c.Mode) {
		s.fail("run id %s was given twice: for mode %s and for %s", v.RunID, was, c.Mode)
	}
	h.acked[v.RunID] = c.Mode
	if !c.Given {
		return
	}
	key := a.id + " " + c.Key
	if was := h.keys[key]; was != "" && was != v.RunID {
		s.fail("request key %s of %s was answered %s and now %s", c.Key, a.id, was, v.RunID)
	}
	h.keys[key] = v.RunID
}

// defined is a job after a write: what stands there is the operator's word.
func (h *simHost) defined(s *simulation, a *simAsk, v *Job, nowMs int64) {
	j := h.jobs[a.id]
	if j == nil {
		j = &simJob{id: a.id}
		h.jobs[a.id] = j
		h.order = append(h.order, a.id)
	}
	newEra := a.made || a.enabled != nil && (j.enabled != *a.enabled || j.ended) ||
		!bytes.Equal(rawjson.Get(j.definition, "schedule"), rawjson.Get(v.Definition, "schedule"))
	if j.oneShot() && a.enabled == nil && !v.Enabled {
		j.ended = true // its run ended in this very turn, before the edit
	}
	j.definition = v.Definition
	if a.enabled != nil {
		j.enabled, j.ended = *a.enabled, false
	} else if a.looks {
		j.enabled, j.ended, newEra = v.Enabled, false, true
	}
	if !newEra {
		return
	}
	j.endEra(nowMs)
	if v.Enabled && !v.timedOneShot() {
		j.eras = append(j.eras, &simEra{timing: v.timing, fromMs: max(nowMs, v.ConsumedMs())})
	}
}

func (j *simJob) endEra(nowMs int64) {
	if n := len(j.eras); n > 0 && j.eras[n-1].toMs == 0 {
		j.eras[n-1].toMs = nowMs
	}
}

// lookAgain is what hosts do after a death: a command without an answer may have
// been kept or not, and either is right.
func (h *simHost) lookAgain(s *simulation) {
	asks := h.asks
	h.asks = nil
	for _, a := range asks {
		now, there := s.m.w.st.jobs.Get(a.id)
		j := h.jobs[a.id]
		switch {
		case a.gone && j != nil && !there:
			j.planned = true
			j.remove(s.m.nowMs)
		case !there || a.c == nil:
		case a.made && j == nil, j != nil && !sameButEnabled(j.definition, now.Definition), a.enabled != nil && j != nil && (j.enabled != now.Enabled || j.ended):
			if j != nil {
				j.dropEra() // whether its last slots were still due is not known
			}
			h.defined(s, &simAsk{id: a.id, looks: true}, now, s.m.nowMs)
		}
	}
}

// remove ends a job. Slots that it was still to run go with it, without a
// decision: there is no job left to ask about.
func (j *simJob) remove(nowMs int64) {
	j.removed = true
	if j.nextMs != 0 { // one that had come and was not requested, or waits behind a manual run
		nowMs = min(nowMs, j.nextMs-1)
	}
	if j.endEra(nowMs); j.planned {
		j.dropEra()
	}
}

func (j *simJob) dropEra() {
	if n := len(j.eras); n > 0 {
		j.eras = j.eras[:n-1]
	}
}

// sameButEnabled compares two definitions without their enablement, which the
// end of a run may change.
func sameButEnabled(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	strip := func(definition []byte) string {
		raw, err := rawjson.Set(definition, rawjson.Member{Key: "enabled"})
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(raw))
	}
	return strip(a) == strip(b)
}
