package job

import (
	"encoding/json"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// ScheduleSpec is a schedule as it is written down. Only the fields of its
// kind are set.
type ScheduleSpec struct {
	Kind              string // "at", "every", "cron", or a kind that time does not fire
	At                string
	EveryMs, AnchorMs int64
	HasAnchor         bool
	Expr, TZ          string
	StaggerMs         int64
	HasStagger        bool

	oldSpelling bool // atMs, cron, numbers as text, or no kind
}

// timed reports whether time makes the schedule fire.
func (s *ScheduleSpec) timed() bool {
	return s.Kind == "at" || s.Kind == "every" || s.Kind == "cron"
}

// decodeSchedule reads a schedule object as rows carry it.
func decodeSchedule(path string, raw json.RawMessage) (ScheduleSpec, error) {
	var s ScheduleSpec
	if !isObject(raw) {
		return s, invalid(path, "must be object")
	}
	err := s.decodeKind(path, raw)
	if err != nil {
		return s, err
	}
	switch s.Kind {
	case "at":
		err = s.decodeAt(path, raw)
	case "every":
		err = s.decodeEvery(path, raw)
	case "cron":
		err = s.decodeCron(path, raw)
	}
	return s, err
}

// decodeKind reads the kind, or infers it as old files need.
func (s *ScheduleSpec) decodeKind(path string, object json.RawMessage) error {
	if raw, ok := setMember(object, "kind"); ok {
		if s.Kind, ok = textOf(raw); !ok {
			return invalid(path+"/kind", "must be string")
		}
		return nil
	}
	s.oldSpelling = true
	for _, inferred := range []struct{ key, kind string }{
		{"at", "at"}, {"atMs", "at"}, {"everyMs", "every"}, {"expr", "cron"}, {"cron", "cron"},
	} {
		if _, ok := setMember(object, inferred.key); ok {
			s.Kind = inferred.kind
			return nil
		}
	}
	return missing(path, "kind")
}

func (s *ScheduleSpec) decodeAt(path string, object json.RawMessage) error {
	raw, ok := setMember(object, "at")
	if !ok {
		raw, ok = setMember(object, "atMs")
		s.oldSpelling = true
	}
	if !ok {
		return missing(path, "at")
	}
	if s.At, ok = textOf(raw); ok {
		s.At = strings.TrimSpace(s.At)
		return nil
	}
	// A number is epoch milliseconds; its text is what ParseAt reads.
	if _, ok = numberOf(raw); !ok {
		return invalid(path+"/at", "must be string")
	}
	s.At, s.oldSpelling = string(raw), true
	return nil
}

func (s *ScheduleSpec) decodeEvery(path string, object json.RawMessage) error {
	raw, ok := setMember(object, "everyMs")
	if !ok {
		return missing(path, "everyMs")
	}
	if s.EveryMs, ok = floorOf(raw); !ok {
		return invalid(path+"/everyMs", "must be integer")
	}
	s.oldSpelling = s.oldSpelling || raw[0] == '"'
	if raw, ok = setMember(object, "anchorMs"); ok {
		if s.AnchorMs, s.HasAnchor = floorOf(raw); !s.HasAnchor || s.AnchorMs < 0 {
			return invalid(path+"/anchorMs", "must be >= 0")
		}
		s.oldSpelling = s.oldSpelling || raw[0] == '"'
	}
	return nil
}

func (s *ScheduleSpec) decodeCron(path string, object json.RawMessage) error {
	raw, ok := setMember(object, "expr")
	if !ok {
		raw, ok = setMember(object, "cron")
		s.oldSpelling = true
	}
	if !ok {
		return missing(path, "expr")
	}
	if s.Expr, ok = textOf(raw); !ok {
		return invalid(path+"/expr", "must be string")
	}
	s.Expr = strings.TrimSpace(s.Expr)
	if raw, ok = setMember(object, "tz"); ok {
		if s.TZ, ok = textOf(raw); !ok {
			return invalid(path+"/tz", "must be string")
		}
		s.TZ = strings.TrimSpace(s.TZ)
	}
	if raw, ok = setMember(object, "staggerMs"); ok {
		if s.StaggerMs, s.HasStagger = floorOf(raw); !s.HasStagger {
			return invalid(path+"/staggerMs", "must be integer")
		}
		s.StaggerMs = max(s.StaggerMs, 0)
		s.oldSpelling = s.oldSpelling || raw[0] == '"'
	}
	return nil
}

// A Compiler makes schedules computable. Its Expressions, where it has any, are
// shared by the definitions that it compiles.
type Compiler struct {
	DST         schedule.DST
	Zone        string // stands in where a schedule names none; empty = UTC
	Expressions schedule.Expressions
}

// Compile makes the schedule computable. The job's own daylight-saving rule
// wins over dst; hostZone stands in where the schedule names no zone. A
// schedule that time does not fire gives the zero Schedule.
func (d *Definition) Compile(dst schedule.DST, hostZone string) (schedule.Schedule, error) {
	c := Compiler{DST: dst, Zone: hostZone}
	return c.Compile(d)
}

// Compile is [Definition.Compile] by the compiler's rules.
func (c *Compiler) Compile(d *Definition) (schedule.Schedule, error) {
	dst := c.DST
	if d.DST != "" {
		own, err := schedule.ParseDST(d.DST)
		if err != nil {
			return schedule.Schedule{}, fromSchedule("/dst", err)
		}
		dst = own
	}
	s := &d.Schedule
	switch s.Kind {
	case "at":
		atMs, err := schedule.ParseAt(s.At, nil)
		if err != nil {
			return schedule.Schedule{}, fromSchedule("/schedule/at", err)
		}
		return schedule.At(atMs), nil
	case "every":
		anchorMs := d.CreatedAtMs
		if s.HasAnchor {
			anchorMs = s.AnchorMs
		}
		every, err := schedule.Every(s.EveryMs, anchorMs)
		if err != nil {
			return schedule.Schedule{}, fromSchedule("/schedule/everyMs", err)
		}
		return every, nil
	case "cron":
		return c.cron(s, d.ID, dst)
	}
	return schedule.Schedule{}, nil
}

func (c *Compiler) cron(s *ScheduleSpec, id string, dst schedule.DST) (schedule.Schedule, error) {
	expression, err := c.Expressions.Parse(s.Expr)
	if err != nil {
		return schedule.Schedule{}, fromSchedule("/schedule/expr", err)
	}
	name := s.TZ
	if name == "" {
		name = c.Zone
	}
	zone := schedule.UTC()
	if name != "" {
		if zone, err = schedule.LoadZone(name); err != nil {
			return schedule.Schedule{}, fromSchedule("/schedule/tz", err)
		}
	}
	windowMs := s.StaggerMs
	if !s.HasStagger {
		windowMs = schedule.DefaultStaggerMs(s.Expr)
	}
	return schedule.Cron(expression, zone, dst, schedule.StaggerOffset(id, windowMs)), nil
}

// encode writes the schedule in its canonical form: the keys of its kind, in
// the order of the wire contract, absent ones left out.
func (s *ScheduleSpec) encode() json.RawMessage {
	b := append([]byte(`{"kind":`), quoteJSON(s.Kind)...)
	switch s.Kind {
	case "at":
		b = append(append(b, `,"at":`...), quoteJSON(s.At)...)
	case "every":
		b = append(append(b, `,"everyMs":`...), intJSON(s.EveryMs)...)
		if s.HasAnchor {
			b = append(append(b, `,"anchorMs":`...), intJSON(s.AnchorMs)...)
		}
	case "cron":
		b = append(append(b, `,"expr":`...), quoteJSON(s.Expr)...)
		if s.TZ != "" {
			b = append(append(b, `,"tz":`...), quoteJSON(s.TZ)...)
		}
		if s.HasStagger {
			b = append(append(b, `,"staggerMs":`...), intJSON(s.StaggerMs)...)
		}
	}
	return append(b, '}')
}

// watchedKeys are the keys of the kinds that time does not fire, in the order
// of the wire contract.
var watchedKeys = [...]string{"kind", "command", "cwd", "mode", "match", "batchMs", "maxBatchBytes"}

// ScheduleIdentity is the text that says whether stored timing still belongs
// to this definition. Two definitions with equal text have the same slots.
func (d *Definition) ScheduleIdentity() string {
	b := []byte(`{"version":2,"enabled":`)
	b = append(b, boolJSON(d.Enabled)...)
	b = append(b, `,"schedule":`...)
	if d.Schedule.timed() {
		b = append(b, d.Schedule.encode()...)
	} else {
		b = append(b, pick(d.watched, watchedKeys[:])...)
	}
	if limits := pacingLimits(d.pacing); limits != nil {
		b = append(append(b, `,"pacing":`...), limits...)
	}
	b = append(append(b, `,"hasTrigger":`...), boolJSON(d.hasTrigger)...)
	return string(append(b, '}'))
}

// pick copies the named members of an object, in the order of the names.
func pick(object json.RawMessage, names []string) json.RawMessage {
	var picked []rawjson.Member
	for _, name := range names {
		for key, value := range rawjson.Members(object) {
			if key == name && !isNull(value) {
				picked = append(picked, rawjson.Member{Key: key, Value: value})
				break
			}
		}
	}
	return objectOf(picked)
}

// objectOf writes members as a compact object.
func objectOf(members []rawjson.Member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range members {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(rawjson.AppendString(b, m.Key), ':')
		b = append(b, m.Value...)
	}
	return append(b, '}')
}

// pacingLimits gives the pacing in milliseconds, or nil when there is none.
func pacingLimits(pacing json.RawMessage) json.RawMessage {
	var limits []rawjson.Member
	for _, bound := range []struct{ key, name string }{{"min", "minMs"}, {"max", "maxMs"}} {
		for key, value := range rawjson.Members(pacing) {
			text, ok := textOf(value)
			if key != bound.key || !ok {
				continue
			}
			if ms, err := schedule.ParseDuration(text); err == nil {
				limits = append(limits, rawjson.Member{Key: bound.name, Value: intJSON(ms)})
			}
		}
	}
	if limits == nil {
		return nil
	}
	return objectOf(limits)
}
