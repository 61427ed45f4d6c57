package job

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/store/rawjson"
)

var alertKeys = []string{"after", "channel", "to", "cooldownMs", "includeSkipped", "mode", "accountId"}

// alert merges failureAlert: false turns alerts off for the job, null goes
// back to the configuration's, an object is merged field by field with null
// clearing a field.
func (p *patch) alert() error {
	raw, ok := p.find("failureAlert")
	switch {
	case !ok:
		return nil
	case isNull(raw):
		p.remove("failureAlert")
		return nil
	case string(raw) == "false":
		p.set("failureAlert", raw)
		return nil
	}
	path := p.sub("failureAlert")
	f, err := readFields(path, raw, alertKeys)
	if err != nil {
		return err
	}
	stored := p.settled("failureAlert")
	if !isObject(stored) {
		return unsupportedFeature(path, "a failure alert")
	}
	edits := make([]rawjson.Member, 0, len(f.members))
	for _, m := range f.members {
		if isNull(m.Value) {
			edits = append(edits, rawjson.Member{Key: m.Key})
			continue
		}
		checked, err := checkAlertField(f.sub(m.Key), m.Key, m.Value)
		if err != nil {
			return err
		}
		edits = append(edits, rawjson.Member{Key: m.Key, Value: checked})
	}
	merged, err := rawjson.Set(stored, changedOnly(stored, edits)...)
	p.set("failureAlert", merged)
	return err
}

func checkAlertField(path, key string, raw json.RawMessage) (json.RawMessage, error) {
	least := int64(1)
	switch key {
	case "includeSkipped":
		return checkBool(path, raw)
	case "mode":
		return normalWord(path, raw, deliveryModes[1:])
	case "cooldownMs":
		least = 0
	case "after":
	default:
		return normalText(path, raw, keyRule)
	}
	n, ok := wholeOf(raw)
	if !ok || n < least {
		return nil, invalidf(path, "must be a whole number >= %d", least)
	}
	return intJSON(n), nil
}

// stateKind is what a state key holds.
type stateKind uint8

const (
	stateWhole stateKind = iota // a whole number >= 0
	stateText
	stateBool
	stateAny
)

// writableState is the part of the state that cron.update may write. What the
// scheduler decides by (markers of open runs, activation, automatic disabling)
// and what a run leaves (diagnostics) is not in it.
var writableState = map[string]stateKind{
	"nextRunAtMs": stateWhole, "lastRunAtMs": stateWhole, "lastRunStatus": stateText, "lastStatus": stateText,
	"lastError": stateText, "lastErrorReason": stateText, "lastDurationMs": stateWhole,
	"consecutiveErrors": stateWhole, "consecutiveSkipped": stateWhole, "scheduleErrorCount": stateWhole,
	"lastDelivered": stateBool, "lastDeliveryStatus": stateText, "lastDeliveryError": stateText,
	"deliverySuppressionReason": stateText, "lastFailureNotificationDelivered": stateBool,
	"lastFailureNotificationDeliveryStatus": stateText, "lastFailureNotificationDeliveryError": stateText,
	"lastFailureAlertAtMs": stateWhole, "lastTriggerEvalAtMs": stateWhole, "triggerEvalCount": stateWhole,
	"lastTriggerFireAtMs": stateWhole, "triggerState": stateAny,
}

// state checks patch.state and passes it on; a null value clears.
func (p *patch) state() error {
	raw, ok := p.find("state")
	if !ok {
		return nil
	}
	path := p.sub("state")
	if !isObject(raw) {
		return invalid(path, "must be object")
	}
	for key, value := range rawjson.Members(raw) {
		kind, writable := writableState[key]
		if !writable {
			return unexpected(path, key)
		}
		if isNull(value) {
			continue
		}
		if reason := kind.refuses(value); reason != "" {
			return invalid(path+"/"+key, reason)
		}
	}
	if string(raw) != "{}" {
		p.change.StatePatch = raw
	}
	return nil
}

// refuses gives the reason why a value is not of the kind, or "".
func (k stateKind) refuses(value json.RawMessage) string {
	switch k {
	case stateWhole:
		if n, ok := wholeOf(value); !ok || n < 0 || value[0] == '"' {
			return "must be a whole number >= 0"
		}
	case stateText:
		if _, ok := textOf(value); !ok {
			return "must be string"
		}
	case stateBool:
		if s := string(value); s != "true" && s != "false" {
			return "must be boolean"
		}
	}
	return ""
}
