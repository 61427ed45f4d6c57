package host

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/rota-scheduler/rota/worker"
)

// Bounds of an event page.
const (
	defaultEventsLimit = 500
	maxEventsLimit     = 1000
	// maxTimestampMs is the greatest instant of the protocol.
	maxTimestampMs = 8_640_000_000_000_000
)

func (h *Host) rotaStop(ctx context.Context, p params) (any, error) {
	if err := p.only("runId"); err != nil {
		return nil, err
	}
	runID, err := p.runID()
	if err != nil {
		return nil, err
	}
	if err := h.opts.Worker.Stop(ctx, worker.StopRun{RunID: runID}); err != nil {
		return nil, err
	}
	return struct {
		OK    bool   `json:"ok"`
		RunID string `json:"runId"`
	}{true, runID}, nil
}

func (p params) runID() (string, error) {
	runID, err := p.text("runId", 4096)
	if runID = strings.TrimSpace(runID); err == nil && runID == "" {
		err = invalid(p.method, "missing runId")
	}
	return runID, err
}

// runLogs is what a run printed: so far while it is open, as its history kept
// it afterwards.
type runLogs struct {
	RunID string `json:"runId"`
	// Running: the run is not over. One that waits for a place has printed
	// nothing yet.
	Running bool            `json:"running"`
	Text    string          `json:"text"`
	Status  string          `json:"status,omitempty"`
	Run     json.RawMessage `json:"run,omitempty"`
}

