package job

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Page sizes of cron.list.
const (
	maxPage   = 200
	emptyPage = 50 // the limit that an empty result without one reports
)

// ListParams are the parameters of cron.list. The zero value with
// DeliveryPreviews asks for what an empty request asks for: enabled jobs, the
// next one to run first.
type ListParams struct {
	Enabled          string // "enabled" (or empty), "disabled", "all"
	Limit            int    // 0 = not given: everything, at most 200
	Offset           int
	Query            string // substring, case ignored
	ScheduleKind     string // empty = all
	LastRunStatus    string // empty = all; "unknown" = never ran
	Trigger          string // empty = all; "conditional", "unconditional"
	SortBy           string // empty = "nextRunAtMs"
	Descending       bool
	AgentID          string // effective agent
	SessionKey       string
	SessionAgentID   string
	Compact          bool
	DeliveryPreviews bool
}

const maxQueryRunes = 1000

var (
	listKeys = []string{"includeDisabled", "limit", "offset", "query", "enabled", "scheduleKind", "lastRunStatus", "trigger",
		"sortBy", "sortDir", "agentId", "sessionKey", "sessionAgentId", "compact", "includeDeliveryPreviews"}
	sortKeys = []string{"nextRunAtMs", "updatedAtMs", "name"}
)

// DecodeListParams checks the parameters of cron.list, which are closed.
func DecodeListParams(raw json.RawMessage) (ListParams, error) {
	p, err := decodeListParams(raw)
	return p, during("cron.list", err)
}

func decodeListParams(raw json.RawMessage) (ListParams, error) {
	p := ListParams{DeliveryPreviews: true, SortBy: "nextRunAtMs"}
	if len(bytes.TrimSpace(raw)) == 0 || isNull(raw) {
		return p, nil
	}
	if err := CheckKeys(raw); err != nil {
		return p, err
	}
	f, err := readFields("", raw, listKeys)
	if err != nil {
		return p, err
	}
	includeDisabled, previews, sortDir := false, true, ""
	steps := []error{
		f.flag("includeDisabled", &includeDisabled),
		f.whole("limit", 1, maxPage, &p.Limit),
		f.whole("offset", 0, 1<<53, &p.Offset),
		f.text("query", &p.Query),
		f.word("enabled", []string{"all", "enabled", "disabled"}, &p.Enabled),
		f.word("scheduleKind", append([]string{"all"}, scheduleKinds...), &p.ScheduleKind),
		f.word("lastRunStatus", []string{"all", "ok", "error", "skipped", "unknown"}, &p.LastRunStatus),
		f.word("trigger", []string{"all", "conditional", "unconditional"}, &p.Trigger),
		f.word("sortBy", sortKeys, &p.SortBy),
		f.word("sortDir", []string{"asc", "desc"}, &sortDir),
		f.text("agentId", &p.AgentID),
		f.text("sessionKey", &p.SessionKey),
		f.text("sessionAgentId", &p.SessionAgentID),
		f.flag("compact", &p.Compact),
		f.flag("includeDeliveryPreviews", &previews),
	}
	for _, err := range steps {
		if err != nil {
			return p, err
		}
	}
	if p.Enabled == "" && includeDisabled {
		p.Enabled = "all"
	}
	p.DeliveryPreviews = previews && !p.Compact
	p.Descending = sortDir == "desc"
	for _, filter := range []*string{&p.ScheduleKind, &p.LastRunStatus, &p.Trigger} {
		if *filter == "all" {
			*filter = ""
		}
	}
	return p, nil
}

func (f *fields) flag(key string, to *bool) error {
	raw, ok := f.find(key)
	if !ok {
		return nil
	}
	if _, err := checkBool(f.sub(key), raw); err != nil {
		return err
	}
	*to = string(raw) == "true"
	return nil
}

func (f *fields) whole(key string, least, most int64, to *int) error {
	raw, ok := f.find(key)
	if !ok {
		return nil
	}
	n, ok := numberOf(raw)
	switch {
	case !ok || raw[0] == '"':
		return invalid(f.sub(key), "must be integer")
	case n < float64(least):
		return invalidf(f.sub(key), "must be >= %d", least)
	case n > float64(most):
		return invalidf(f.sub(key), "must be <= %d", most)
	}
	whole, ok := wholeOf(raw)
	if !ok {
		return invalid(f.sub(key), "must be integer")
	}
	*to = int(whole)
	return nil
}

func (f *fields) text(key string, to *string) error {
	raw, ok := f.find(key)
	if !ok {
		return nil
	}
	text, ok := textOf(raw)
	if !ok {
		return invalid(f.sub(key), "must be string")
	}
	if len(text) > 4*maxQueryRunes {
		return invalidf(f.sub(key), "must NOT have more than %d characters", maxQueryRunes)
	}
	*to = strings.TrimSpace(text)
	return nil
}

func (f *fields) word(key string, list []string, to *string) error {
	raw, ok := f.find(key)
	if !ok {
		return nil
	}
	text, ok := textOf(raw)
	for _, w := range list {
		if ok && w == text {
			*to = w
			return nil
		}
	}
	return oneOf(f.sub(key), list)
}
