package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"unicode"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Summary is what filtering and sorting need of one job, read from its row
// once. Whoever keeps rows in memory may keep the summaries beside them: a
// page then renders what it shows and reads nothing else. It is immutable.
type Summary struct {
	row          Row
	enabled      bool
	conditional  bool
	nextRunAtMs  int64 // 0 = none
	scheduleKind string
	lastStatus   string // empty = never ran
	agentID      string // effective
	sessionKey   string
	target       string
	name         string
	search       string // what a query is looked up in
}

// Summarise reads a row. ok is false when its definition is not a JSON object:
// such a row is set aside and listed nowhere.
func Summarise(r Row) (s *Summary, ok bool) {
	if !json.Valid(r.Definition) || !isObject(r.Definition) {
		return nil, false
	}
	s = &Summary{row: r, enabled: true}
	var description, declaredAgent, displayName string
	for key, value := range rawjson.Members(r.Definition) {
		switch key {
		case "name":
			s.name = textMember(value)
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
				s.enabled = enabled
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
	for key, value := range rawjson.Members(r.State) {
		switch key {
		case "nextRunAtMs":
			s.nextRunAtMs, _ = stateTime(value)
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
	s.search = strings.Join([]string{r.ID, s.name, description, declaredAgent, displayName}, " ")
	return s, true
}

// List answers cron.list over all rows.
func List(rows []Row, p ListParams) (json.RawMessage, error) {
	return ListSummaries(func(yield func(*Summary) bool) {
		for _, r := range rows {
			if s, ok := Summarise(r); ok && !yield(s) {
				return
			}
		}
	}, p)
}

// ListSummaries is List for callers that keep summaries. Filters run before
// sorting, sorting before paging, and only the rows of the page are rendered.
func ListSummaries(all iter.Seq[*Summary], p ListParams) (json.RawMessage, error) {
	var found []*Summary
	query := foldKey(strings.TrimSpace(p.Query))
	for s := range all {
		if s.matches(&p, query) {
			found = append(found, s)
		}
	}
	sortSummaries(found, &p)
	limit := p.Limit
	if limit <= 0 {
		limit = min(len(found), maxPage)
		if limit == 0 {
			limit = emptyPage
		}
	}
	offset := min(max(p.Offset, 0), len(found))
	page := found[offset:min(offset+limit, len(found))]
	jobs, previews, rendered, err := renderPage(page, &p)
	if err != nil {
		return nil, err
	}
	end := offset + rendered
	next := jsonNull
	if end < len(found) {
		next = intJSON(int64(end))
	}
	members := []rawjson.Member{
		{Key: "jobs", Value: jobs},
		{Key: "snapshotRevision", Value: quoteJSON(snapshotRevision(found))},
		{Key: "total", Value: intJSON(int64(len(found)))},
		{Key: "offset", Value: intJSON(int64(offset))},
		{Key: "limit", Value: intJSON(int64(limit))},
		{Key: "hasMore", Value: boolJSON(end < len(found))},
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

func renderPage(page []*Summary, p *ListParams) (jobs, previews json.RawMessage, rendered int, err error) {
	jobs = append(jobs, '[')
	labels := make([]rawjson.Member, 0, len(page))
	for i, s := range page {
		var row json.RawMessage
		if p.Compact {
			row, err = CompactView(s.row)
		} else {
			row, err = view(s.row, rawjson.Member{Key: "effectiveAgentId", Value: quoteJSON(s.agentID)})
		}
		if err != nil {
			return nil, nil, 0, err
		}
		if i > 0 {
			jobs = append(jobs, ',')
		}
		jobs = append(jobs, row...)
		if p.DeliveryPreviews {
			labels = append(labels, rawjson.Member{Key: s.row.ID, Value: DeliveryPreview(s.row.Definition)})
		}
		if rendered = i + 1; len(jobs) > pageBytes {
			break
		}
	}
	return append(jobs, ']'), objectOf(labels), rendered, nil
}

func (s *Summary) matches(p *ListParams, query string) bool {
	switch p.Enabled {
	case "all":
	case "disabled":
		if s.enabled {
			return false
		}
	default:
		if !s.enabled {
			return false
		}
	}
	switch {
	case p.ScheduleKind != "" && p.ScheduleKind != s.scheduleKind,
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

// sortSummaries orders rows. Jobs without a next run come last in both
// directions; equal ones are in id order in both, so that pages never overlap.
func sortSummaries(found []*Summary, p *ListParams) {
	var names map[*Summary]string
	if p.SortBy == "name" {
		names = make(map[*Summary]string, len(found))
		for _, s := range found {
			names[s] = plainLetters(s.name)
		}
	}
	slices.SortFunc(found, func(a, b *Summary) int {
		order := 0
		switch p.SortBy {
		case "updatedAtMs":
			order = cmp.Compare(a.row.UpdatedAtMs, b.row.UpdatedAtMs)
		case "name":
			order = strings.Compare(names[a], names[b])
		default:
			if (a.nextRunAtMs == 0) != (b.nextRunAtMs == 0) {
				return cmp.Compare(b.nextRunAtMs, a.nextRunAtMs) // the one without is 0
			}
			order = cmp.Compare(a.nextRunAtMs, b.nextRunAtMs)
		}
		if p.Descending {
			order = -order
		}
		if order == 0 {
			order = strings.Compare(a.row.ID, b.row.ID)
		}
		return order
	})
}

// snapshotRevision tells a client that pages belong together: it covers which
// jobs the whole result has, in which order, and when each was last written.
// Their text is not hashed again: every write moves the time of writing.
func snapshotRevision(found []*Summary) string {
	h := sha256.New()
	var b []byte
	for _, s := range found {
		b = append(b[:0], s.row.ID...)
		b = append(b, 0)
		b = binary.BigEndian.AppendUint64(b, uint64(s.row.UpdatedAtMs))
		b = binary.BigEndian.AppendUint64(b, uint64(s.nextRunAtMs))
		h.Write(b)
	}
	return "sha256:" + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// accented and plain pair letters with the one they are sorted under. Marks
// that stand as characters of their own are dropped instead. Other scripts are
// sorted by code point: that is not their readers' order, and it is stable.
const (
	accented = "àáâãäåāăąçćĉċčďđèéêëēĕėęěĝğġģĥħìíîïĩīĭįıĵķĺļľŀłñńņňòóôõöøōŏőŕŗřśŝşšţťŧùúûüũūŭůűųŵýÿŷźżž"
	plain    = "aaaaaaaaacccccddeeeeeeeeegggghhiiiiiiiiijklllllnnnnooooooooorrrsssstttuuuuuuuuuuwyyyzzz"
)

var plainOf = func() map[rune]rune {
	letters := make(map[rune]rune, len(plain))
	i := 0
	for _, r := range accented {
		letters[r] = rune(plain[i])
		i++
	}
	return letters
}()

// plainLetters folds case and accents away.
func plainLetters(name string) string {
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if base, ok := plainOf[r]; ok {
			return base
		}
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, name)
}
