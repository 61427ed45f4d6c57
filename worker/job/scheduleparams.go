package job

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
)

const (
	minEveryMs = 1000
	// A one-shot may name a time that has only just gone by: clocks differ a
	// little and requests take a moment.
	pastGraceMs = 60_000
	// maxAheadMs is ten years of 365.25 days.
	maxAheadMs = 315_576_000_000
)

var (
	scheduleKinds = []string{"at", "every", "cron", "on-exit", "stream"}
	timedKinds    = []string{"at", "every", "cron"}
	// scheduleKeys are the keys of all kinds and their old spellings. Those that
	// do not belong to the chosen kind are dropped; other keys are refused.
	scheduleKeys = []string{"kind", "at", "atMs", "everyMs", "anchorMs", "expr", "cron", "tz", "staggerMs",
		"command", "cwd", "mode", "match", "batchMs", "maxBatchBytes"}
)

// scheduleInput is a schedule as a client wrote it, on its way to being stored.
type scheduleInput struct {
	fields
	id  string
	env Env
	dst schedule.DST  // the job's own rule, else the configuration's
	old *ScheduleSpec // what the job has now; nil for a new job
	// declared: the schedule comes from a declaration that is applied again and
	// again, so a relative time that was resolved once stays.
	declared bool

	spec  ScheduleSpec
	notes []string
}

// normalise checks the schedule and brings it to its stored form, in spec.
func (in *scheduleInput) normalise(raw json.RawMessage) error {
	var err error
	if in.fields, err = readFields(in.path, raw, scheduleKeys); err != nil {
		return err
	}
	if err = in.kind(); err != nil {
		return err
	}
	switch in.spec.Kind {
	case "at":
		return in.oneShot()
	case "every":
		return in.interval()
	}
	return in.expression()
}

func (in *scheduleInput) kind() error {
	raw, ok := in.get("kind")
	if !ok {
		return in.spec.decodeKind(in.path, objectOf(in.members))
	}
	if in.spec.Kind, ok = word(raw, scheduleKinds); !ok {
		return oneOf(in.sub("kind"), timedKinds)
	}
	if !in.spec.timed() {
		return unsupported(in.sub("kind"), "schedule kind", in.spec.Kind, timedKinds)
	}
	return nil
}

// either finds a member by its name or its old one.
func (in *scheduleInput) either(key, old string) (json.RawMessage, error) {
	if raw, ok := in.get(key); ok {
		return raw, nil
	}
	if raw, ok := in.get(old); ok {
		return raw, nil
	}
	return nil, missing(in.path, key)
}

// oneShot reads {at, tz?}. The zone serves text without an offset and is not
// stored: what is stored is the instant.
func (in *scheduleInput) oneShot() error {
	raw, err := in.either("at", "atMs")
	if err != nil {
		return err
	}
	text, ok := textOf(raw)
	if !ok {
		text = string(raw) // a number is epoch milliseconds
	}
	text = strings.TrimSpace(text)
	var zone *schedule.Zone
	if tz, ok := in.get("tz"); ok {
		if zone, err = in.zone(tz); err != nil {
			return err
		}
	}
	atMs, relative := relativeAt(text, in.env.NowMs)
	if relative && in.declared && in.old != nil && in.old.Kind == "at" {
		in.spec = *in.old
		return nil
	}
	if !relative {
		if atMs, err = schedule.ParseAt(text, zone); err != nil {
			return unreadableAt(in.sub("at"), text, err)
		}
	}
	in.spec.At = schedule.FormatInstant(atMs)
	if in.old != nil && in.old.Kind == "at" {
		if oldMs, err := schedule.ParseAt(in.old.At, nil); err == nil && oldMs == atMs {
			in.spec.At = in.old.At // sent back as it was: it may well be over
			return nil
		}
	}
	return in.checkAt(atMs)
}

func (in *scheduleInput) checkAt(atMs int64) error {
	now, at := schedule.FormatInstant(in.env.NowMs), schedule.FormatInstant(atMs)
	refusal := Error{Code: CodeInvalid, Field: in.sub("at"), Plain: true}
	switch lateMs := in.env.NowMs - atMs; {
	case lateMs > pastGraceMs:
		refusal.past = true
		refusal.Message = fmt.Sprintf("schedule.at is in the past: %s (%d minutes ago). Current time: %s", at, lateMs/60_000, now)
	case -lateMs > maxAheadMs:
		refusal.Message = fmt.Sprintf("schedule.at is too far in the future: %s (more than 10 years ahead). Current time: %s", at, now)
	case lateMs > 0:
		in.notes = append(in.notes, "its time, "+at+", has just gone by: it runs at once")
		return nil
	default:
		return nil
	}
	return &refusal
}

// unreadableAt refuses text that is no instant. A local time that does not
// exist is explained; everything else gets the sentence that clients know.
func unreadableAt(path, text string, err error) *Error {
	e := &Error{Code: CodeInvalid, Field: path, Plain: true,
		Message: "Invalid schedule.at: expected ISO-8601 timestamp (got " + cut(text, maxEchoBytes) + ")"}
	var s *schedule.Error
	if errors.As(err, &s) {
		e.Hint = s.Hint
		if s.Code == schedule.CodeGap {
			e.Message = "Invalid schedule.at: " + s.Message
		}
	}
	return e
}

// relativeAt reads "+20s" and "20s": an amount from now. A bare number has no
// unit and is not one of them.
func relativeAt(text string, nowMs int64) (atMs int64, ok bool) {
	amount := strings.TrimPrefix(text, "+")
	if amount == "" || amount[0] < '0' || amount[0] > '9' || strings.Trim(amount, "0123456789.") == "" {
		return 0, false
	}
	ms, err := schedule.ParseDuration(amount)
	if err != nil || ms > maxInstantMs-max(nowMs, 0) {
		return 0, false
	}
	return nowMs + ms, true
}

