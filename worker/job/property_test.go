package job

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/schedule"
	"github.com/rota-scheduler/rota/store/rawjson"
)

var seedFlag = flag.Uint64("seed", 0, "replay the property tests with this seed (0 = a new one)")

// newRand prints the seed that replays the test.
func newRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("replay with -seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// sample is a valid cron.add with what a reader of its definition must find.
type sample struct {
	params  map[string]any
	name    string
	kind    string
	argv    []string
	url     string // of an http payload, which then has no argv
	body    string
	timeout int64 // ms
	enabled bool
}

func pickOne[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// newSample makes one at random; nowMs is the time of the add.
func newSample(r *rand.Rand, nowMs int64) sample {
	s := sample{
		name:    pickOne(r, "nightly", "Über 日本 🚀", `quote " and \ back`, "<b>", "a  b"),
		kind:    pickOne(r, "at", "every", "cron"),
		argv:    []string{pickOne(r, "true", "/bin/sh", "echo"), pickOne(r, "", " ", "x y", "ü", "\n", `\u0041`)},
		timeout: defaultTimeoutMs,
		enabled: true,
	}
	payload := map[string]any{"kind": pickOne(r, "command", "Command"), "argv": s.argv}
	if r.IntN(3) == 0 {
		s.argv = nil
		s.url = pickOne(r, "https://example.net", "http://example.net:8080/a%20b?c=d&e", "http://[::1]/", Echo+"/in")
		s.body = pickOne(r, "", `{"a":"ü"}`, "one\ntwo")
		payload = map[string]any{"kind": pickOne(r, "http", "HTTP"), "url": s.url, "body": s.body,
			"okStatus": pickOne[any](r, 204, "200-299", []any{200, "301-302"}), "headers": map[string]string{"X-A": "b c"}}
	}
	s.params = map[string]any{"name": pickOne(r, s.name, " "+s.name+"\t"), "payload": payload}
	switch s.kind {
	case "at":
		ahead := r.Int64N(maxAheadMs)
		s.params["schedule"] = map[string]any{"kind": "at", "at": pickOne[any](r, schedule.FormatInstant(nowMs+ahead), nowMs+ahead, "+90m")}
	case "every":
		every := minEveryMs + r.Int64N(1_000_000_000)
		s.params["schedule"] = map[string]any{"everyMs": pickOne[any](r, every, fmt.Sprint(every)), "kind": "EVERY"}
	case "cron":
		cron := map[string]any{"kind": "cron", "expr": pickOne(r, "0 * * * *", " 30 2 * * 1-5 ", "@daily", "*/10 * * * * *", "0 0 29 2 *")}
		if r.IntN(2) == 0 {
			cron["tz"] = pickOne(r, "europe/oslo", "America/New_York", "UTC")
		}
		if r.IntN(2) == 0 {
			cron["staggerMs"] = r.IntN(1000)
		}
		s.params["schedule"] = cron
	}
	if r.IntN(2) == 0 {
		seconds := r.Int64N(1000)
		payload["timeoutSeconds"], s.timeout = seconds, seconds*1000
	}
	if r.IntN(2) == 0 {
		s.enabled = r.IntN(2) == 0
		s.params["enabled"] = s.enabled
	}
	return s
}

// reads reports whether a payload is what the sample asked for.
func (s *sample) reads(p *Payload) bool {
	if s.url != "" {
		return p.HTTP != nil && p.HTTP.TimeoutMs == s.timeout && p.HTTP.URL == s.url && p.HTTP.Body == s.body &&
			p.HTTP.Method == defaultMethod(s.body) && len(p.HTTP.Headers) == 1 && len(p.HTTP.OKStatus) > 0
	}
	return p.Command != nil && p.Command.TimeoutMs == s.timeout && slices.Equal(p.Command.Argv, s.argv)
}

// What is created can be read, says what was asked, fires, and is a fixed
// point: the empty patch and the same declaration change nothing.
func TestCreatedDefinitionsReadBack(t *testing.T) {
	r := newRand(t)
	for range 2000 {
		env := Env{NowMs: 1_700_000_000_000 + r.Int64N(200_000_000_000), HostZone: "Asia/Tokyo"}
		s := newSample(r, env.NowMs)
		params, err := json.Marshal(s.params)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Create("job", params, env)
		if err != nil {
			t.Fatalf("%s: %v", params, err)
		}
		d, err := Decode(c.Definition)
		if err != nil {
			t.Fatalf("%s: %v", c.Definition, err)
		}
		if d.Name != s.name || d.Schedule.Kind != s.kind || d.Enabled != s.enabled || d.CreatedAtMs != env.NowMs ||
			!s.reads(&d.Payload) {
			t.Fatalf("%s\nbecame %s\nread as %+v", params, c.Definition, d)
		}
		compiled, err := d.Compile(schedule.Vixie, "")
		if err != nil {
			t.Fatalf("%s: %v", c.Definition, err)
		}
		if next, ok := compiled.Next(env.NowMs - 1); !ok || next < env.NowMs {
			t.Fatalf("%s: next is %d, %v", c.Definition, next, ok)
		}
		same, err := Merge(c.Definition, []byte(`{}`), env)
		if err != nil || same.Changed || !bytes.Equal(same.Definition, c.Definition) {
			t.Fatalf("%s: the empty patch: %v, %s", c.Definition, err, same.Definition)
		}
		later := Env{NowMs: env.NowMs + 1 + r.Int64N(maxAheadMs), HostZone: "UTC"}
		same, err = Converge(c.Definition, params, later)
		if err != nil || same.Changed || !bytes.Equal(same.Definition, c.Definition) {
			t.Fatalf("%s\nagain as\n%s\nbecame %v\n%s", params, c.Definition, err, same.Definition)
		}
	}
}

// Members that rota does not know, at the top and inside, keep their bytes and
// their order through every edit and view.
func TestUnknownKeysSurviveEveryFunction(t *testing.T) {
	r := newRand(t)
	odd := []string{`[1, 2.50,"\u0041"]`, `1e2`, `{"a":{"b":null}, "A":1}`, `"\ud83d\ude80"`, `null`, `-0.0`}
	for range 500 {
		top, inSchedule, inPayload, inDelivery := pickOne(r, odd...), pickOne(r, odd...), pickOne(r, odd...), pickOne(r, odd...)
		definition := []byte(fmt.Sprintf(`{ "first novelty": %s, "id":"job","name":"n","enabled":true,"schedule":{"kind":"every","novel" : %s,"everyMs":60000,"anchorMs":5},`+
			`"payload":{"kind":"command","novel" : %s,"argv":["true"]},"delivery":{"novel" : %s,"mode":"none"},"last novelty":%s,"state":{}}`,
			top, inSchedule, inPayload, inDelivery, top))
		env := Env{NowMs: 1_800_000_000_000}
		patch := pickOne(r,
			`{"name":"m","schedule":{"kind":"every","everyMs":90000}}`,
			`{"schedule":{"kind":"cron","expr":"0 9 * * *","tz":"UTC"},"payload":{"kind":"command","cwd":"/srv"}}`,
			`{"schedule":{"kind":"at","at":"+1h"},"enabled":false}`,
			`{"delivery":{"channel":"last"},"payload":{"kind":"command","argv":["false"]}}`)
		merged, err := Merge(definition, []byte(patch), env)
		if err != nil {
			t.Fatal(err)
		}
		converged, err := Converge(definition, []byte(`{"name":"n","schedule":{"kind":"at","at":"+1h"},"payload":{"kind":"command","argv":["false"],"input":"x"}}`), env)
		if err != nil {
			t.Fatal(err)
		}
		row := Row{ID: "job", Definition: definition, State: []byte(`{"novel":` + top + `}`)}
		view, err := View(row)
		if err != nil {
			t.Fatal(err)
		}
		public, err := PublicView(row)
		if err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string][]byte{"merge": merged.Definition, "converge": converged.Definition, "view": view, "public view": public} {
			for _, part := range []string{
				`{ "first novelty": ` + top + `,`, `"last novelty":` + top,
				`"novel" : ` + inSchedule, `"novel" : ` + inPayload, `"novel" : ` + inDelivery,
			} {
				if !bytes.Contains(got, []byte(part)) {
					t.Fatalf("%s of\n%s\nlost %s:\n%s", what, definition, part, got)
				}
			}
		}
	}
}

// A revision depends on what the definition means, not on how it is written,
// and on everything that a run would do differently.
func TestRevisionsFollowTheMeaning(t *testing.T) {
	a := []byte(`{"id":"j","name":"A","enabled":true,"schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["true"]},"delivery":{"mode":"none"},"state":{"x":1},"updatedAtMs":5}`)
	b := []byte("{\"state\":{},\n \"payload\":{\"argv\":[ \"true\" ],\"kind\":\"command\"}, \"name\":\"\\u0041\",\"enabled\":true,\"schedule\":{\"everyMs\":60000,\"kind\":\"every\"},\"delivery\":{\"mode\":\"none\"},\"id\":\"j\"}")
	if Revision(a) != Revision(b) || WireRevision(a) != WireRevision(b) {
		t.Error("the same definition in two spellings has two revisions")
	}
	for _, c := range []struct {
		member          rawjson.Member
		run, definition bool // does the revision change
	}{
		{rawjson.Member{Key: "enabled", Value: []byte("false")}, false, true},
		{rawjson.Member{Key: "delivery", Value: []byte(`{"mode":"announce"}`)}, false, true},
		{rawjson.Member{Key: "state", Value: []byte(`{"y":1}`)}, false, false},
		{rawjson.Member{Key: "updatedAtMs", Value: []byte("6")}, false, false},
		{rawjson.Member{Key: "payload", Value: []byte(`{"kind":"command","argv":["false"]}`)}, true, true},
		{rawjson.Member{Key: "novel", Value: []byte("1")}, true, true},
	} {
		edited, err := rawjson.Set(a, c.member)
		if err != nil {
			t.Fatal(err)
		}
		if (Revision(edited) != Revision(a)) != c.run || (WireRevision(edited) != WireRevision(a)) != c.definition {
			t.Errorf("after a change of %s: run revision changed %v, configRevision changed %v", c.member.Key,
				Revision(edited) != Revision(a), WireRevision(edited) != WireRevision(a))
		}
	}
}
