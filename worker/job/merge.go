package job

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Change is an edited definition and what the edit means.
type Change struct {
	Definition []byte
	// Scheduling: the schedule, the enablement, the trigger or the pacing is now
	// another, so timing starts anew: activation stamp, deadline recomputed.
	Scheduling bool
	Schedule   bool // the schedule itself is another
	// Enabled and Disabled: the caller sent enabled true or false, whether or not
	// it was so already. Sending true forgives: streaks and automatic disabling
	// are cleared.
	Enabled, Disabled bool
	StatePatch        json.RawMessage // the writable part of patch.state; nil if none
	Changed           bool            // anything in the definition differs
	Notes             []string
}

// patchKeys are what cron.update can change.
var patchKeys = []string{"name", "displayName", "agentId", "sessionKey", "description", "enabled", "deleteAfterRun",
	"schedule", "pacing", "trigger", "sessionTarget", "wakeMode", "payload", "delivery", "failureAlert", "state",
	"catchUp", "dst"}

// patch is one cron.update on its way into a definition.
type patch struct {
	fields
	env     Env
	stored  []byte
	old     Definition
	edits   []rawjson.Member
	spec    ScheduleSpec // the schedule after the patch
	kind    string       // the payload's kind after the patch
	change  Change
	pending []string // notes
}

// Merge applies the patch of cron.update to a stored definition, on its bytes:
// what the patch does not name stays as it is, byte for byte; null clears. A
// value that means the same as the stored one changes nothing.
//
// A kind that this build does not run can be kept and edited where the row has
// it already, and cannot be chosen anew.
func Merge(definition []byte, raw json.RawMessage, env Env) (Change, error) {
	c, err := merge(definition, raw, env)
	return c, during("cron.update", err)
}

func merge(definition []byte, raw json.RawMessage, env Env) (Change, error) {
	if err := CheckKeys(raw); err != nil {
		return Change{}, err
	}
	old, err := Decode(definition)
	if err != nil {
		return Change{}, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return Change{}, invalid("/patch", "must be valid JSON")
	}
	f, err := readFields("/patch", compact.Bytes(), patchKeys)
	if err != nil {
		return Change{}, err
	}
	p := &patch{fields: f, env: env, stored: definition, old: old, spec: old.Schedule, kind: old.PayloadKind}
	steps := []func() error{p.texts, p.switches, p.rules, p.schedule, p.oneShotRule, p.payload, p.target, p.delivery, p.alert, p.state}
	for _, step := range steps {
		if err := step(); err != nil {
			return Change{}, err
		}
	}
	return p.finish()
}

// finish writes the edits and says what they mean.
func (p *patch) finish() (Change, error) {
	edits := changedOnly(p.stored, lastOfEach(p.edits))
	merged, err := rawjson.Set(p.stored, edits...)
	if err != nil {
		return Change{}, err
	}
	now, err := Decode(merged)
	if err != nil {
		return Change{}, err
	}
	c := p.change
	if p.touched("catchUp") || p.touched("dst") || p.touched("schedule") {
		p.pending = append(p.pending, ruleNotes(now.Schedule.Kind, now.CatchUp, now.DST)...)
	}
	c.Definition, c.Notes = merged, p.pending
	c.Changed = len(edits) > 0
	c.Schedule = !bytes.Equal(p.old.scheduleText(), now.scheduleText())
	c.Scheduling = p.old.ScheduleIdentity() != now.ScheduleIdentity() ||
		slices.ContainsFunc(edits, func(e rawjson.Member) bool { return e.Key == "trigger" || e.Key == "pacing" || e.Key == "dst" })
	return c, nil
}

// scheduleText is the schedule in its canonical form.
func (d *Definition) scheduleText() []byte {
	if d.Schedule.timed() {
		return d.Schedule.encode()
	}
	return appendCanonical(nil, d.watched)
}

func (p *patch) set(key string, value json.RawMessage) {
	p.edits = append(p.edits, rawjson.Member{Key: key, Value: value})
}

// remove clears a member.
func (p *patch) remove(key string) { p.edits = append(p.edits, rawjson.Member{Key: key}) }

