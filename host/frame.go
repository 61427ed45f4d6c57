package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rota-scheduler/rota/worker/job"
)

// connErrorID is the id of a response that answers no request: the connection
// itself is refused or broken, and is closed after it.
const connErrorID = "-"

type request struct {
	ID     string
	Method string
	Params json.RawMessage
}

type response struct {
	Type    string     `json:"type"` // "res"
	ID      string     `json:"id"`
	OK      bool       `json:"ok"`
	Payload any        `json:"payload,omitempty"`
	Error   *WireError `json:"error,omitempty"`
}

// errNotFrame: the line is no JSON object, so there is nobody to answer.
var errNotFrame = errors.New("not a JSON object on one line")

// readRequest reads one request envelope. Its keys are closed. The id is given
// also with a refusal when it could be read.
func readRequest(line []byte) (request, error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' || !json.Valid(line) {
		return request{}, errNotFrame
	}
	var r request
	var kind string
	var unknown string
	var twice string
	seen := map[string]bool{}
	for key, value := range job.Members(line) {
		if seen[key] {
			twice = key
		}
		seen[key] = true
		switch key {
		case "type":
			kind = frameText(value)
		case "id":
			r.ID = frameText(value)
		case "method":
			r.Method = frameText(value)
		case "params":
			r.Params = bytes.Clone(value)
		case "traceparent", "expectedProfileId": // accepted, and of no use here
		default:
			unknown = key
		}
	}
	switch {
	case twice != "":
		return r, frameFault(fmt.Sprintf("duplicate property '%s'", twice))
	case unknown != "":
		return r, frameFault(fmt.Sprintf("at root: unexpected property '%s'", unknown))
	case !seen["id"]:
		return r, frameFault("must have required property 'id'")
	case !seen["method"]:
		return r, frameFault("must have required property 'method'")
	case r.ID == "":
		return r, frameFault("at /id: must be a string of at least 1 character")
	case r.Method == "":
		return r, frameFault("at /method: must be a string of at least 1 character")
	case kind != "req":
		return r, frameFault("at /type: must be equal to constant")
	}
	return r, nil
}

func frameText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func frameFault(reason string) *WireError {
	return &WireError{Code: CodeInvalidRequest, Message: "invalid request frame: " + reason}
}

// encodeFrame is one frame on one line.
func encodeFrame(frame any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // ends with a newline
	enc.SetEscapeHTML(false)
	if err := enc.Encode(frame); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// encodeResponse is encodeFrame for responses. A payload that is JSON already and
// stands on one line is taken as it is: a page of jobs is long, and was put
// together from checked pieces.
func encodeResponse(r response) ([]byte, error) {
	raw, ok := r.Payload.(json.RawMessage)
	if !ok || len(raw) == 0 || bytes.IndexByte(raw, '\n') >= 0 {
		return encodeFrame(r)
	}
	r.Payload = nil
	head, err := encodeFrame(r)
	if err != nil {
		return nil, err
	}
	head = bytes.TrimSuffix(head, []byte("}\n"))
	line := make([]byte, 0, len(head)+len(raw)+16)
	line = append(append(append(line, head...), `,"payload":`...), raw...)
	return append(line, "}\n"...), nil
}

// encodeEvent is an event frame up to its number, which each connection counts
// for itself. Its payload is encoded once for all of them.
func encodeEvent(name string, payload any) ([]byte, error) {
	frame, err := encodeFrame(struct {
		Type    string `json:"type"`
		Event   string `json:"event"`
		Payload any    `json:"payload,omitempty"`
	}{"event", name, payload})
	if err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(frame, []byte("}\n")), nil
}
