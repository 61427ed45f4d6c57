package job

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestViewsAndRows(t *testing.T) { runDocument(t, "view.txt") }
func TestSet(t *testing.T)          { runDocument(t, "set.txt") }
func TestCheckKeys(t *testing.T)    { runDocument(t, "keys.txt") }
func TestList(t *testing.T)         { runDocument(t, "list.txt") }

// TestListPagesEndBeforeTheyAreTooLong: twenty jobs of a megabyte each come in
// several pages, each once, whatever the limit asks for.
func TestListPagesEndBeforeTheyAreTooLong(t *testing.T) {
	var rows []Row
	for i := range 20 {
		definition := fmt.Sprintf(`{"id":"j%02d","name":"j%02d","enabled":true,"schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["/bin/cat"],"input":%q}}`,
			i, i, strings.Repeat("x", 1<<20))
		rows = append(rows, Row{ID: fmt.Sprintf("j%02d", i), Definition: []byte(definition), State: []byte("{}")})
	}
	seen, pages := map[string]bool{}, 0
	for offset := 0; offset >= 0; pages++ {
		raw, err := listRows(rows, ListParams{Limit: 200, Offset: offset})
		if err != nil || len(raw) > 10<<20 {
			t.Fatalf("%d bytes, %v", len(raw), err)
		}
		var page struct {
			Jobs       []struct{ ID string }
			Total      int
			HasMore    bool
			NextOffset *int
		}
		if err := json.Unmarshal(raw, &page); err != nil || page.Total != len(rows) || page.HasMore != (page.NextOffset != nil) {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, j := range page.Jobs {
			if seen[j.ID] {
				t.Errorf("%s came twice", j.ID)
			}
			seen[j.ID] = true
		}
		if offset = -1; page.HasMore {
			offset = *page.NextOffset
		}
	}
	if len(seen) != len(rows) || pages < 2 {
		t.Errorf("%d of %d jobs in %d pages", len(seen), len(rows), pages)
	}
}

// A state that cannot be read is shown as an empty one: it hides neither its job
// nor those listed beside it.
func TestBrokenStateHidesNoJob(t *testing.T) {
	r := Row{ID: "j", Definition: []byte(`{"id":"j","name":"j","schedule":{"kind":"every","everyMs":60000}}`), State: []byte(`{"nextRunAtMs":`)}
	shown, err := listRows([]Row{r, {ID: "k", Definition: r.Definition, State: []byte(`{"nextRunAtMs":5}`)}}, ListParams{})
	if err != nil || !strings.Contains(string(shown), `"id":"j"`) || !strings.Contains(string(shown), `"state":{"nextRunAtMs":5}`) {
		t.Errorf("%s, %v", shown, err)
	}
}