// settled gives a member as it will be after the edits so far.
func (p *patch) settled(key string) json.RawMessage {
	if i := lastEdit(p.edits, key); i >= 0 {
		return p.edits[i].Value
	}
	if raw := rawjson.Get(p.stored, key); raw != nil && !isNull(raw) {
		return raw
	}
	return nil
}

// touched reports whether an update names a member.
func (p *patch) touched(key string) bool {
	_, ok := p.get(key)
	return ok
}

func (p *patch) texts() error {
	rules := []struct {
		key      string
		rule     textRule
		nullable bool
	}{{"name", nameRule, false}, {"displayName", nameRule, true}, {"agentId", keyRule, true}, {"sessionKey", keyRule, true}}
	for _, r := range rules {
		raw, ok := p.find(r.key)
		switch {
		case !ok:
			continue
		case isNull(raw) && r.nullable:
			p.remove(r.key)
			continue
		}
		text, err := normalText(p.sub(r.key), raw, r.rule)
		if err != nil {
			return err
		}
		p.set(r.key, text)
	}
	raw, ok := p.find("description")
	switch {
	case !ok:
		return nil
	case isNull(raw) || blank(raw):
		p.remove("description")
		return nil
	}
	text, err := normalText(p.sub("description"), raw, descriptionRule)
	p.set("description", text)
	return err
}

func (p *patch) switches() error {
	if raw, ok := p.find("enabled"); ok {
		enabled, ok := boolOf(raw)
		if !ok {
			return invalid(p.sub("enabled"), "must be boolean")
		}
		p.change.Enabled, p.change.Disabled = enabled, !enabled
		if enabled != p.old.Enabled {
			p.set("enabled", boolJSON(enabled))
		}
		if enabled {
			p.remove("disabledReason")
		}
	}
	if raw, ok := p.find("deleteAfterRun"); ok {
		checked, err := checkBool(p.sub("deleteAfterRun"), raw)
		if err != nil {
			return err
		}
		p.set("deleteAfterRun", checked)
	}
	return nil
}

// rules merges what bends the schedule; each can be cleared by null.
func (p *patch) rules() error {
	checks := []struct {
		key   string
		check func(path string, raw json.RawMessage) (json.RawMessage, error)
	}{
		{"pacing", normalPacing},
		{"catchUp", func(path string, raw json.RawMessage) (json.RawMessage, error) {
			return patchCatchUp(path, p.settled("catchUp"), raw)
		}},
		{"dst", func(path string, raw json.RawMessage) (json.RawMessage, error) {
			return normalWord(path, raw, dstRules)
		}},
		{"trigger", func(path string, raw json.RawMessage) (json.RawMessage, error) {
			if old := p.settled("trigger"); old != nil && sameJSON(old, raw) {
				return raw, nil
			}
			return nil, unsupportedFeature(path, "a condition trigger")
		}},
	}
	for _, c := range checks {
		raw, ok := p.find(c.key)
		if !ok {
			continue
		}
		if isNull(raw) {
			p.remove(c.key)
			continue
		}
		value, err := c.check(p.sub(c.key), raw)
		if err != nil {
			return err
		}
		p.set(c.key, value)
	}
	return nil
}

// schedule replaces the schedule. An anchor, a stagger and a zone that the
// patch does not mention stay where they still fit.
func (p *patch) schedule() error {
	raw, ok := p.find("schedule")
	if !ok {
		return nil
	}
	dst, err := ownDST(p.settled("dst"), p.env.DST)
	if err != nil {
		return err
	}
	in := scheduleInput{fields: fields{path: p.sub("schedule")}, id: p.old.ID, env: p.env, dst: dst, old: &p.old.Schedule}
	stored := rawjson.Get(p.stored, "schedule")
	if !p.old.Schedule.timed() && sameJSON(stored, raw) {
		return nil
	}
	if err := in.normalise(raw); err != nil {
		return err
	}
	p.spec = in.spec
	p.pending = append(p.pending, in.notes...)
	next, err := replaceSchedule(stored, &p.old.Schedule, &in.spec)
	p.set("schedule", next)
	return err
}