func (in *scheduleInput) interval() error {
	raw, ok := in.get("everyMs")
	if !ok {
		return missing(in.path, "everyMs")
	}
	f, ok := numberOf(raw)
	switch {
	case !ok:
		return invalid(in.sub("everyMs"), "must be integer")
	case f < minEveryMs:
		return invalidf(in.sub("everyMs"), "must be >= %d", minEveryMs)
	case f > maxInstantMs:
		return invalidf(in.sub("everyMs"), "must be <= %d", int64(maxInstantMs))
	}
	if in.spec.EveryMs, ok = wholeOf(raw); !ok {
		return invalid(in.sub("everyMs"), "must be integer")
	}
	if raw, ok = in.get("anchorMs"); ok {
		if in.spec.AnchorMs, ok = wholeOf(raw); !ok || in.spec.AnchorMs < 0 {
			return invalid(in.sub("anchorMs"), "must be a whole number >= 0")
		}
		in.spec.HasAnchor = true
	} else if in.old != nil && in.old.Kind == "every" && in.old.EveryMs == in.spec.EveryMs {
		in.spec.AnchorMs, in.spec.HasAnchor = in.old.AnchorMs, in.old.HasAnchor
	} else {
		in.spec.AnchorMs, in.spec.HasAnchor = in.env.NowMs, true
	}
	every, err := schedule.Every(in.spec.EveryMs, in.spec.AnchorMs)
	if err != nil {
		return fromSchedule(in.sub("everyMs"), err)
	}
	return in.mustFire(every, "everyMs")
}

func (in *scheduleInput) expression() error {
	raw, err := in.either("expr", "cron")
	if err != nil {
		return err
	}
	text, ok := textOf(raw)
	if !ok {
		return invalid(in.sub("expr"), "must be string")
	}
	in.spec.Expr = strings.TrimSpace(text)
	expression, err := schedule.ParseExpression(in.spec.Expr)
	if err != nil {
		return fromSchedule(in.sub("expr"), err)
	}
	in.notes = append(in.notes, expression.Warnings()...)
	if err := in.expressionZone(); err != nil {
		return err
	}
	if err := in.stagger(); err != nil {
		return err
	}
	c := Compiler{DST: in.dst, Zone: in.env.HostZone, Expressions: schedule.Expressions{in.spec.Expr: expression}}
	compiled, err := c.cron(&in.spec, in.id, in.dst)
	if err != nil {
		return err
	}
	return in.mustFire(compiled, "expr")
}

// expressionZone settles tz: as given; else, for a job that has one, as it is;
// else the host's, stored by name so that a journey does not move the job.
// A null asks for the host's.
func (in *scheduleInput) expressionZone() error {
	raw, given := in.find("tz")
	if given && !isNull(raw) {
		zone, err := in.zone(raw)
		if err != nil {
			return err
		}
		in.spec.TZ = zone.Name()
		return nil
	}
	if !given && in.old != nil && in.old.Kind == "cron" && in.old.TZ != "" {
		in.spec.TZ = in.old.TZ
		return nil
	}
	in.spec.TZ = "UTC"
	if zone, err := schedule.LoadZone(in.env.HostZone); err == nil {
		in.spec.TZ = zone.Name()
	}
	in.notes = append(in.notes, fmt.Sprintf("no tz was given: %s, the default zone here, is stored", in.spec.TZ))
	return nil
}

func (in *scheduleInput) zone(raw json.RawMessage) (*schedule.Zone, error) {
	text, ok := textOf(raw)
	if !ok {
		return nil, invalid(in.sub("tz"), "must be string")
	}
	if strings.TrimSpace(text) == "" {
		return nil, invalid(in.sub("tz"), "must NOT have fewer than 1 characters")
	}
	zone, err := schedule.LoadZone(text)
	if err != nil {
		return nil, fromSchedule(in.sub("tz"), err)
	}
	return zone, nil
}

// stagger settles staggerMs: as given; else, for the same expression, as it is
// (a declaration derives it anew); else the default for the top of the hour.
func (in *scheduleInput) stagger() error {
	if raw, ok := in.get("staggerMs"); ok {
		if in.spec.StaggerMs, ok = wholeOf(raw); !ok || in.spec.StaggerMs < 0 {
			return invalid(in.sub("staggerMs"), "must be a whole number >= 0")
		}
		in.spec.HasStagger = true
		return nil
	}
	_, given := in.find("staggerMs")
	if !given && !in.declared && in.old != nil && in.old.HasStagger && in.old.Expr == in.spec.Expr {
		in.spec.StaggerMs, in.spec.HasStagger = in.old.StaggerMs, true
		return nil
	}
	windowMs := schedule.DefaultStaggerMs(in.spec.Expr)
	if windowMs > 0 {
		in.spec.StaggerMs, in.spec.HasStagger = windowMs, true
		offsetMs := schedule.StaggerOffset(in.id, windowMs)
		in.notes = append(in.notes, fmt.Sprintf("starts %s after each slot: expressions at the top of the hour are spread over %s unless staggerMs says otherwise (0 = exact)",
			duration(offsetMs), duration(windowMs)))
	}
	return nil
}

func (in *scheduleInput) mustFire(s schedule.Schedule, key string) error {
	if _, ok := s.Next(in.env.NowMs); !ok {
		return &Error{Code: CodeInvalid, Field: in.sub(key), Message: "at " + in.sub(key) + ": the schedule never fires"}
	}
	return nil
}
