package job

import (
	"encoding/json"
	"iter"
	"math"
	"strconv"
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
	conditional bool
	schedule    json.RawMessage
	lastStatus  string // empty = never ran
	agentID     string // effective
	sessionKey  string
	target      string
	search      string // what a query is looked up in
}

// BriefOf reads a row. ok is false when its definition is not a JSON object:
// such a row is set aside and listed nowhere.
func BriefOf(r Row) (b Brief, ok bool) {
	s, ok := summarise(r)
	return s.Brief, ok
}

func summarise(r Row) (s summary, ok bool) {
	if !r.Sound && !rawjson.Valid(r.Definition) || !isObject(r.Definition) {
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
			s.schedule = value
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

// scheduleKind is empty for a schedule that cannot be read.
func (s *summary) scheduleKind() string {
	spec, err := decodeSchedule("", s.schedule)
	if err != nil {
		return ""
	}
	return spec.Kind
}

// Page is which jobs a cron.list shows, and of how many.
type Page struct {
	p                    ListParams
	ids                  []string // in order
	revision             string
	total, offset, limit int
}

// newPage counts a page out; its jobs are filled in.
func newPage(p ListParams, total int, of sum) Page {
	page := Page{p: p, total: total, offset: min(max(p.Offset, 0), total), limit: p.Limit, revision: of.revision()}
	if page.limit <= 0 {
		page.limit = min(total, maxPage)
		if page.limit == 0 {
			page.limit = emptyPage
		}
	}
	return page
}

// Select finds the jobs that cron.list shows. Filters run before sorting, sorting
// before paging. Of all jobs only briefs are looked at, unless a filter needs
// more, which row is asked for. all is in id order.
func Select(all iter.Seq[Brief], row func(id string) (Row, bool), p ListParams) Page {
	end := maxPage
	if p.Limit > 0 {
		end = p.Limit
	}
	found := newSelection(min(max(p.Offset, 0), math.MaxInt32)+end, &p)
	query := foldKey(strings.TrimSpace(p.Query))
	for b := range all {
		if p.wants(b.Enabled) && p.matchesMore(b.ID, row, query) {
			found.add(b)
		}
	}
	page := newPage(p, found.total, found.sum)
	page.ids = found.sorted()[page.offset:]
	return page
}

// pageBytes bounds a page of long definitions: whatever its limit, it ends with
// the job that goes beyond, and nextOffset goes on from there.
const pageBytes = 8 << 20

// Render writes the answer of cron.list. row is asked for the jobs of the page;
// sheets may be nil.
func (page *Page) Render(row func(id string) (Row, bool), sheets *Sheets) (json.RawMessage, error) {
	b := append(make([]byte, 0, min(len(page.ids)*1280+512, pageBytes)), `{"jobs":[`...)
	var previews []byte
	rendered := 0
	for i, id := range page.ids {
		if i > 0 {
			b = append(b, ',')
		}
		r, _ := row(id)
		var err error
		if b, previews, err = page.appendJob(b, previews, r, sheets); err != nil {
			return nil, err
		}
		if rendered = i + 1; len(b) > pageBytes {
			break
		}
	}
	after := page.offset + rendered
	b = append(b, `],"snapshotRevision":`...)
	b = rawjson.AppendString(b, page.revision)
	for _, m := range []struct {
		key   string
		value int
	}{{"total", page.total}, {"offset", page.offset}, {"limit", page.limit}} {
		b = append(append(append(b, `,"`...), m.key...), `":`...)
		b = strconv.AppendInt(b, int64(m.value), 10)
	}
	if after < page.total {
		b = append(b, `,"hasMore":true,"nextOffset":`...)
		b = strconv.AppendInt(b, int64(after), 10)
	} else {
		b = append(b, `,"hasMore":false,"nextOffset":null`...)
	}
	if page.p.DeliveryPreviews {
		b = append(append(append(b, `,"deliveryPreviews":{`...), previews...), '}')
	}
	return append(b, '}'), nil
}

// appendJob writes one job of the page, and its delivery preview where they are
// asked for.
func (page *Page) appendJob(b, previews []byte, r Row, sheets *Sheets) (job, preview []byte, err error) {
	var shown json.RawMessage
	switch {
	case page.p.Compact:
		shown, err = CompactView(r)
		return append(b, shown...), previews, err
	case page.p.DeliveryPreviews && len(previews) > 0:
		previews = append(previews, ',')
	}
	if s := sheets.of(r); s != nil {
		b = s.appendJob(b, r)
		if page.p.DeliveryPreviews {
			previews = append(previews, s.preview...)
		}
		return b, previews, nil
	}
	if shown, err = listed(r); err != nil {
		return b, previews, err
	}
	if page.p.DeliveryPreviews {
		previews = append(previews, previewMember(r)...)
	}
	return append(b, shown...), previews, nil
}

// listed is the view of a job in a list.
func listed(r Row) (json.RawMessage, error) {
	agent := effectiveAgent(textMember(rawjson.Get(r.Definition, "agentId")), textMember(rawjson.Get(r.Definition, "sessionKey")))
	return view(r, rawjson.Member{Key: "effectiveAgentId", Value: quoteJSON(agent)})
}

func previewMember(r Row) []byte {
	return append(append(quoteJSON(r.ID), ':'), DeliveryPreview(r.Definition)...)
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

// readsRows reports whether there are filters that read a job's row.
func (p *ListParams) readsRows() bool {
	return strings.TrimSpace(p.Query) != "" || p.ScheduleKind != "" || p.Trigger != "" || p.LastRunStatus != "" ||
		p.AgentID != "" || p.SessionAgentID != "" || p.SessionKey != ""
}

// matchesMore applies the filters that read a job's row, where there are any.
func (p *ListParams) matchesMore(id string, row func(id string) (Row, bool), query string) bool {
	if !p.readsRows() {
		return true
	}
	r, _ := row(id)
	s, ok := summarise(r)
	switch {
	case !ok,
		p.ScheduleKind != "" && p.ScheduleKind != s.scheduleKind(),
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
