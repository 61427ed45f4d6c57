package job

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// readsTheSame reports whether no object in the text says a key twice, case
// aside, to a reader that shares no code with CheckKeys.
func readsTheSame(dec *json.Decoder) (bool, error) {
	token, err := dec.Token()
	if err != nil {
		return false, err
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return true, nil
	}
	same := true
	var keys []string
	for dec.More() {
		if delim == '{' {
			token, err := dec.Token()
			if err != nil {
				return false, err
			}
			key := token.(string)
			for _, k := range keys {
				same = same && !strings.EqualFold(k, key)
			}
			keys = append(keys, key)
		}
		inner, err := readsTheSame(dec)
		if err != nil {
			return false, err
		}
		same = same && inner
	}
	_, err = dec.Token()
	return same, err
}

func FuzzCheckKeys(f *testing.F) {
	for _, seed := range []string{`{"a":1,"a":2}`, `{"a":{"b":[{"c":1},{"C":2,"c":3}]}}`, `[{},{}]`, `"x"`, `{"\u0061":1,"a":1}`, `{"K":1,"k":2}`, `{"ß":1,"ẞ":2}`, "{\"\xff\":1,\"\xfe\":2}", `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		err := CheckKeys(text)
		if !json.Valid(text) {
			if err == nil {
				t.Fatalf("%q is not JSON and was accepted", text)
			}
			return
		}
		if strings.Count(string(text), "[")+strings.Count(string(text), "{") > maxDepth {
			return // may be too deep; depth has its own test
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		want, readErr := readsTheSame(dec)
		if readErr != nil && readErr != io.EOF {
			t.Fatal(readErr)
		}
		if (err == nil) != want {
			t.Fatalf("CheckKeys(%q) = %v, keys differ: %v", text, err, want)
		}
	})
}

// checkRequest builds the request of an accepted payload as a reader that
// shares no code with the checks, and looks at what would go over the wire.
func checkRequest(t *testing.T, definition []byte, p *HTTPPayload) {
	t.Helper()
	r, err := http.NewRequest(p.Method, strings.Replace(p.URL, Echo, "http://127.0.0.1:9", 1), strings.NewReader(p.Body))
	if err != nil {
		t.Fatalf("%s is no request: %v", definition, err)
	}
	r.Header.Del("User-Agent")
	for _, h := range p.Headers {
		r.Header.Set(h.Name, h.Value)
	}
	if len(r.Header) != len(p.Headers) || r.Host == "" || r.URL.User != nil || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		t.Fatalf("%s becomes %+v", definition, r)
	}
	var wire bytes.Buffer
	if err := r.Header.Write(&wire); err != nil || strings.Count(wire.String(), "\n") != len(p.Headers) {
		t.Fatalf("%s has the headers %q", definition, wire.String())
	}
	for _, s := range p.OKStatus {
		if s.From < 100 || s.From > s.To || s.To > 599 {
			t.Fatalf("%s: %v", definition, p.OKStatus)
		}
	}
}

// Whatever a client sends is refused with a reason or becomes a definition that
// can be read, compiled and shown.
func FuzzCreate(f *testing.F) {
	for _, seed := range []string{
		`{"name":"x","schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"command","argv":["true"]}}`,
		`{"schedule":{"kind":"cron","expr":"0 9 * * *"},"payload":{"kind":"command","argv":["a","b"],"env":{"A":"1"},"cwd":"/"}}`,
		`{"schedule":{"kind":"at","at":"+20s"},"payload":{"kind":"command","argv":["true"]},"catchUp":{"policy":"all"},"dst":"skip"}`,
		`{"schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"http","url":"${ROTA_ECHO}/a?b","method":"put","headers":{"A":"b"},"body":"c","okStatus":[200,"300-304"]}}`,
		`{"schedule":{"kind":"every","everyMs":60000},"payload":{"kind":"http","url":"https://[::1]:80/%zz"},"delivery":{"mode":"webhook","to":"http://a"}}`,
		`{"schedule":{"at":1e13},"payload":{},"owner":{},"delivery":{"mode":"none","threadId":5}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		env := Env{NowMs: 1_795_964_145_281, HostZone: "Europe/Oslo"}
		c, err := Create("job", params, env)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Message == "" || e.Code == "" {
				t.Fatalf("%q: refused without a reason: %v", params, err)
			}
			return
		}
		d, err := Decode(c.Definition)
		if err != nil {
			t.Fatalf("%q became %s, which is refused: %v", params, c.Definition, err)
		}
		if p := d.Payload.HTTP; p != nil {
			checkRequest(t, c.Definition, p)
		}
		if _, err := d.Compile(env.DST, env.HostZone); err != nil {
			t.Fatalf("%q became %s, which does not compile: %v", params, c.Definition, err)
		}
		if _, err := View(Row{ID: "job", Definition: c.Definition, State: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if again, err := Converge(c.Definition, params, env); err != nil || again.Changed {
			t.Fatalf("%q became %s, and again %s: %v", params, c.Definition, again.Definition, err)
		}
	})
}
