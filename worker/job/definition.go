package job

import (
	"encoding/json"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// Definition is the typed view of a stored definition. Keys that rota does not
// know are simply not in it, so it is never written back: edits go through
// [Merge], [Converge] and [Set].
type Definition struct {
	ID, Name, DisplayName, Description, DeclarationKey, AgentID, SessionKey string

	OwnerAgentID   string
	Enabled        bool // a definition that does not say is enabled
	DeleteAfterRun bool
	CreatedAtMs    int64 // 0 where the row does not say
	Schedule       ScheduleSpec
	PayloadKind    string
	Payload        Payload // filled for the kinds that this build runs
	Delivery       DeliverySpec
	CatchUp        *schedule.CatchUp // the job's own; nil = the configuration's
	DST            string            // "vixie", "skip", or empty = the configuration's
	DisabledReason string            // what was said when it was disabled

	pacing     json.RawMessage
	hasTrigger bool
	watched    json.RawMessage // the schedule object of a kind that time does not fire
}

// DeliverySpec says where a result goes. Mode is "none" when the definition
// has no delivery.
type DeliverySpec struct {
	Mode, Channel, To string
	BestEffort        bool
}

// Decode reads a stored definition. It understands the old spellings that
// databases and files still carry: numbers as text, a schedule without its
// kind, atMs, cron for expr, an agent's delivery inside its payload. It does
// not judge whether the schedule ever fires: [Definition.Compile] does.
//
// A refusal is a *[Error] with CodeInvalid and the Field that is wrong.
func Decode(definition []byte) (Definition, error) {
	d := Definition{Enabled: true, Delivery: DeliverySpec{Mode: "none"}}
	if !rawjson.Valid(definition) || !isObject(definition) {
		return d, invalid("", "must be object")
	}
	var schedule, payload, delivery json.RawMessage
	for key, value := range rawjson.Fields(definition) {
		switch string(key) {
		case "schedule":
			schedule = value
		case "payload":
			payload = value
		case "delivery":
			delivery = value
		default:
			if err := d.decodeMember(key, value); err != nil {
				return d, err
			}
		}
	}
	if schedule == nil {
		return d, missing("", "schedule")
	}
	if payload == nil {
		return d, missing("", "payload")
	}
	spec, err := decodeSchedule("/schedule", schedule)
	if err != nil {
		return d, err
	}
	d.Schedule = spec
	if !spec.timed() {
		d.watched = schedule
	}
	if d.Payload, err = decodePayload("/payload", payload); err != nil {
		return d, err
	}
	d.PayloadKind = d.Payload.Kind
	d.Delivery, err = decodeDelivery("/delivery", delivery, payload)
	return d, err
}

// decodeMember reads one top-level member other than schedule, payload and
// delivery.
func (d *Definition) decodeMember(key []byte, value json.RawMessage) error {
	if isNull(value) {
		return nil
	}
	if text := d.textMember(key); text != nil {
		var ok bool
		if *text, ok = textOf(value); !ok {
			return invalid("/"+string(key), "must be string")
		}
		return nil
	}
	ok := true
	switch string(key) {
	case "enabled":
		if d.Enabled, ok = boolOf(value); !ok {
			return invalid("/enabled", "must be boolean")
		}
	case "deleteAfterRun":
		if d.DeleteAfterRun, ok = boolOf(value); !ok {
			return invalid("/deleteAfterRun", "must be boolean")
		}
	case "createdAtMs":
		// Not worth setting a row aside for: an unusable time is an unknown one.
		d.CreatedAtMs, _ = floorOf(value)
	case "owner":
		for name, owner := range rawjson.Fields(value) {
			if string(name) == "agentId" {
				d.OwnerAgentID, _ = textOf(owner)
			}
		}
	case "catchUp":
		policy, err := decodeCatchUp("/catchUp", value)
		if err != nil {
			return err
		}
		d.CatchUp = &policy
	case "pacing":
		d.pacing = value
	case "trigger":
		d.hasTrigger = true
	}
	return nil
}

// textMember gives the place of a top-level string, or nil.
func (d *Definition) textMember(key []byte) *string {
	switch string(key) {
	case "id":
		return &d.ID
	case "name":
		return &d.Name
	case "displayName":
		return &d.DisplayName
	case "description":
		return &d.Description
	case "declarationKey":
		return &d.DeclarationKey
	case "agentId":
		return &d.AgentID
	case "sessionKey":
		return &d.SessionKey
	case "dst":
		return &d.DST
	case "disabledReason":
		return &d.DisabledReason
	}
	return nil
}

// DefaultAgentID is the agent of a job that names none.
const DefaultAgentID = "main"

// EffectiveAgentID is the agent a job counts under: its own, else the one in
// its session key ("agent:<id>:…"), else the default.
func (d *Definition) EffectiveAgentID() string { return effectiveAgent(d.AgentID, d.SessionKey) }

func effectiveAgent(agentID, sessionKey string) string {
	if agentID != "" {
		return agentID
	}
	if id := sessionAgent(sessionKey); id != "" {
		return id
	}
	return DefaultAgentID
}

func sessionAgent(sessionKey string) string {
	rest, ok := strings.CutPrefix(sessionKey, "agent:")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, ":")
	return id
}

// decodeDelivery reads a delivery object. One without a mode announces; none
// at all may hide in an agent payload, where old files kept it.
func decodeDelivery(path string, raw, payload json.RawMessage) (DeliverySpec, error) {
	spec := DeliverySpec{Mode: "none"}
	if raw == nil || isNull(raw) {
		return legacyDelivery(payload), nil
	}
	if !isObject(raw) {
		return spec, invalid(path, "must be object")
	}
	spec.Mode = "announce"
	for key, value := range rawjson.Fields(raw) {
		switch string(key) {
		case "mode":
			mode, ok := textOf(value)
			if !ok {
				return spec, invalid(path+"/mode", "must be string")
			}
			if spec.Mode = mode; mode == "deliver" {
				spec.Mode = "announce"
			}
		case "channel":
			spec.Channel, _ = textOf(value)
		case "to":
			spec.To, _ = textOf(value)
		case "bestEffort":
			spec.BestEffort, _ = boolOf(value)
		}
	}
	return spec, nil
}

func legacyDelivery(payload json.RawMessage) DeliverySpec {
	spec, deliver := DeliverySpec{Mode: "announce"}, false
	for key, value := range rawjson.Fields(payload) {
		switch string(key) {
		case "deliver":
			deliver, _ = boolOf(value)
		case "channel":
			spec.Channel, _ = textOf(value)
		case "to":
			spec.To, _ = textOf(value)
		case "bestEffortDeliver":
			spec.BestEffort, _ = boolOf(value)
		}
	}
	if !deliver {
		return DeliverySpec{Mode: "none"}
	}
	return spec
}
