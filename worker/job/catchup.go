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
		return c, oneOf(path+"/policy", []string{"skip", "one", "all"})
	}
	return c, nil
}

// normalCatchUp checks a client's catchUp object, which is closed.
func normalCatchUp(path string, raw json.RawMessage) (json.RawMessage, error) {
	f, err := readFields(path, raw, []string{"policy", "limit", "maxLatenessMs"})
	if err != nil {
		return nil, err
	}
	if _, err := decodeCatchUp(path, raw); err != nil {
		return nil, err
	}
	return f.encode(), nil
}
