package job

import (
	"encoding/json"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

// decodeCatchUp reads rota's own catchUp object:
// {policy?: skip|one|all, limit?, maxLatenessMs?}. Keys of a later build are
// passed over.
func decodeCatchUp(path string, raw json.RawMessage) (schedule.CatchUp, error) {
	var c schedule.CatchUp
	if !isObject(raw) {
		return c, invalid(path, "must be object")
	}
	policy := ""
	for key, value := range rawjson.Members(raw) {
		ok := true
		switch key {
		case "policy":
			if policy, ok = textOf(value); !ok {
				return c, invalid(path+"/policy", "must be string")
			}
		case "limit":
			n, whole := wholeOf(value)
			if !whole || n < 1 || n > schedule.MaxCatchUpLimit {
				return c, invalidf(path+"/limit", "must be a whole number from 1 to %d", schedule.MaxCatchUpLimit)
			}
			c.Limit = int(n)
		case "maxLatenessMs":
			if c.MaxLatenessMs, ok = wholeOf(value); !ok || c.MaxLatenessMs < 0 {
				return c, invalid(path+"/maxLatenessMs", "must be >= 0")
			}
		}
	}
	var err error
	if c.Policy, err = schedule.ParseCatchUpPolicy(policy); err != nil {
		return c, oneOf(path+"/policy", catchUpPolicies)
	}
	return c, nil
}

// catchUpKeys are the members of a catchUp object, which is closed for clients.
var (
	catchUpKeys     = []string{"policy", "limit", "maxLatenessMs"}
	catchUpPolicies = []string{"skip", "one", "all"}
)

// normalCatchUp checks a whole catchUp object and brings it to its stored form.
func normalCatchUp(path string, raw json.RawMessage) (json.RawMessage, error) {
	return patchCatchUp(path, nil, raw)
}

// patchCatchUp merges field by field into the stored object, on its bytes; null
// clears a field. stored is nil for a job without one.
func patchCatchUp(path string, stored, raw json.RawMessage) (json.RawMessage, error) {
	f, err := readFields(path, raw, catchUpKeys)
	if err != nil {
		return nil, err
	}
	if !isObject(stored) {
		stored = json.RawMessage("{}")
	}
	edits := make([]rawjson.Member, 0, len(f.members))
	for _, m := range f.members {
		edit := rawjson.Member{Key: m.Key}
		switch n, whole := wholeOf(m.Value); {
		case isNull(m.Value):
		case m.Key == "policy":
			if edit.Value, err = normalWord(f.sub(m.Key), m.Value, catchUpPolicies); err != nil {
				return nil, err
			}
		case whole:
			edit.Value = intJSON(n)
		default: // refused below, with its bounds
			edit.Value = m.Value
		}
		edits = append(edits, edit)
	}
	merged, err := rawjson.Set(stored, changedOnly(stored, edits)...)
	if err != nil {
		return nil, err
	}
	_, err = decodeCatchUp(path, merged)
	return merged, err
}
