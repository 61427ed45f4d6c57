package job

import (
	"encoding/json"
	"slices"

	"github.com/rota-scheduler/rota/schedule"
)

// What bends a schedule besides its own fields: the daylight-saving rule and
// the pacing.

var dstRules = []string{"vixie", "skip"}

// ownDST gives a definition's own rule, else the configuration's.
func ownDST(raw json.RawMessage, configured schedule.DST) (schedule.DST, error) {
	text := textMember(raw)
	if !slices.Contains(dstRules, text) {
		return configured, nil
	}
	return schedule.ParseDST(text)
}

// normalPacing checks {min?, max?}: durations, at least one, min <= max.
func normalPacing(path string, raw json.RawMessage) (json.RawMessage, error) {
	f, err := readFields(path, raw, []string{"min", "max"})
	if err != nil {
		return nil, err
	}
	bounds := map[string]int64{"min": 0, "max": maxInstantMs}
	given := 0
	for _, m := range f.members {
		if isNull(m.Value) {
			continue
		}
		given++
		text, ok := textOf(m.Value)
		ms, err := schedule.ParseDuration(text)
		if !ok || err != nil || ms <= 0 {
			e := invalid(f.sub(m.Key), "must be a duration")
			e.Hint = `for example "15m"`
			return nil, e
		}
		bounds[m.Key] = ms
	}
	switch {
	case given == 0:
		return nil, invalid(path, "must have min or max")
	case bounds["min"] > bounds["max"]:
		return nil, invalid(path, "min must not be longer than max")
	}
	return f.encode(), nil
}
