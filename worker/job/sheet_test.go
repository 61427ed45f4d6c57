package job

import (
	"fmt"
	"strings"
	"testing"
)

// shownDefinitions are rows as they may lie in a file, the last of them odd.
var shownDefinitions = []string{
	`{"id":"x","name":"a","enabled":true,"schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["a"]},"delivery":{"mode":"none"},"state":{}}`,
	`{"name":"no id, no state","agentId":"ops","schedule":{"kind":"cron","expr":"0 9 * * *"},"payload":{"kind":"command","argv":["a"]},"delivery":{"mode":"webhook","to":"https://e.example/x"}}`,
	`{"id":"x","updatedAtMs":5,"state":{"nextRunAtMs":7},"name":"time first","sessionKey":"agent:ops:main","schedule":{"kind":"every","everyMs":60000},"payload":{}}`,
	`{"id":"x","state":{},"name":"state first","updatedAtMs":5,"schedule":{"kind":"every","everyMs":60000},"payload":{}}`,
	`{"id":"x","name":"old spelling","schedule":{"cron":"0 9 * * *"},"payload":{"kind":"agentTurn","deliver":true,"to":"x"},"createdActor":{"secret":1},"unknown":[1, 2]}`,
	`{"id":"x","name":"marks","skillLibrarySelections":[1],"toolsAllowProvenance":{},"runtimeAuthority":"private","schedule":{"kind":"at","at":"2027-01-01T00:00:00Z"}}`,
	`{"id":"x","name":"twice","state":{},"name":"again","state":{"a":1},"schedule":{"kind":"every","everyMs":60000}}`,
	`{"id":"x","name":"key with an escape","st\u0061te":{"a":1},"schedule":{"kind":"every","everyMs":60000}}`,
	`{"id":"x","name":"space at the end","schedule":{"kind":"every","everyMs":60000} }`,
	`{"id":"x", "name":"spaces", "state": {}, "schedule":{"kind":"every","everyMs":60000}}`,
	"{\n  \"id\": \"x\",\n  \"name\": \"in lines\",\n  \"state\": {},\n  \"schedule\": {\"kind\": \"every\", \"everyMs\": 60000}\n}\n",
	`{"id":"x","name":"names of a view","nextRunAtMs":3,"lastRunError":"mine","schedule":{"kind":"every","everyMs":60000},"state":{}}`,
	`{"id":"x","configRevision":"mine","name":"a revision","schedule":{"kind":"every","everyMs":60000},"state":{}}`,
	`{"effectiveAgentId":"mine","id":"x","name":"an agent","schedule":{"kind":"every","everyMs":60000},"state":{}}`,
	`{}`,
}

var shownStates = []string{
	`{}`, ``, `null`, `{"nextRunAtMs":1,"rotaConsumedMs":9}`,
	`{"queuedAtMs":4,"nextRunAtMs":1,"lastRunAtMs":null,"lastStatus":"ok","lastError":"a \"b\"","runningReceiptId":"r","lastDelivered":false}`,
	`{"lastRunStatus":"error","lastStatus":"ok","lastRunStatus":"skipped", "startupCatchupAtMs" : 1 }`,
	"{\n  \"nextRunAtMs\": 1,\n  \"rotaConsumedMs\": 2\n}",
}

// A list shows the same whether its sheets are there already, are made, or are
// not used.
func TestSheetsShowWhatTheViewShows(t *testing.T) {
	var sheets Sheets
	for i, definition := range shownDefinitions {
		definition := []byte(definition) // one text in one place, whatever its state
		for k, state := range shownStates {
			r := Row{ID: fmt.Sprintf("job-%d", i), Definition: definition, State: []byte(state), UpdatedAtMs: int64(100 + k), Sound: true}
			find := func(string) (Row, bool) { return r, true }
			page := Page{p: ListParams{DeliveryPreviews: true}, ids: []string{r.ID, r.ID}, total: 2, limit: 2}
			want, err := page.Render(find, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := page.Render(find, &sheets)
			if err != nil || string(got) != string(want) {
				t.Errorf("%s\nwith %s: %v\n got %s\nwant %s", definition, state, err, got, want)
			}
		}
	}
	usable := 0
	for _, s := range sheets.young {
		if s.text != nil {
			usable++
		}
	}
	if usable < len(shownDefinitions)/2 {
		t.Errorf("%d sheets of %d definitions can be used", usable, len(shownDefinitions))
	}
}

// A definition that was edited, which gives it a place of its own, is shown anew.
func TestSheetsAreOfADefinition(t *testing.T) {
	var sheets Sheets
	show := func(name string) string {
		r := Row{ID: "x", Definition: []byte(`{"id":"x","name":"` + name + `","schedule":{"kind":"every","everyMs":60000}}`), State: []byte(`{}`), Sound: true}
		page := Page{ids: []string{"x"}, total: 1, limit: 1}
		text, err := page.Render(func(string) (Row, bool) { return r, true }, &sheets)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if a, b := show("before"), show("after"); !strings.Contains(a, "before") || !strings.Contains(b, "after") {
		t.Errorf("%s\n%s", a, b)
	}
}

// What is kept stays below a bound, whatever is shown.
func TestSheetsAreBounded(t *testing.T) {
	var sheets Sheets
	long := strings.Repeat("y", longestShown/2)
	for i := range 4 * youngBytes / longestShown {
		r := Row{ID: "x", Definition: fmt.Appendf(nil, `{"id":"x","name":"%d %s","schedule":{"kind":"every","everyMs":60000}}`, i, long), State: []byte(`{}`), Sound: true}
		if sheets.of(r) == nil {
			t.Fatal("no sheet")
		}
		if held := len(sheets.young) + len(sheets.old); held*longestShown/2 > 3*youngBytes {
			t.Fatalf("%d sheets are kept", held)
		}
	}
	if sheets.of(Row{ID: "x", Definition: fmt.Appendf(nil, `{"name":"%s"}`, strings.Repeat("z", longestShown)), Sound: true}) != nil {
		t.Error("a long definition is kept")
	}
	if sheets.Forget(); len(sheets.young)+len(sheets.old) > 0 {
		t.Error("something is kept after all")
	}
}