func (h *Host) rotaLogs(ctx context.Context, p params) (any, error) {
	if err := p.only("runId"); err != nil {
		return nil, err
	}
	runID, err := p.runID()
	if err != nil {
		return nil, err
	}
	if h.opts.LiveOutput != nil {
		if text, running := h.opts.LiveOutput(runID); running {
			return runLogs{RunID: runID, Running: true, Text: text}, nil
		}
	}
	if _, open := h.opts.Worker.Snapshot().OpenRun(runID); open {
		return runLogs{RunID: runID, Running: true}, nil
	}
	page, err := h.opts.Worker.Runs(ctx, worker.RunsQuery{RunID: runID, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(page.Entries) == 0 {
		return nil, &WireError{Code: CodeInvalidRequest,
			Message: fmt.Sprintf("no output of a run %s: it is neither open nor in the history", runID),
			Details: object("code", DetailRunNotFound, "runId", runID, "hint", "rota cron runs --json lists the runs that ended")}
	}
	var entry struct{ Summary, Status string }
	if err := json.Unmarshal(page.Entries[0], &entry); err != nil {
		return nil, fmt.Errorf("history entry of run %s: %w", runID, err)
	}
	return runLogs{RunID: runID, Text: entry.Summary, Status: entry.Status, Run: page.Entries[0]}, nil
}

type whyAnswer struct {
	Job       string            `json:"job"`
	Name      string            `json:"name,omitempty"`
	SlotMs    int64             `json:"slotMs"`
	Decisions []worker.Decision `json:"decisions"`
}

func (h *Host) rotaWhy(ctx context.Context, p params) (any, error) {
	if err := p.only("job", "atMs"); err != nil {
		return nil, err
	}
	word, err := p.text("job", 1024)
	if err != nil {
		return nil, err
	}
	if word = strings.TrimSpace(word); word == "" {
		return nil, invalid(p.method, "missing job")
	}
	atMs, err := p.whole("atMs", 0, maxTimestampMs, 0)
	if err != nil {
		return nil, err
	}
	id, name, err := h.resolve(word)
	if err != nil {
		return nil, err
	}
	why, err := h.opts.Worker.Why(ctx, worker.WhyQuery{JobID: id, AtMs: atMs})
	if err != nil {
		return nil, missing(p.method, word, err)
	}
	if name == "" && len(why.Decisions) == 0 {
		return nil, notFound(p.method, word)
	}
	if why.Decisions == nil {
		why.Decisions = []worker.Decision{}
	}
	return whyAnswer{Job: id, Name: name, SlotMs: why.SlotMs, Decisions: why.Decisions}, nil
}

// resolve takes an id or an exact name. A word that is neither may be the id
// of a removed job, whose decisions are kept for a while: it is passed on.
func (h *Host) resolve(word string) (id, name string, err error) {
	snap := h.opts.Worker.Snapshot()
	if j, ok := snap.Job(word); ok {
		return j.ID, j.Name, nil
	}
	var ids []string
	for j := range snap.Jobs() {
		if j.Name == word {
			ids = append(ids, j.ID)
		}
	}
	switch len(ids) {
	case 0:
		return word, "", nil
	case 1:
		return ids[0], word, nil
	}
	shown := ids[:min(len(ids), 10)]
	return "", "", &WireError{Code: CodeInvalidRequest,
		Message: fmt.Sprintf("%d jobs are named %q: give one of their ids: %s", len(ids), word, strings.Join(shown, ", ")),
		Details: object("reason", "conflict", "hint", "rota cron list --all shows names and ids")}
}

type eventsPage struct {
	Events    []worker.Event `json:"events"`
	NextSince int64          `json:"nextSince"`
}

func (h *Host) rotaEvents(ctx context.Context, p params) (any, error) {
	if err := p.only("since", "limit"); err != nil {
		return nil, err
	}
	since, err := p.whole("since", 0, 1<<62, 0)
	if err != nil {
		return nil, err
	}
	limit, err := p.whole("limit", 1, maxEventsLimit, defaultEventsLimit)
	if err != nil {
		return nil, err
	}
	events, err := h.opts.Worker.Events(ctx, worker.EventsQuery{SinceSeq: since, Limit: int(limit)})
	if err != nil {
		return nil, err
	}
	events = cutEvents(events)
	page := eventsPage{Events: events, NextSince: since}
	if page.Events == nil {
		page.Events = []worker.Event{}
	}
	if n := len(events); n > 0 {
		page.NextSince = events[n-1].Seq
	}
	return page, nil
}

// cutEvents keeps a page below the bytes that a reply may have, and at least one
// commit, whose events have one time.
func cutEvents(events []worker.Event) []worker.Event {
	size, end := 0, 0
	for i := range events {
		if i > 0 && events[i].AtMs != events[i-1].AtMs {
			end = i
		}
		if size += len(events[i].Detail); size > maxPageBytes && end > 0 {
			return events[:end]
		}
	}
	return events
}

type info struct {
	Version           string       `json:"version"`
	ProcessInstanceID string       `json:"processInstanceId"`
	Socket            string       `json:"socket"`
	URL               string       `json:"url,omitempty"`
	DB                string       `json:"db"`
	Durability        string       `json:"durability,omitempty"`
	Config            *ConfigState `json:"config,omitempty"`
	Jobs              int          `json:"jobs"`
	Loop              loopInfo     `json:"loop"`
	Methods           []methodInfo `json:"methods"`
}

// loopInfo is how busy the worker's one goroutine is.
type loopInfo struct {
	Saturation float64 `json:"saturation"` // share of the last ten to twenty seconds that it worked
	Turns      int64   `json:"turns"`      // transactions begun since the start
	Commits    int64   `json:"commits"`    // of these, committed: each is a sync
}

type methodInfo struct {
	Name  string `json:"name"`
	Scope string `json:"scope"`
	Write bool   `json:"write"`
	Local bool   `json:"local,omitempty"` // on the socket alone
}

func (h *Host) rotaInfo(_ context.Context, p params) (any, error) {
	if err := p.only(); err != nil {
		return nil, err
	}
	out := info{Version: h.opts.Version, ProcessInstanceID: h.opts.InstanceID, Socket: h.opts.SocketPath, URL: h.URL(),
		DB: h.opts.DBPath, Durability: h.opts.Durability, Config: h.config.Load(), Jobs: h.opts.Worker.Snapshot().Len()}
	stats := h.opts.Worker.Stats()
	out.Loop = loopInfo{Saturation: math.Round(stats.Saturation*1000) / 1000, Turns: stats.Turns, Commits: stats.Commits}
	for _, m := range methodRows() {
		out.Methods = append(out.Methods, methodInfo{m.Name, m.Scope, m.Write, m.Local})
	}
	return out, nil
}
