package job

import (
	"encoding/json"
	"iter"
	"math"
	"strings"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// A Brief is what the order and the usual filter of cron.list need of one job.
// Whoever keeps jobs in memory has it at hand.
type Brief struct {
	ID, Name    string
	Enabled     bool
	NextRunAtMs int64 // 0 = none
	UpdatedAtMs int64
}

// summary is what the other filters need, read from a row.
type summary struct {
	Brief
	conditional  bool
	scheduleKind string
	lastStatus   string // empty = never ran
	agentID      string // effective
	sessionKey   string
	target       string
	search       string // what a query is looked up in
}

// BriefOf reads a row. ok is false when its definition is not a JSON object:
// such a row is set aside and listed nowhere.
func BriefOf(r Row) (b Brief, ok bool) {
	s, ok := summarise(r)
	return s.Brief, ok
}

func summarise(r Row) (s summary, ok bool) {
	if !json.Valid(r.Definition) || !isObject(r.Definition) {
		return s, false
	}
	s.ID, s.UpdatedAtMs, s.Enabled = r.ID, r.UpdatedAtMs, true
	var description, declaredAgent, displayName string
	for key, value := range rawjson.Fields(r.Definition) {
		switch string(key) {
		case "name":
			s.Name = textMember(value)
		case "description":
			description = textMember(value)
		case "displayName":
			displayName = textMember(value)
		case "agentId":
			declaredAgent = textMember(value)
		case "sessionKey":
			s.sessionKey = textMember(value)
		case "sessionTarget":
			s.target = textMember(value)
		case "enabled":
			if enabled, ok := boolOf(value); ok {
				s.Enabled = enabled
			}
		case "trigger":
			s.conditional = !isNull(value)
		case "schedule":
			if spec, err := decodeSchedule("", value); err == nil {
				s.scheduleKind = spec.Kind
			}
		}
	}
	legacyStatus := ""
	for key, value := range rawjson.Fields(r.State) {
		switch string(key) {
		case "nextRunAtMs":
			s.NextRunAtMs, _ = stateTime(value)
		case "lastRunStatus":
			s.lastStatus = textMember(value)
		case "lastStatus":
			legacyStatus = textMember(value)
		}
	}
	if s.lastStatus == "" {
		s.lastStatus = legacyStatus
	}
	s.agentID = effectiveAgent(declaredAgent, s.sessionKey)
	s.search = strings.Join([]string{r.ID, s.Name, description, declaredAgent, displayName}, " ")
	return s, true
}

// List answers cron.list. Filters run before sorting, sorting before paging. Of
// all jobs only briefs are looked at, and row is asked for the jobs of the page,
// unless a filter needs more. all is in id order.
func List(all iter.Seq[Brief], row func(id string) (Row, bool), p ListParams) (json.RawMessage, error) {
	limit, end := p.Limit, maxPage
	offset := max(p.Offset, 0)
	if limit > 0 {
		end = limit
	}
	found := newSelection(min(offset, math.MaxInt32)+end, &p)
	query := foldKey(strings.TrimSpace(p.Query))
	for b := range all {
		if p.wants(b.Enabled) && p.matchesMore(b.ID, row, query) {
			found.add(b)
		}
	}
	total := found.total
	if limit <= 0 {
		limit = min(total, maxPage)
		if limit == 0 {
			limit = emptyPage
		}
	}
	offset = min(offset, total)
	jobs, previews, rendered, err := renderPage(found.sorted()[offset:], row, &p)
	if err != nil {
		return nil, err
	}
	next, after := jsonNull, offset+rendered
	if after < total {
		next = intJSON(int64(after))
	}
	members := []rawjson.Member{
		{Key: "jobs", Value: jobs},
		{Key: "snapshotRevision", Value: quoteJSON(found.revision())},
		{Key: "total", Value: intJSON(int64(total))},
		{Key: "offset", Value: intJSON(int64(offset))},
		{Key: "limit", Value: intJSON(int64(limit))},
		{Key: "hasMore", Value: boolJSON(after < total)},
		{Key: "nextOffset", Value: next},
	}
	if p.DeliveryPreviews {
		members = append(members, rawjson.Member{Key: "deliveryPreviews", Value: previews})
	}
	return objectOf(members), nil
}

// pageBytes bounds a page of long definitions: whatever its limit, it ends with
// the job that goes beyond, and nextOffset goes on from there.
const pageBytes = 8 << 20

func renderPage(page []Brief, row func(id string) (Row, bool), p *ListParams) (jobs, previews json.RawMessage, rendered int, err error) {
	jobs = append(make([]byte, 0, min(len(page)<<10, pageBytes)), '[')
	labels := make([]rawjson.Member, 0, len(page))
	for i, b := range page {
		r, _ := row(b.ID)
		var shown json.RawMessage
		if p.Compact {
			shown, err = CompactView(r)
		} else {
			agent := effectiveAgent(textMember(rawjson.Get(r.Definition, "agentId")), textMember(rawjson.Get(r.Definition, "sessionKey")))
			shown, err = view(r, rawjson.Member{Key: "effectiveAgentId", Value: quoteJSON(agent)})
		}
		if err != nil {
			return nil, nil, 0, err
		}
		if i > 0 {
			jobs = append(jobs, ',')
		}
		jobs = append(jobs, shown...)
		if p.DeliveryPreviews {
			labels = append(labels, rawjson.Member{Key: b.ID, Value: DeliveryPreview(r.Definition)})
		}
		if rendered = i + 1; len(jobs) > pageBytes {
			break
		}
	}
	return append(jobs, ']'), objectOf(labels), rendered, nil
}

// wants reports whether the enabled filter lets a job through.
func (p *ListParams) wants(enabled bool) bool {
	switch p.Enabled {
	case "all":
		return true
	case "disabled":
		return !enabled
	}
	return enabled
}

// matchesMore applies the filters that read a job's row, where there are any.
func (p *ListParams) matchesMore(id string, row func(id string) (Row, bool), query string) bool {
	if query == "" && p.ScheduleKind == "" && p.Trigger == "" && p.LastRunStatus == "" && p.AgentID == "" && p.SessionAgentID == "" && p.SessionKey == "" {
		return true
	}
	r, _ := row(id)
	s, ok := summarise(r)
	switch {
	case !ok,
		p.ScheduleKind != "" && p.ScheduleKind != s.scheduleKind,
		p.Trigger == "conditional" && !s.conditional,
		p.Trigger == "unconditional" && s.conditional,
		p.LastRunStatus == "unknown" && s.lastStatus != "",
		p.LastRunStatus != "" && p.LastRunStatus != "unknown" && p.LastRunStatus != s.lastStatus,
		p.AgentID != "" && p.AgentID != s.agentID,
		p.SessionAgentID != "" && p.SessionAgentID != s.agentID,
		p.SessionKey != "" && p.SessionKey != s.sessionKey && s.target != "session:"+p.SessionKey:
		return false
	}
	return query == "" || strings.Contains(foldKey(s.search), query)
}
