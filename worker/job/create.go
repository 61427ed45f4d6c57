package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Env is what defaults depend on.
type Env struct {
	NowMs    int64
	HostZone string       // the zone of a cron schedule that names none; empty = UTC
	DST      schedule.DST // the configuration's rule
	// Announce says that an adapter exists that can announce a result. Without
	// one, an omitted delivery is "none" and a wanted one is refused.
	Announce bool

	// What follows failed runs, as configured. Without ErrorBackoffMs all five
	// are the defaults.
	ErrorBackoffMs  []int64  // by failure in a row, the last one repeating
	RetryOn         []string // failure reasons that are worth another attempt
	RetryMax        int      // attempts after the first
	RetryBackoffMs  []int64
	DisableFailures int // failures in a row that switch a job off
}

// Created is a new definition, ready to be stored.
type Created struct {
	Definition   []byte
	Notes        []string // what bites: defaults filled in, rules that will apply
	EnabledGiven bool     // the caller said enabled, true or false
}

// definitionKeys is the order in which a new definition is written.
var definitionKeys = []string{"id", "declarationKey", "displayName", "owner", "agentId", "sessionKey", "name",
	"description", "enabled", "deleteAfterRun", "createdAtMs", "schedule", "pacing", "sessionTarget", "wakeMode",
	"payload", "delivery", "failureAlert", "catchUp", "dst", "state"}

// addKeys are the parameters of cron.add. What is not among them (id, state,
// timestamps) a caller cannot set.
var addKeys = []string{"name", "schedule", "sessionTarget", "wakeMode", "payload", "declarationKey", "displayName",
	"owner", "agentId", "sessionKey", "description", "enabled", "deleteAfterRun", "pacing", "trigger", "delivery",
	"failureAlert", "catchUp", "dst"}

// Create turns the parameters of cron.add into a definition: strings trimmed,
// words in canonical case, defaults filled in, everything checked. Names need
// not be unique; ids are.
func Create(id string, params json.RawMessage, env Env) (Created, error) {
	d, err := newDraft(id, params, env, nil)
	if err != nil {
		return Created{}, during("cron.add", err)
	}
	return Created{Definition: d.encode(), Notes: d.notes, EnabledGiven: d.enabledGiven}, nil
}

// draft is a definition in the making: the stored form of each member.
type draft struct {
	fields
	env          Env
	id           string
	stored       map[string]json.RawMessage
	spec         ScheduleSpec
	kind         string // of the payload
	notes        []string
	enabledGiven bool
}

// newDraft reads parameters of cron.add. old is the schedule of the job that
// they declare again, nil for a new job.
func newDraft(id string, params json.RawMessage, env Env, old *ScheduleSpec) (*draft, error) {
	if err := CheckKeys(params); err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, params); err != nil {
		return nil, invalid("", "must be valid JSON")
	}
	f, err := readFields("", compact.Bytes(), addKeys)
	if err != nil {
		return nil, err
	}
	d := &draft{fields: f, env: env, id: id, stored: map[string]json.RawMessage{
		"id": quoteJSON(id), "createdAtMs": intJSON(env.NowMs), "state": json.RawMessage("{}"),
	}}
	if err := d.required(); err != nil {
		return nil, err
	}
	steps := []func() error{d.texts, d.switches, d.rules, func() error { return d.schedule(old) }, d.payload, d.target, d.delivery, d.name}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return d, d.creationNotes()
}

// encode writes the definition.
func (d *draft) encode() []byte {
	var members []rawjson.Member
	for _, key := range definitionKeys {
		if value, ok := d.stored[key]; ok {
			members = append(members, rawjson.Member{Key: key, Value: value})
		}
	}
	return objectOf(members)
}

// required names the first parameter that is missing and has no default. A
// name can be derived as soon as there is something to derive it from.
func (d *draft) required() error {
	_, named := d.find("name")
	_, timed := d.get("schedule")
	_, loaded := d.get("payload")
	switch {
	case !named && !timed && !loaded:
		return missing("", "name")
	case !timed:
		return missing("", "schedule")
	case !loaded:
		return missing("", "payload")
	}
	return nil
}

