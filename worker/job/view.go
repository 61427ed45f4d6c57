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
}

// privateKeys never leave the process: store-private members of a definition.
var privateKeys = []string{"skillLibrarySelections", "createdActor", "toolsAllowProvenance", "toolsAllowExecTarget",
	"toolsAllowExecTargetRequirement", "runtimeAuthority", "runtimeAuthorityRecoveryRequired"}

// privateState are the scheduler's own marks in the state.
var privateState = []string{"queuedAtMs", "runningReceiptId", "startupCatchupAtMs", "pacedNextRunAtMs",
	"forcePreservedNextRunAtMs", "runningScheduleChangeId", "failureAlertIncident", "lastFailureNotificationId",
	"rotaConsumedMs"}

// copiedState are the members of a read view that repeat the state, each with
// the state key it comes from.
var copiedState = []struct{ view, state string }{
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

// copiedMembers are the members of a view that repeat the state, read in one
// pass; what the state does not say is removed. Of a key that is given twice the
// last value counts, as for stateMember.
func copiedMembers(state json.RawMessage) []rawjson.Member {
	members := make([]rawjson.Member, len(copiedState))
	status := -1
	for i, c := range copiedState {
		members[i].Key = c.view
		if c.state == "lastRunStatus" {
			status = i
		}
	}
	var old json.RawMessage
	for key, value := range rawjson.Fields(state) {
		if string(key) == "lastStatus" {
			old = value
		}
		for i := range copiedState {
			if string(key) == copiedState[i].state {
				members[i].Value = value
			}
		}
	}
	if members[status].Value == nil {
		members[status].Value = old
	}
	for i := range members {
		if isNull(members[i].Value) {
			members[i].Value = nil
		}
	}
	return members
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
	state = json.RawMessage("{}")
	if isObject(r.State) {
		hidden := make([]rawjson.Member, len(privateState))
		for i, key := range privateState {
			hidden[i].Key = key
		}
		if state, err = rawjson.Set(r.State, hidden...); err != nil {
			return nil, nil, err
		}
	}
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

// stateMember reads one key of the state; the status may hide under its old
// name. nil if unset.
func stateMember(state json.RawMessage, key string) json.RawMessage {
	value := rawjson.Get(state, key)
	if value == nil && key == "lastRunStatus" {
		value = rawjson.Get(state, "lastStatus")
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
	if !json.Valid(r.Definition) || !isObject(r.Definition) {
		return nil, invalid("", "must be object")
	}
	at := func(key string) json.RawMessage { return rawjson.Get(r.Definition, key) }
	state := func(key string) json.RawMessage { return stateMember(r.State, key) }
	members := []rawjson.Member{{Key: "id", Value: quoteJSON(r.ID)}}
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
