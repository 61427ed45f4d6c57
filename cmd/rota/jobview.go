package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/worker/job"
)

// jobView is what the command line shows of a job.
type jobView struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	DisplayName    string          `json:"displayName"`
	DeclarationKey string          `json:"declarationKey"`
	Enabled        bool            `json:"enabled"`
	DisabledReason string          `json:"disabledReason"`
	AgentID        string          `json:"agentId"`
	SessionKey     string          `json:"sessionKey"`
	Owner          jobOwner        `json:"owner"`
	SessionTarget  string          `json:"sessionTarget"`
	Schedule       jobSchedule     `json:"schedule"`
	Trigger        json.RawMessage `json:"trigger"`
	Payload        jobPayload      `json:"payload"`
	State          jobState        `json:"state"`
	EffectiveAgent *string         `json:"effectiveAgentId"`
	ConfigRevision string          `json:"configRevision"`
}

type jobOwner struct {
	AgentID    string `json:"agentId"`
	SessionKey string `json:"sessionKey"`
}

type jobPayload struct {
	Kind  string `json:"kind"`
	Model string `json:"model"`
}

type jobSchedule struct {
	Kind      string          `json:"kind"`
	At        string          `json:"at"`
	EveryMs   int64           `json:"everyMs"`
	Expr      string          `json:"expr"`
	TZ        string          `json:"tz"`
	StaggerMs *int64          `json:"staggerMs"`
	Command   json.RawMessage `json:"command"`
	Cwd       string          `json:"cwd"`
}

type jobState struct {
	NextRunAtMs       *int64 `json:"nextRunAtMs"`
	LastRunAtMs       *int64 `json:"lastRunAtMs"`
	RunningAtMs       *int64 `json:"runningAtMs"`
	LastRunStatus     string `json:"lastRunStatus"`
	LastStatus        string `json:"lastStatus"`
	LastError         string `json:"lastError"`
	LastDiagnostic    string `json:"lastDiagnosticSummary"`
	ConsecutiveErrors int    `json:"consecutiveErrors"`
	DeliveryStatus    string `json:"lastDeliveryStatus"`
	DeliveryError     string `json:"lastDeliveryError"`
	Suppression       string `json:"deliverySuppressionReason"`
	StreamStatus      string `json:"streamStatus"`
	StreamError       string `json:"streamError"`
	AutoDisabled      *struct {
		Reason            string `json:"reason"`
		ConsecutiveErrors int    `json:"consecutiveErrors"`
	} `json:"autoDisabled"`
}

// status is one word: what the job is doing or how it last ended.
func (j *jobView) status() string {
	switch {
	case j.State.RunningAtMs != nil:
		return "running"
	case !j.Enabled:
		return "disabled"
	case j.State.LastRunStatus != "":
		return j.State.LastRunStatus
	case j.State.LastStatus != "":
		return j.State.LastStatus
	}
	return "idle"
}

// decoratedStatus adds what explains the word.
func (j *jobView) decoratedStatus() string {
	word := j.status()
	switch {
	case word == "disabled" && j.State.AutoDisabled != nil && j.State.AutoDisabled.Reason == "schedule-errors":
		return "disabled (schedule)"
	case word == "disabled" && j.State.AutoDisabled != nil:
		return word + times(j.State.AutoDisabled.ConsecutiveErrors)
	case word == "error" && j.State.ConsecutiveErrors > 1:
		return word + times(j.State.ConsecutiveErrors)
	case word == "ok" && j.State.DeliveryStatus == "not-delivered" && j.State.Suppression != "":
		return "ok (suppressed)"
	case word == "ok" && j.State.DeliveryStatus == "not-delivered":
		return "ok (not delivered)"
	}
	return word
}

func times(n int) string {
	if n > 99 {
		return " (99+x)"
	}
	return fmt.Sprintf(" (%dx)", n)
}