// replaceSchedule writes a schedule over a stored one. An equal one leaves the
// stored bytes alone, whatever their spelling.
func replaceSchedule(stored json.RawMessage, old, next *ScheduleSpec) (json.RawMessage, error) {
	if old.timed() && bytes.Equal(old.encode(), next.encode()) {
		return stored, nil
	}
	return overwrite(stored, next.encode(), scheduleKeys)
}

// overwrite edits object so that the members named in keys are those of next;
// members of other names stay.
func overwrite(object, next json.RawMessage, keys []string) (json.RawMessage, error) {
	var edits []rawjson.Member
	for _, key := range keys {
		edits = append(edits, rawjson.Member{Key: key, Value: rawjson.Get(next, key)})
	}
	return rawjson.Set(object, changedOnly(object, edits)...)
}

// oneShotRule keeps deleteAfterRun with the one-shots: it comes with the
// change to one and goes with the change from one, unless the patch says.
func (p *patch) oneShotRule() error {
	was, is := p.old.Schedule.Kind == "at", p.spec.Kind == "at"
	if _, given := p.find("deleteAfterRun"); !given && was != is {
		if is {
			p.set("deleteAfterRun", boolJSON(true))
		} else {
			p.remove("deleteAfterRun")
		}
	}
	if is && p.settled("pacing") != nil {
		if _, given := p.get("pacing"); given {
			return invalid(p.sub("pacing"), "is only valid for cron and every schedules")
		}
		p.remove("pacing")
	}
	return nil
}

// payload merges field by field into a payload of the same kind, and replaces
// one of another kind; what tools it may use is carried over.
func (p *patch) payload() error {
	raw, ok := p.find("payload")
	if !ok {
		return nil
	}
	path := p.sub("payload")
	f, err := readFields(path, raw, payloadKeys)
	if err != nil {
		return err
	}
	kind, err := payloadKind(&f)
	if err != nil {
		return err
	}
	stored := rawjson.Get(p.stored, "payload")
	if kind == p.old.PayloadKind {
		merged, notes, err := patchPayload(path, stored, &f, kind)
		if err != nil {
			return err
		}
		p.pending = append(p.pending, notes...)
		p.set("payload", merged)
		return nil
	}
	if old := rawjson.Get(stored, "toolsAllow"); old != nil {
		if _, given := f.find("toolsAllow"); !given {
			if raw, err = rawjson.Set(raw, rawjson.Member{Key: "toolsAllow", Value: old}); err != nil {
				return err
			}
		}
	}
	kind, replaced, notes, err := normalPayload(path, raw)
	if err != nil {
		return err
	}
	p.kind = kind
	p.pending = append(p.pending, notes...)
	merged, err := overwrite(stored, replaced, payloadKeys)
	p.set("payload", merged)
	return err
}

func (p *patch) target() error {
	if raw, ok := p.find("wakeMode"); ok {
		mode, err := normalWord(p.sub("wakeMode"), raw, wakeModes)
		if err != nil {
			return err
		}
		p.set("wakeMode", mode)
	}
	_, payloadGiven := p.find("payload")
	raw, given := p.find("sessionTarget")
	if given {
		target, err := normalTarget(p.sub("sessionTarget"), raw)
		if err != nil {
			return err
		}
		if target == "current" && p.settled("sessionKey") == nil {
			target = "isolated"
		}
		p.set("sessionTarget", quoteJSON(target))
	}
	if target := p.settled("sessionTarget"); target != nil && (given || payloadGiven) {
		return checkTarget(textMember(target), p.kind)
	}
	return nil
}

func (p *patch) delivery() error {
	raw, given := p.find("delivery")
	if given {
		stored := p.settled("delivery")
		merged, err := patchDelivery(p.sub("delivery"), stored, raw, p.env)
		if err != nil {
			return err
		}
		p.set("delivery", merged)
	}
	_, moved := p.find("sessionTarget")
	if delivery := p.settled("delivery"); delivery != nil && (given || moved) &&
		textMember(p.settled("sessionTarget")) == "main" && !mainDelivery(delivery) {
		p.remove("delivery")
	}
	return nil
}
