package host

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

func workerPage(entry json.RawMessage, n int) worker.RunsPage {
	page := worker.RunsPage{Total: n, Known: true}
	for range n {
		page.Entries = append(page.Entries, entry)
	}
	return page
}

// One run is active, the only place is taken, three more wait: reads and
// edits are answered at once all the same.
func TestCase040ReadsDoNotWaitForRuns(t *testing.T) {
	r := newRig(t, func(c *worker.Config) { c.MaxConcurrent = 1 })
	var ids []string
	for i := range 4 {
		id := r.addJob(fmt.Sprintf("busy %d", i))
		ids = append(ids, id)
		r.ask("cron.run", `{"id":"`+id+`"}`)
	}
	if waiting, active := r.opts.Worker.Snapshot().Counts(); active != 1 || waiting != 3 {
		t.Fatalf("%d active and %d waiting, want 1 and 3", active, waiting)
	}
	var took []time.Duration
	for i := range 100 {
		for _, q := range [][2]string{
			{"cron.list", `{}`}, {"cron.status", `{}`}, {"cron.runs", `{}`}, {"cron.get", `{"id":"` + ids[0] + `"}`},
			{"cron.update", fmt.Sprintf(`{"id":"%s","patch":{"description":"look %d"}}`, ids[i%4], i)},
		} {
			start := time.Now()
			r.ask(q[0], q[1])
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	if p99 := took[len(took)*99/100]; p99 > 200*time.Millisecond {
		t.Errorf("p99 is %v", p99)
	}
	start := time.Now()
	r.ask("cron.remove", `{"id":"`+ids[3]+`"}`)
	r.ask("cron.update", `{"id":"`+ids[2]+`","patch":{"enabled":false}}`)
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("remove and disable took %v", d)
	}
}

// 250 jobs with one name and no order of their own, walked in pages of 50
// while some come and go: what was there all the time is seen once, and a
// reader is told that the list changed.
func TestCase041PagesShowEveryJobOnce(t *testing.T) {
	r := newRig(t, nil)
	var ids []string
	for range 250 {
		ids = append(ids, r.addJob("same"))
	}
	type page struct {
		Jobs             []struct{ ID string }
		SnapshotRevision string
		Total            int
		NextOffset       *int
	}
	ask := func(offset int) (p page) {
		t.Helper()
		payload, werr := r.Handle(t.Context(), "cron.list", json.RawMessage(fmt.Sprintf(`{"limit":50,"offset":%d,"includeDisabled":true}`, offset)))
		if werr != nil {
			t.Fatal(werr)
		}
		if err := json.Unmarshal(payload.(json.RawMessage), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	// Removing the last and adding as many between pages must be visible as
	// another revision.
	first := ask(0)
	for i := range 5 {
		r.ask("cron.remove", `{"id":"`+ids[249-i]+`"}`)
		r.addJob("same")
	}
	if second := ask(50); second.SnapshotRevision == first.SnapshotRevision {
		t.Error("the list changed and its revision did not")
	}
	// A walk over one revision shows each job once.
	seen := map[string]int{}
	var revision string
	for offset := 0; ; {
		p := ask(offset)
		if revision == "" {
			revision = p.SnapshotRevision
		}
		if p.SnapshotRevision != revision || p.Total != 250 {
			t.Fatalf("revision %s, total %d", p.SnapshotRevision, p.Total)
		}
		for _, j := range p.Jobs {
			seen[j.ID]++
		}
		if p.NextOffset == nil {
			break
		}
		offset = *p.NextOffset
	}
	for _, id := range ids[:245] {
		if seen[id] != 1 {
			t.Errorf("job %s was shown %d times", id, seen[id])
		}
	}
	if total := r.ask("cron.status", `{}`)["jobs"].(float64); int(total) != len(seen) {
		t.Errorf("status counts %v jobs, the walk saw %d", total, len(seen))
	}
	for _, limit := range []string{"0", "-1", "1000000000"} {
		r.refused("cron.list", `{"limit":`+limit+`}`)
	}
}

// Missing keeps, null clears to the default, and the other members of a nested
// object stay.
func TestCase043AFieldCanBeClearedAgain(t *testing.T) {
	r := newRig(t, nil)
	id := r.ask("cron.add", `{"name":"full","displayName":"Full","description":"text","agentId":"a1","schedule":{"kind":"cron","expr":"0 9 * * *","tz":"Europe/Oslo"},
		"payload":{"kind":"command","argv":["true"],"cwd":"/tmp","timeoutSeconds":7}}`)["id"].(string)
	update := func(patch string) map[string]any {
		t.Helper()
		r.ask("cron.update", `{"id":"`+id+`","patch":`+patch+`}`)
		return r.ask("cron.get", `{"id":"`+id+`"}`)
	}
	payload := func(j map[string]any) map[string]any { return j["payload"].(map[string]any) }

	j := update(`{"payload":{"kind":"command","noOutputTimeoutSeconds":3}}`)
	if p := payload(j); p["timeoutSeconds"] != 7.0 || p["cwd"] != "/tmp" || p["noOutputTimeoutSeconds"] != 3.0 {
		t.Errorf("one member given: %v", p)
	}
	j = update(`{"payload":{"kind":"command","timeoutSeconds":null}}`)
	if p := payload(j); p["timeoutSeconds"] != nil || p["cwd"] != "/tmp" {
		t.Errorf("cleared: %v", p)
	}
	j = update(`{"displayName":null,"agentId":null,"description":""}`)
	for _, key := range []string{"displayName", "agentId"} {
		if value, there := j[key]; there {
			t.Errorf("%s is still %v", key, value)
		}
	}
	if d, _ := j["description"].(string); d != "" {
		t.Errorf("description is still %q", d)
	}
	if j["name"] != "full" || j["schedule"].(map[string]any)["tz"] != "Europe/Oslo" {
		t.Errorf("what was not named changed: %v", j)
	}
	r.refused("cron.update", `{"id":"`+id+`","patch":{"name":""}}`)
	r.refused("cron.update", `{"id":"`+id+`","patch":{"name":null}}`)
}

// Left out means the default, and every default can be read back.
func TestCase114LeftOutIsNotOff(t *testing.T) {
	r := newRig(t, nil)
	added := r.ask("cron.add", `{"name":"bare","schedule":{"kind":"every","everyMs":3600000},"payload":{"kind":"command","argv":["true"]}}`)
	if added["enabled"] != true {
		t.Errorf("enabled is %v", added["enabled"])
	}
	if next, _ := added["nextRunAtMs"].(float64); int64(next) <= time.Now().UnixMilli() {
		t.Errorf("nextRunAtMs is %v", added["nextRunAtMs"])
	}
	got := r.ask("cron.get", `{"id":"`+added["id"].(string)+`"}`)
	for _, key := range []string{"enabled", "wakeMode", "sessionTarget", "schedule", "delivery", "payload", "nextRunAtMs"} {
		if fmt.Sprint(got[key]) != fmt.Sprint(added[key]) || got[key] == nil {
			t.Errorf("%s: added %v, got %v", key, added[key], got[key])
		}
	}
	if anchor := got["schedule"].(map[string]any)["anchorMs"]; anchor == nil {
		t.Error("the anchor that was filled in is not shown")
	}
}

// Status names the file that is open, whatever way led to it.
func TestCase115StatusNamesTheRealFile(t *testing.T) {
	r := newRig(t, nil)
	real, err := filepath.EvalSymlinks(r.db)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link.sqlite")
	if err := os.Symlink(r.db, link); err != nil {
		t.Fatal(err)
	}
	sock := r.sock + "2"
	h, err := New(Options{Worker: r.opts.Worker, SocketPath: sock, DBPath: link, InstanceID: "i", NewID: r.newID, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer h.listener.Close()
	payload, werr := h.Handle(t.Context(), "cron.status", nil)
	if werr != nil {
		t.Fatal(werr)
	}
	if got := asMap(t, payload); got["storePath"] != real || got["sqlitePath"] != real {
		t.Errorf("status names %v and %v, the file is %s", got["storePath"], got["sqlitePath"], real)
	}
}

// One rule for a time that has gone by, for add and edit.
func TestCase127OneShotInThePast(t *testing.T) {
	r := newRig(t, nil)
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
	add := func(text string) string {
		return `{"name":"once","schedule":{"kind":"at","at":"` + text + `"},"payload":{"kind":"command","argv":["true"]}}`
	}
	now := time.Now().UnixMilli()
	r.refused("cron.add", add(at(now-365*24*3600_000)))
	r.refused("cron.add", add(at(now+100*365*24*3600_000)))
	added := r.ask("cron.add", add(at(now+3600_000)))
	if got := added["schedule"].(map[string]any)["at"]; got != at(now+3600_000) {
		t.Errorf("the answer's instant is %v, want %s", got, at(now+3600_000))
	}
	r.refused("cron.update", `{"id":"`+added["id"].(string)+`","patch":{"schedule":{"kind":"at","at":"`+at(now-365*24*3600_000)+`"}}}`)
	soon := r.ask("cron.add", add(at(time.Now().UnixMilli()-1)))
	if soon["schedule"].(map[string]any)["at"] == nil {
		t.Errorf("a time that went by on its way here: %v", soon)
	}
}

// A name comes back as it was given, or is refused.
func TestCase128NamesWithOddCharacters(t *testing.T) {
	r := newRig(t, nil)
	odd := "Überprüfung 日本語 🚀 `x` $(x) <b> \" '"
	id := r.addJob(odd)
	if got := r.ask("cron.get", `{"id":"`+id+`"}`)["name"]; got != odd {
		t.Errorf("get: %q", got)
	}
	jobs := r.ask("cron.list", `{}`)["jobs"].([]any)
	if got := jobs[0].(map[string]any)["name"]; got != odd {
		t.Errorf("list: %q", got)
	}
	if why := r.ask("rota.why", fmt.Sprintf(`{"job":%q}`, odd)); why["job"] != id {
		t.Errorf("by name: %v", why["job"])
	}
	for _, name := range []string{"", "  ", "a\nb", "a\x00b", string(make([]byte, 10_000))} {
		params, err := json.Marshal(map[string]any{"id": id, "patch": map[string]any{"name": name}})
		if err != nil {
			t.Fatal(err)
		}
		r.refused("cron.update", string(params))
	}
	r.addJob("twin")
	r.addJob("twin")
	if werr := r.refused("rota.why", `{"job":"twin"}`); werr.Detail("reason") != "conflict" {
		t.Errorf("two jobs of one name: %v", werr)
	}
}