// texts reads the strings that stand alone.
func (d *draft) texts() error {
	rules := []struct {
		key  string
		rule textRule
	}{{"displayName", nameRule}, {"agentId", keyRule}, {"sessionKey", keyRule}}
	for _, r := range rules {
		if raw, ok := d.get(r.key); ok {
			text, err := normalText(d.sub(r.key), raw, r.rule)
			if err != nil {
				return err
			}
			d.stored[r.key] = text
		}
	}
	if raw, ok := d.get("description"); ok && !blank(raw) {
		text, err := normalText(d.sub("description"), raw, descriptionRule)
		if err != nil {
			return err
		}
		d.stored["description"] = text
	}
	if raw, ok := d.get("declarationKey"); ok {
		key, err := normalDeclarationKey(d.sub("declarationKey"), raw)
		if err != nil {
			return err
		}
		d.stored["declarationKey"] = key
	}
	if raw, ok := d.get("owner"); ok {
		owner, err := normalOwner(d.sub("owner"), raw)
		if err != nil {
			return err
		}
		d.stored["owner"] = owner
	}
	return nil
}

// blank reports whether a value is a string of white space.
func blank(raw json.RawMessage) bool {
	text, ok := textOf(raw)
	return ok && strings.TrimSpace(text) == ""
}

// switches reads the booleans.
func (d *draft) switches() error {
	d.stored["enabled"] = boolJSON(true)
	if raw, ok := d.find("enabled"); ok {
		enabled, ok := boolOf(raw)
		if !ok {
			return invalid(d.sub("enabled"), "must be boolean")
		}
		d.stored["enabled"], d.enabledGiven = boolJSON(enabled), true
	}
	if raw, ok := d.get("deleteAfterRun"); ok {
		checked, err := checkBool(d.sub("deleteAfterRun"), raw)
		if err != nil {
			return err
		}
		d.stored["deleteAfterRun"] = checked
	}
	return nil
}

// rules reads what bends the schedule: dst, catchUp, pacing, trigger, alert.
func (d *draft) rules() error {
	var err error
	if raw, ok := d.get("dst"); ok {
		if d.stored["dst"], err = normalWord(d.sub("dst"), raw, dstRules); err != nil {
			return err
		}
	}
	if raw, ok := d.get("catchUp"); ok {
		if d.stored["catchUp"], err = normalCatchUp(d.sub("catchUp"), raw); err != nil {
			return err
		}
	}
	if raw, ok := d.get("pacing"); ok {
		if d.stored["pacing"], err = normalPacing(d.sub("pacing"), raw); err != nil {
			return err
		}
	}
	if _, ok := d.get("trigger"); ok {
		return unsupportedFeature(d.sub("trigger"), "a condition trigger")
	}
	if raw, ok := d.get("failureAlert"); ok {
		if string(raw) != "false" {
			return unsupportedFeature(d.sub("failureAlert"), "a failure alert")
		}
		d.stored["failureAlert"] = raw
	}
	return nil
}

func (d *draft) schedule(old *ScheduleSpec) error {
	raw, _ := d.get("schedule")
	dst, err := ownDST(d.stored["dst"], d.env.DST)
	if err != nil {
		return err
	}
	in := scheduleInput{fields: fields{path: d.sub("schedule")}, id: d.id, env: d.env, dst: dst, old: old, declared: old != nil}
	if err := in.normalise(raw); err != nil {
		return err
	}
	d.spec = in.spec
	d.notes = append(d.notes, in.notes...)
	d.stored["schedule"] = in.spec.encode()
	if d.stored["pacing"] != nil && in.spec.Kind == "at" {
		return invalid(d.sub("pacing"), "is only valid for cron and every schedules")
	}
	if _, given := d.stored["deleteAfterRun"]; !given && in.spec.Kind == "at" {
		d.stored["deleteAfterRun"] = boolJSON(true)
	}
	return nil
}

