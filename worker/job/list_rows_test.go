package job

import (
	"encoding/json"
	"slices"
	"strings"
)

// listRows is cron.list over rows, as whoever keeps them would ask it.
func listRows(rows []Row, p ListParams) (json.RawMessage, error) {
	var all []Brief
	byID := make(map[string]Row, len(rows))
	for _, r := range rows {
		if b, ok := BriefOf(r); ok {
			all = append(all, b)
		}
		byID[r.ID] = r
	}
	slices.SortFunc(all, func(a, b Brief) int { return strings.Compare(a.ID, b.ID) })
	find := func(id string) (Row, bool) {
		r, ok := byID[id]
		return r, ok
	}
	page := Select(slices.Values(all), find, p)
	return page.Render(find, nil)
}