// scheduleText says when a job fires, in one line.
func (j *jobView) scheduleText() string {
	s := j.Schedule
	var text string
	switch s.Kind {
	case "at":
		text = "at " + s.At
		if at, err := time.Parse(time.RFC3339, s.At); err == nil {
			text = "at " + at.UTC().Format("2006-01-02 15:04Z")
		}
	case "every":
		text = "every " + exactly(s.EveryMs)
	case "cron":
		text = "cron " + s.Expr
		if s.TZ != "" {
			text += " @ " + s.TZ
		}
		switch {
		case s.StaggerMs == nil:
		case *s.StaggerMs == 0:
			text += " (exact)"
		default:
			text += " (stagger " + exactly(*s.StaggerMs) + ")"
		}
	case "on-exit", "stream":
		text = s.Kind + " " + commandText(s.Command)
		if s.Cwd != "" {
			text += " @ " + s.Cwd
		}
	default:
		text = s.Kind
	}
	if j.hasTrigger() {
		text += " +trigger"
	}
	return text
}

func (j *jobView) hasTrigger() bool { return len(j.Trigger) > 0 && string(j.Trigger) != "null" }

// commandText shows a watched command, which is one string or a list of words.
func commandText(raw json.RawMessage) string {
	var line string
	if json.Unmarshal(raw, &line) == nil {
		return line
	}
	var words []string
	if json.Unmarshal(raw, &words) == nil {
		return strings.Join(words, " ")
	}
	return string(raw)
}

// next says when a job runs next; a disabled one does not.
func (j *jobView) next(nowMs int64) string {
	if !j.Enabled || j.State.NextRunAtMs == nil {
		return "-"
	}
	return relative(*j.State.NextRunAtMs, nowMs)
}

func (j *jobView) last(nowMs int64) string {
	if j.State.LastRunAtMs == nil {
		return "-"
	}
	return relative(*j.State.LastRunAtMs, nowMs)
}

// dash stands for what is not there.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// ownLines are the lines of what a job has of rota's own: a request, where its
// result may be lost, and the rules that bend its schedule. Headers and parts of
// addresses that are secret by their name are masked.
func ownLines(definition []byte) []string {
	d, err := job.Decode(definition)
	if err != nil {
		return nil // shown as far as it can be read
	}
	var lines []string
	if p := d.Payload.HTTP; p != nil {
		lines = append(lines, "request: "+p.Method+" "+job.MaskedURL(p.URL))
		for _, h := range p.Headers {
			value := h.Value
			if job.SecretName(h.Name) {
				value = job.Masked
			}
			lines = append(lines, "request header: "+h.Name+": "+value)
		}
		if p.Body != "" {
			lines = append(lines, "request body: "+plural(len(p.Body), "byte"))
		}
		lines = append(lines, "ok status: "+statusText(p.OKStatus))
	}
	if d.Delivery.BestEffort {
		lines = append(lines, "best effort delivery: yes")
	}
	if c := d.CatchUp; c != nil {
		lines = append(lines, "catch-up: "+catchUpText(*c))
	}
	if d.DST != "" {
		lines = append(lines, "daylight saving: "+d.DST)
	}
	return lines
}

// plural is a number with its noun.
func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

func statusText(ranges []job.StatusRange) string {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = fmt.Sprint(r.From)
		if r.To != r.From {
			texts[i] = fmt.Sprintf("%d-%d", r.From, r.To)
		}
	}
	return strings.Join(texts, ", ")
}

func catchUpText(c schedule.CatchUp) string {
	text := c.Policy.String()
	if c.Policy == schedule.RunAll {
		limit := c.Limit
		if limit == 0 {
			limit = schedule.DefaultCatchUpLimit
		}
		text += ", at most " + fmt.Sprint(limit)
	}
	if c.MaxLatenessMs > 0 {
		text += ", none later than " + exactly(c.MaxLatenessMs)
	}
	return text
}

// deliveryPreview is the preview of where results go.
type deliveryPreview struct {
	Label  string `json:"label"`
	Detail string `json:"detail"`
}

func (p deliveryPreview) String() string {
	if p.Label == "" {
		return "-"
	}
	label := p.Label
	if to, ok := strings.CutPrefix(label, "webhook:"); ok {
		label = "webhook:" + job.MaskedURL(to)
	}
	return label + " (" + p.Detail + ")"
}
