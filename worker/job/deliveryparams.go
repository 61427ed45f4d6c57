package job

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/store/rawjson"
)

var (
	deliveryModes = []string{"none", "announce", "webhook"}
	deliveryKeys  = []string{"mode", "channel", "to", "threadId", "accountId", "bestEffort", "completionDestination", "failureDestination"}
)

// availableModes lists the delivery modes that this build carries out.
func availableModes(env Env) []string {
	if env.Announce {
		return []string{"none", "announce", "webhook"}
	}
	return []string{"none", "webhook"}
}

// deliveryMode reads the mode of a delivery object; "deliver" is an old word
// for announce. ok is false when the object has none.
func deliveryMode(f *fields) (mode string, ok bool, err error) {
	raw, ok := f.get("mode")
	if !ok {
		return "announce", false, nil
	}
	mode, known := word(raw, append([]string{"deliver"}, deliveryModes...))
	if !known {
		return "", true, oneOf(f.sub("mode"), deliveryModes)
	}
	if mode == "deliver" {
		mode = "announce"
	}
	return mode, true, nil
}

// normalDelivery checks a whole delivery and brings it to its stored form.
func normalDelivery(path string, raw json.RawMessage, env Env) (json.RawMessage, error) {
	f, err := readFields(path, raw, deliveryKeys)
	if err != nil {
		return nil, err
	}
	mode, _, err := deliveryMode(&f)
	if err != nil {
		return nil, err
	}
	if !available(mode, availableModes(env)) {
		return nil, unsupported(f.sub("mode"), "delivery mode", mode, availableModes(env))
	}
	members := []rawjson.Member{{Key: "mode", Value: quoteJSON(mode)}}
	for _, key := range deliveryKeys[1:] {
		value, ok := f.get(key)
		if !ok {
			continue
		}
		checked, err := checkDeliveryField(f.sub(key), key, value)
		if err != nil {
			return nil, err
		}
		members = append(members, rawjson.Member{Key: key, Value: checked})
	}
	stored := objectOf(members)
	return stored, checkWebhookTarget(path, stored)
}

// patchDelivery merges a partial delivery into the stored one, on its bytes.
// stored is nil for a job without delivery.
func patchDelivery(path string, stored, raw json.RawMessage, env Env) (json.RawMessage, error) {
	f, err := readFields(path, raw, deliveryKeys)
	if err != nil {
		return nil, err
	}
	oldMode := "none"
	fresh := stored == nil
	if fresh {
		stored = json.RawMessage("{}")
	} else if spec, err := decodeDelivery(path, stored, nil); err == nil {
		oldMode = spec.Mode
	}
	mode, given, err := deliveryMode(&f)
	if err != nil {
		return nil, err
	}
	if !given {
		mode = oldMode
	}
	if mode != oldMode && !available(mode, availableModes(env)) {
		return nil, unsupported(f.sub("mode"), "delivery mode", mode, availableModes(env))
	}
	edits := modeChange(oldMode, mode)
	if given || fresh {
		edits = append(edits, rawjson.Member{Key: "mode", Value: quoteJSON(mode)})
	}
	for _, key := range deliveryKeys[1:] {
		value, ok := f.find(key)
		if !ok {
			continue
		}
		edit, err := deliveryEdit(f.sub(key), key, value, rawjson.Get(stored, key))
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit)
	}
	merged, err := rawjson.Set(stored, changedOnly(stored, lastOfEach(edits))...)
	if err != nil {
		return nil, err
	}
	return merged, checkWebhookTarget(path, merged)
}

// modeChange lists what a change of mode makes meaningless.
func modeChange(from, to string) []rawjson.Member {
	if from == to {
		return nil
	}
	var gone []rawjson.Member
	if from == "webhook" || to == "webhook" {
		gone = append(gone, rawjson.Member{Key: "to"})
	}
	if to == "webhook" {
		gone = append(gone, rawjson.Member{Key: "channel"}, rawjson.Member{Key: "threadId"}, rawjson.Member{Key: "accountId"})
	}
	if to != "announce" {
		gone = append(gone, rawjson.Member{Key: "completionDestination"})
	}
	return gone
}

// deliveryEdit turns one patched field into an edit of the stored delivery.
func deliveryEdit(path, key string, value, old json.RawMessage) (rawjson.Member, error) {
	if isNull(value) {
		if key == "mode" || key == "bestEffort" {
			return rawjson.Member{}, invalid(path, "must be boolean")
		}
		return rawjson.Member{Key: key}, nil
	}
	if key == "failureDestination" && isObject(old) {
		merged, err := patchFailureDestination(path, old, value)
		return rawjson.Member{Key: key, Value: merged}, err
	}
	checked, err := checkDeliveryField(path, key, value)
	return rawjson.Member{Key: key, Value: checked}, err
}

// patchFailureDestination merges field-wise. A null field is stored as null:
// there it means "cleared", which is not the same as "inherited".
func patchFailureDestination(path string, old, raw json.RawMessage) (json.RawMessage, error) {
	f, err := readFields(path, raw, failureDestinationKeys)
	if err != nil {
		return nil, err
	}
	if _, err := checkDeliveryField(path, "failureDestination", raw); err != nil {
		return nil, err
	}
	return rawjson.Set(old, changedOnly(old, f.members)...)
}

var failureDestinationKeys = []string{"channel", "to", "accountId", "mode"}

func checkDeliveryField(path, key string, raw json.RawMessage) (json.RawMessage, error) {
	switch key {
	case "bestEffort":
		return checkBool(path, raw)
	case "threadId":
		if _, ok := numberOf(raw); ok && raw[0] != '"' {
			return raw, nil
		}
		return normalText(path, raw, keyRule)
	case "completionDestination":
		return checkDestination(path, raw, []string{"mode", "to"})
	case "failureDestination":
		return checkDestination(path, raw, failureDestinationKeys)
	}
	return normalText(path, raw, keyRule)
}

// checkDestination checks where a completion or failure notice goes.
func checkDestination(path string, raw json.RawMessage, keys []string) (json.RawMessage, error) {
	f, err := readFields(path, raw, keys)
	if err != nil {
		return nil, err
	}
	for _, m := range f.members {
		if isNull(m.Value) {
			continue
		}
		if m.Key == "mode" {
			_, err = normalWord(f.sub("mode"), m.Value, deliveryModes[1:])
		} else {
			_, err = normalText(f.sub(m.Key), m.Value, keyRule)
		}
		if err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// checkWebhookTarget refuses a webhook without a usable address.
func checkWebhookTarget(path string, delivery json.RawMessage) error {
	spec, err := decodeDelivery(path, delivery, nil)
	if err != nil || spec.Mode != "webhook" {
		return err
	}
	return checkURL(path+"/to", spec.To, "put the token into the configuration (webhookToken)")
}

// mainDelivery decides whether a job on the main session keeps its delivery:
// only a webhook, or a failure destination alone.
func mainDelivery(delivery json.RawMessage) bool {
	spec, err := decodeDelivery("", delivery, nil)
	if err != nil || spec.Mode == "webhook" {
		return err == nil
	}
	alone := true
	for key := range rawjson.Members(delivery) {
		alone = alone && (key == "failureDestination" || key == "mode")
	}
	mode := rawjson.Get(delivery, "mode")
	return alone && rawjson.Get(delivery, "failureDestination") != nil && (mode == nil || spec.Mode == "none")
}
