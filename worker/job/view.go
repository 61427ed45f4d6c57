package job

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Row is one job as stored, for reading.
type Row struct {
	ID                string
	Definition, State []byte
	UpdatedAtMs       int64
	// Sound says that both texts are known to be JSON objects.
	Sound bool
}

// privateKeys never leave the process: store-private members of a definition.
var privateKeys = []string{"skillLibrarySelections", "createdActor", "toolsAllowProvenance", "toolsAllowExecTarget",
	"toolsAllowExecTargetRequirement", "runtimeAuthority", "runtimeAuthorityRecoveryRequired"}

// privateState are the scheduler's own marks in the state, as edits that remove
// them.
var privateState = []rawjson.Member{{Key: "queuedAtMs"}, {Key: "runningReceiptId"}, {Key: "startupCatchupAtMs"},
	{Key: "pacedNextRunAtMs"}, {Key: "forcePreservedNextRunAtMs"}, {Key: "runningScheduleChangeId"},
	{Key: "failureAlertIncident"}, {Key: "lastFailureNotificationId"}, {Key: "rotaConsumedMs"}}

// copiedState are the members of a read view that repeat the state, each with
// the state key it comes from.
var copiedState = [...]struct{ view, state string }{
	{"nextRunAtMs", "nextRunAtMs"},
	{"lastRunAtMs", "lastRunAtMs"},
	{"lastRunStatus", "lastRunStatus"},
	{"lastRunError", "lastError"},
	{"lastDelivered", "lastDelivered"},
	{"lastDeliveryStatus", "lastDeliveryStatus"},
	{"lastDeliveryError", "lastDeliveryError"},
	{"deliverySuppressionReason", "deliverySuppressionReason"},
	{"lastFailureNotificationDelivered", "lastFailureNotificationDelivered"},
	{"lastFailureNotificationDeliveryStatus", "lastFailureNotificationDeliveryStatus"},
	{"lastFailureNotificationDeliveryError", "lastFailureNotificationDeliveryError"},
}

// View is the job as cron.get, cron.add and cron.update answer it: the stored
// object with its state, the revision, and the state's main facts repeated at
// the top. Private members are left out; a schedule in an old spelling is
// shown in the present one.
func View(r Row) (json.RawMessage, error) { return view(r) }

func view(r Row, more ...rawjson.Member) (json.RawMessage, error) {
	state, edits, err := publicEdits(r)
	if err != nil {
		return nil, err
	}
	edits = append(edits, rawjson.Member{Key: "configRevision", Value: quoteJSON(WireRevision(r.Definition))})
	edits = append(edits, copiedMembers(state)...)
	return rawjson.Set(r.Definition, append(edits, more...)...)
}

// copiedMembers are the members of a view that repeat the state; what the state
// does not say is removed.
func copiedMembers(state json.RawMessage) []rawjson.Member {
	members := make([]rawjson.Member, len(copiedState))
	for i, value := range copiedValues(state) {
		members[i] = rawjson.Member{Key: copiedState[i].view, Value: value}
	}
	return members
}

// copiedValues are the values that copiedState names, read in one pass; nil where
// the state does not say. Of a key that is given twice the last value counts, as
// for stateMember.
func copiedValues(state json.RawMessage) (values [len(copiedState)]json.RawMessage) {
	var old json.RawMessage // the status under its old name
	for key, value := range rawjson.Fields(state) {
		if string(key) == "lastStatus" {
			old = value
		}
		for i := range copiedState {
			if string(key) == copiedState[i].state {
				values[i] = value
			}
		}
	}
	for i := range values {
		if values[i] == nil && copiedState[i].state == "lastRunStatus" {
			values[i] = old
		}
		if isNull(values[i]) {
			values[i] = nil
		}
	}
	return values
}

// PublicView is the job inside events: the stored object with its state, and
// nothing derived.
func PublicView(r Row) (json.RawMessage, error) {
	_, edits, err := publicEdits(r)
	if err != nil {
		return nil, err
	}
	return rawjson.Set(r.Definition, edits...)
}

// publicEdits gives the public state and the edits that make a stored
// definition presentable.
func publicEdits(r Row) (state json.RawMessage, edits []rawjson.Member, err error) {
	if r.Sound || rawjson.Valid(r.State) { // one that cannot be read must not hide the job
		state = r.State
	}
	state = appendPublicState(nil, state)
	edits = make([]rawjson.Member, 0, 32)
	edits = append(edits, rawjson.Member{Key: "id", Value: quoteJSON(r.ID)})
	for _, key := range privateKeys {
		edits = append(edits, rawjson.Member{Key: key})
	}
	if rawjson.Get(r.Definition, "enabled") == nil {
		edits = append(edits, rawjson.Member{Key: "enabled", Value: boolJSON(true)})
	}
	if raw := rawjson.Get(r.Definition, "schedule"); raw != nil {
		if spec, err := decodeSchedule("", raw); err == nil && spec.oldSpelling {
			modern, err := modernSchedule(raw, spec)
			if err != nil {
				return nil, nil, err
			}
			edits = append(edits, rawjson.Member{Key: "schedule", Value: modern})
		}
	}
	edits = append(edits, rawjson.Member{Key: "state", Value: state}, rawjson.Member{Key: "updatedAtMs", Value: intJSON(r.UpdatedAtMs)})
	return state, edits, nil
}

// appendPublicState writes the state without the marks; none is an empty one.
func appendPublicState(b, state []byte) []byte {
	if !isObject(state) {
		return append(b, "{}"...)
	}
	return rawjson.AppendSet(b, state, privateState...)
}

