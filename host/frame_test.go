package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/rota-scheduler/rota/worker/job"
)

// Whatever comes over the socket or the gateway is read or refused: a request
// that is taken has an id and a method, a refusal is one of the two known kinds,
// and so it is with what a first frame says of its sender.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		`{"type":"req","id":"1","method":"cron.status","params":{}}`, `{"type":"req","id":"1","method":"m","params":[1,{"a":null}]}`,
		`{"type":"req","id":7,"method":"m"}`, `{"type":"req","id":"1","id":"2","method":"m"}`, `{}`, `null`, ``, `{"type":"req"`, "\xff{}", `{"\u0069d":"1","type":"req","method":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	for _, turn := range readConversation(f, "../testdata/host/ws/cron.jsonl") {
		if turn.Say != nil {
			f.Add([]byte(turn.Say))
		}
	}
	for _, first := range readFirsts(f) {
		f.Add([]byte(first.frame))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		r, err := readRequest(line)
		var wire *WireError
		switch {
		case !bytes.Equal(before, line):
			t.Fatal("the line was changed")
		case err == nil && (r.ID == "" || r.Method == ""):
			t.Fatalf("took %+v from %q", r, line)
		case err != nil && !errors.Is(err, errNotFrame) && !errors.As(err, &wire):
			t.Fatalf("refused %q with %v", line, err)
		}
		if err != nil {
			return
		}
		p, err := decodeConnect(r.Params)
		var refusal *job.Error
		switch {
		case err == nil && (p.MinProtocol < 1 || !slices.Contains(clientIDs, p.Client.ID) || !slices.Contains(clientModes, p.Client.Mode)):
			t.Fatalf("took %+v from %q", p, r.Params)
		case err != nil && !errors.As(err, &wire) && !errors.As(err, &refusal):
			t.Fatalf("refused %q with %v", r.Params, err)
		}
	})
}

// A payload that is JSON already is sent as it is, and reads like any other.
func TestResponseTakesJSONAsItIs(t *testing.T) {
	for _, payload := range []string{`{"a":[1,"<é>"]}`, "{\"a\":\n[1]}", `null`, `[]`} {
		r := response{Type: "res", ID: "1", OK: true, Payload: json.RawMessage(payload)}
		line, err := encodeResponse(r)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(line, []byte("\n")); n != 1 || line[len(line)-1] != '\n' {
			t.Errorf("%q is not one line: %q", payload, line)
		}
		var got, want map[string]any
		plain, err := encodeFrame(r)
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal(line, &got) != nil || json.Unmarshal(plain, &want) != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is sent as %s", payload, line)
		}
	}
}