func (d *draft) payload() error {
	raw, _ := d.get("payload")
	kind, stored, notes, err := normalPayload(d.sub("payload"), raw)
	if err != nil {
		return err
	}
	d.kind = kind
	d.stored["payload"] = stored
	d.notes = append(d.notes, notes...)
	return nil
}

// defaultTargets are the session targets of payloads that name none.
var defaultTargets = map[string]string{"systemEvent": "main", "agentTurn": "current"}

func (d *draft) target() error {
	target := "isolated"
	if t, ok := defaultTargets[d.kind]; ok {
		target = t
	}
	if raw, ok := d.get("sessionTarget"); ok {
		var err error
		if target, err = normalTarget(d.sub("sessionTarget"), raw); err != nil {
			return err
		}
	}
	if target == "current" && d.stored["sessionKey"] == nil {
		target = "isolated"
	}
	if err := checkTarget(target, d.kind); err != nil {
		return err
	}
	d.stored["sessionTarget"] = quoteJSON(target)
	d.stored["wakeMode"] = quoteJSON("now")
	if raw, ok := d.get("wakeMode"); ok {
		var err error
		if d.stored["wakeMode"], err = normalWord(d.sub("wakeMode"), raw, wakeModes); err != nil {
			return err
		}
	}
	return nil
}

func (d *draft) delivery() error {
	raw, ok := d.get("delivery")
	if ok {
		stored, err := normalDelivery(d.sub("delivery"), raw, d.env)
		if err != nil {
			return err
		}
		if textMember(d.stored["sessionTarget"]) != "main" || mainDelivery(stored) {
			d.stored["delivery"] = stored
		}
		return nil
	}
	if textMember(d.stored["sessionTarget"]) == "main" {
		return nil
	}
	mode := "none"
	if d.env.Announce {
		mode = "announce"
	} else {
		d.notes = append(d.notes, "no delivery: results are kept in the run history and sent nowhere")
	}
	d.stored["delivery"] = objectOf([]rawjson.Member{{Key: "mode", Value: quoteJSON(mode)}})
	return nil
}

func textMember(raw json.RawMessage) string {
	text, _ := textOf(raw)
	return text
}

// derivedNameRunes bounds a name that is taken from what the job does.
const derivedNameRunes = 60

// name takes the given name; one that is given must not be blank. Without one
// the job is called after its first words, else after its schedule.
func (d *draft) name() error {
	if raw, ok := d.find("name"); ok {
		name, err := normalText(d.sub("name"), raw, nameRule)
		d.stored["name"] = name
		return err
	}
	name := firstLine(payloadWords(d.stored["payload"]), derivedNameRunes)
	if (nameRule.check("/name", name)) != nil || name == "" {
		switch d.spec.Kind {
		case "cron":
			name = "Cron: " + d.spec.Expr
		case "every":
			name = fmt.Sprintf("Every: %dms", d.spec.EveryMs)
		default:
			name = "One-shot"
		}
	}
	d.stored["name"] = quoteJSON(name)
	return nil
}

// payloadWords is what a payload says: its text, message, script, command, or
// the address without what may be secret in it.
func payloadWords(payload json.RawMessage) string {
	for key, value := range rawjson.Members(payload) {
		switch key {
		case "text", "message", "script":
			return textMember(value)
		case "url":
			address, _, _ := strings.Cut(textMember(value), "?")
			return address
		case "argv":
			argv, _ := textsOf(value)
			return strings.Join(argv, " ")
		}
	}
	return ""
}

func firstLine(text string, maxRunes int) string {
	for line := range strings.Lines(text) {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" {
			continue
		}
		if runes := []rune(line); len(runes) > maxRunes {
			line = strings.TrimSpace(string(runes[:maxRunes]))
		}
		return line
	}
	return ""
}