// modernSchedule rewrites a schedule of an old spelling; keys that rota does
// not know stay.
func modernSchedule(raw json.RawMessage, spec ScheduleSpec) (json.RawMessage, error) {
	if spec.Kind == "at" {
		if atMs, err := schedule.ParseAt(spec.At, nil); err == nil {
			spec.At = schedule.FormatInstant(atMs)
		}
	}
	if !spec.timed() {
		return raw, nil
	}
	return overwrite(raw, spec.encode(), scheduleKeys)
}

// seen is the members of an object, for whoever asks for many of them.
type seen []struct {
	key   []byte
	value json.RawMessage
}

func fieldsOf(object []byte) seen {
	all := make(seen, 0, 24)
	for key, value := range rawjson.Fields(object) {
		all = append(all, struct {
			key   []byte
			value json.RawMessage
		}{key, value})
	}
	return all
}

// get is rawjson.Get.
func (s seen) get(key string) json.RawMessage {
	for i := len(s) - 1; i >= 0; i-- {
		if string(s[i].key) == key {
			return s[i].value
		}
	}
	return nil
}

// stateMember reads one key of the state; the status may hide under its old
// name. nil if unset.
func (s seen) stateMember(key string) json.RawMessage {
	value := s.get(key)
	if value == nil && key == "lastRunStatus" {
		value = s.get("lastStatus")
	}
	if value == nil || isNull(value) {
		return nil
	}
	return value
}

// orNull writes an unset value as null.
func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return jsonNull
	}
	return raw
}

// instantOrNull writes a time for people, null when it is unset.
func instantOrNull(raw json.RawMessage) json.RawMessage {
	if ms, ok := stateTime(raw); ok {
		return quoteJSON(schedule.FormatInstant(ms))
	}
	return jsonNull
}

// CompactView is the short row of cron.list.
func CompactView(r Row) (json.RawMessage, error) {
	if !r.Sound && !rawjson.Valid(r.Definition) || !isObject(r.Definition) {
		return nil, invalid("", "must be object")
	}
	at := fieldsOf(r.Definition).get
	facts := fieldsOf(r.State)
	state := func(key string) json.RawMessage { return facts.stateMember(key) }
	members := append(make([]rawjson.Member, 0, 28), rawjson.Member{Key: "id", Value: quoteJSON(r.ID)})
	add := func(key string, value json.RawMessage) {
		if value != nil && !isNull(value) {
			members = append(members, rawjson.Member{Key: key, Value: value})
		}
	}
	always := func(key string, value json.RawMessage) {
		members = append(members, rawjson.Member{Key: key, Value: orNull(value)})
	}
	add("name", at("name"))
	add("agentId", at("agentId"))
	always("updatedAtMs", intJSON(r.UpdatedAtMs))
	for _, key := range []string{"declarationKey", "displayName", "owner"} {
		add(key, at(key))
	}
	enabled := at("enabled")
	if enabled == nil {
		enabled = boolJSON(true)
	}
	always("enabled", enabled)
	always("nextRunAt", instantOrNull(state("nextRunAtMs")))
	always("nextRunAtMs", state("nextRunAtMs"))
	if raw := at("schedule"); raw != nil {
		if spec, err := decodeSchedule("", raw); err == nil {
			always("scheduleKind", quoteJSON(spec.Kind))
			if spec.timed() {
				if spec.oldSpelling {
					raw, _ = modernSchedule(raw, spec)
				}
				add("schedule", raw)
			}
		}
	}
	if trigger := at("trigger"); trigger != nil && !isNull(trigger) {
		add("trigger", boolJSON(true))
	}
	always("lastRunAt", instantOrNull(state("lastRunAtMs")))
	always("lastRunAtMs", state("lastRunAtMs"))
	always("lastRunStatus", state("lastRunStatus"))
	always("lastRunError", state("lastError"))
	for _, key := range []string{"runningAtMs", "autoDisabled", "lastDelivered", "lastDeliveryStatus", "lastDeliveryError",
		"deliverySuppressionReason", "lastFailureNotificationDelivered", "lastFailureNotificationDeliveryStatus",
		"lastFailureNotificationDeliveryError"} {
		add(key, state(key))
	}
	always("effectiveAgentId", quoteJSON(effectiveAgent(textMember(at("agentId")), textMember(at("sessionKey")))))
	return objectOf(members), nil
}

// DeliveryPreview says in words where results go: {label, detail}.
func DeliveryPreview(definition []byte) json.RawMessage {
	spec, err := decodeDelivery("", rawjson.Get(definition, "delivery"), rawjson.Get(definition, "payload"))
	label, detail := "not requested", "not requested"
	switch {
	case err != nil || spec.Mode == "none":
	case spec.Mode == "webhook" && spec.To == "":
		label, detail = "webhook", "webhook target missing"
	case spec.Mode == "webhook":
		label, detail = "webhook:"+spec.To, "webhook"
	default:
		channel := spec.Channel
		if channel == "" {
			channel = "last"
		}
		label, detail = spec.Mode+" -> "+channel, "explicit"
		if spec.To != "" {
			label += ":" + spec.To
		}
		if channel == "last" && spec.To == "" {
			detail = "last -> no route, will fail-closed"
		}
	}
	return objectOf([]rawjson.Member{{Key: "label", Value: quoteJSON(label)}, {Key: "detail", Value: quoteJSON(detail)}})
}
