package store

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// HistoryFilter selects history rows. What it asks of a row's detail no index
// covers: rows are examined one by one.
type HistoryFilter struct {
	JobID            string
	RunID            string // the public id
	AgentID          string
	Statuses         []string
	DeliveryStatuses []string
	Query            string // a part of the row's texts, whatever its case
	// Named says of a job whether its name matches Query: its rows match too.
	Named func(jobID string) bool
}

// matcher tests rows against a filter. Most rows of a search are none of it, so
// cheap tests of the bytes come before the detail is taken apart.
type matcher struct {
	HistoryFilter
	storeKey string
	everyRow bool // nothing needs to be tested
	query    string
	// words are the runs of letters and digits of the query. Every way to write a
	// text as JSON leaves these as they are, except for \u.
	words     []string
	exact     [][]byte // one of these is in a row that matches: its run, or a status
	lowercase []byte   // reused from row to row
}

func newMatcher(t *Tx, f HistoryFilter) matcher {
	m := matcher{HistoryFilter: f, storeKey: t.StoreKey(), query: strings.ToLower(f.Query)}
	m.everyRow = t.s.Made() && f.RunID == "" && f.AgentID == "" && f.Query == "" &&
		len(f.Statuses) == 0 && len(f.DeliveryStatuses) == 0
	m.words = strings.FieldsFunc(m.query, func(r rune) bool { return !isPlain(r) })
	one := f.Statuses
	if f.RunID != "" {
		one = []string{f.RunID}
	}
	if !strings.ContainsFunc(strings.Join(one, ""), func(r rune) bool { return !isPlain(r) && !strings.ContainsRune("-_.:", r) }) {
		for _, text := range one {
			m.exact = append(m.exact, []byte(`"`+text+`"`))
		}
	}
	return m
}

func isPlain(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

// row reports whether one row matches. The agent is a column and left to the
// query.
func (m *matcher) row(jobID string, detail []byte) bool {
	if m.everyRow {
		return true
	}
	if jobID == "" {
		return false
	}
	if len(m.exact) > 0 && !slices.ContainsFunc(m.exact, func(text []byte) bool { return bytes.Contains(detail, text) }) &&
		!bytes.Contains(detail, []byte(`\u`)) {
		return false
	}
	named := m.query != "" && m.Named != nil && m.Named(jobID)
	if m.query != "" && !named && !m.mayHold(jobID, detail) {
		return false
	}
	d := detailOf(detail)
	if d.kind != "cron-run" || d.storeKey != m.storeKey {
		return false
	}
	return (m.RunID == "" || d.runID == m.RunID) &&
		(len(m.Statuses) == 0 || slices.Contains(m.Statuses, d.status)) &&
		(len(m.DeliveryStatuses) == 0 || slices.Contains(m.DeliveryStatuses, d.deliveryStatus)) &&
		(m.query == "" || named || strings.Contains(strings.ToLower(d.text()+jobID), m.query))
}

// mayHold is false for rows that certainly do not hold the query.
func (m *matcher) mayHold(jobID string, detail []byte) bool {
	if len(m.words) == 0 || bytes.Contains(detail, []byte(`\u`)) {
		return true
	}
	m.lowercase = append(m.lowercase[:0], detail...)
	other := byte(0)
	for i, c := range m.lowercase {
		if 'A' <= c && c <= 'Z' {
			m.lowercase[i] = c + ('a' - 'A')
		}
		other |= c
	}
	if other >= utf8.RuneSelf { // there are letters beyond ASCII whose lower case is in it
		return true
	}
	for _, word := range m.words {
		if !bytes.Contains(m.lowercase, []byte(word)) && !strings.Contains(strings.ToLower(jobID), word) {
			return false
		}
	}
	return true
}

// historyDetail is the part of a row's detail that filters ask about.
type historyDetail struct {
	kind, storeKey, runID, status, deliveryStatus string
	summary, error, errorReason, diagnostics      json.RawMessage
}

func detailOf(detail []byte) historyDetail {
	d := historyDetail{deliveryStatus: "not-requested"}
	for key, value := range rawjson.Members(detail) {
		switch key {
		case "kind":
			d.kind = textOf(value)
		case "storeKey":
			d.storeKey = textOf(value)
		case "runId":
			d.runID = textOf(value)
		case "status":
			d.status = textOf(value)
		case "deliveryStatus":
			if string(value) != "null" {
				d.deliveryStatus = textOf(value)
			}
		case "summary":
			d.summary = value
		case "error":
			d.error = value
		case "errorReason":
			d.errorReason = value
		case "diagnostics":
			d.diagnostics = value
		}
	}
	return d
}

// text is what a query is looked for in, each part followed by a space.
func (d *historyDetail) text() string {
	var b strings.Builder
	for _, part := range []json.RawMessage{d.summary, d.error, d.errorReason, d.diagnostics} {
		b.WriteString(textOf(part))
		b.WriteByte(' ')
	}
	return b.String()
}

// textOf is a JSON value as text: a string without its quotes, nothing for null,
// anything else as it stands.
func textOf(value json.RawMessage) string {
	switch {
	case len(value) == 0 || string(value) == "null":
		return ""
	case value[0] != '"':
		return string(value)
	case bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value) && len(value) >= 2:
		return string(value[1 : len(value)-1])
	}
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}
