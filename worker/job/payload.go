package job

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Payload is what a run does, decoded from the definition's payload object.
// Exactly one of the pointers is set, by Kind; none for a kind that this build
// does not run.
type Payload struct {
	Kind    string
	Command *CommandPayload // Kind "command"
	HTTP    *HTTPPayload    // Kind "http"
}

// HTTPPayload is one request to send. Redirects are not followed.
type HTTPPayload struct {
	URL     string   // http or https, without credentials; ${ROTA_ECHO} stands for the echo listener
	Method  string   // upper case
	Headers []Header // in order; names are unique without regard to case
	Body    string   // sent as it is
	// TimeoutMs bounds the whole request: 0 = none. The default of 10 minutes is
	// already filled in.
	TimeoutMs int64
	// OKStatus are the answers that count as a good run. The default of 200–299
	// is already filled in.
	OKStatus []StatusRange
}

// Header is one header line of a request.
type Header struct{ Name, Value string }

// StatusRange is a range of HTTP status codes, both ends included.
type StatusRange struct{ From, To int }

// CommandPayload is a process to start. There is no shell unless Argv names one.
type CommandPayload struct {
	Argv []string
	Cwd  string // absolute; empty = the user's home
	// Env is added to the daemon's environment, in this order; names are unique.
	Env   []EnvVar
	Input string // bytes for stdin; empty = empty stdin
	// TimeoutMs bounds the execution: 0 = none. The default of 10 minutes is
	// already filled in.
	TimeoutMs int64
	// NoOutputTimeoutMs ends a run that has printed nothing for so long; 0 = none.
	NoOutputTimeoutMs int64
	// OutputMaxBytes is kept per stream, half head and half tail. The default
	// of 128 KiB is already filled in; at most 16 MiB.
	OutputMaxBytes int64
}

// EnvVar is one environment variable of a command.
type EnvVar struct{ Name, Value string }

// What a command gets when its definition does not say.
const (
	defaultTimeoutMs      = 10 * 60 * 1000
	defaultOutputMaxBytes = 128 << 10
	outputCeilingBytes    = 16 << 20
)

// decodePayload reads a payload object as rows carry it.
func decodePayload(path string, raw json.RawMessage) (Payload, error) {
	var p Payload
	if !isObject(raw) {
		return p, invalid(path, "must be object")
	}
	for key, value := range rawjson.Fields(raw) {
		if string(key) == "kind" {
			p.Kind, _ = textOf(value)
		}
	}
	if p.Kind == "" {
		return p, missing(path, "kind")
	}
	var err error
	switch p.Kind {
	case "command":
		p.Command, err = decodeCommand(path, raw)
	case "http":
		p.HTTP, err = decodeHTTP(path, raw)
	}
	return p, err
}

// Runnable reports whether this build runs payloads of this kind.
func (p *Payload) Runnable() bool { return p.Command != nil || p.HTTP != nil }

// AvailableKinds are the kinds of payload that this build runs, in words.
func AvailableKinds() string { return strings.Join(availableKinds, ", ") }

func decodeCommand(path string, raw json.RawMessage) (*CommandPayload, error) {
	c := &CommandPayload{TimeoutMs: defaultTimeoutMs, OutputMaxBytes: defaultOutputMaxBytes}
	for key, value := range rawjson.Fields(raw) {
		if isNull(value) {
			continue
		}
		ok := true
		switch string(key) {
		case "argv":
			if c.Argv, ok = textsOf(value); !ok {
				return nil, invalid(path+"/argv", "must be an array of strings")
			}
		case "cwd":
			if c.Cwd, ok = textOf(value); !ok {
				return nil, invalid(path+"/cwd", "must be string")
			}
		case "input":
			if c.Input, ok = textOf(value); !ok {
				return nil, invalid(path+"/input", "must be string")
			}
		case "env":
			if c.Env, ok = envOf(value); !ok {
				return nil, invalid(path+"/env", "must be an object of strings")
			}
		case "timeoutSeconds":
			if c.TimeoutMs, ok = secondsToMs(value); !ok {
				c.TimeoutMs = defaultTimeoutMs
			}
		case "noOutputTimeoutSeconds":
			c.NoOutputTimeoutMs, _ = secondsToMs(value)
		case "outputMaxBytes":
			if n, whole := floorOf(value); whole && n >= 1 {
				c.OutputMaxBytes = min(n, outputCeilingBytes)
			}
		}
	}
	if len(c.Argv) == 0 || c.Argv[0] == "" {
		return nil, invalid(path+"/argv", "must NOT have fewer than 1 items")
	}
	return c, nil
}

// secondsToMs reads a limit in seconds, fractions allowed; zero and below mean
// no limit, and so does one that is beyond all instants.
func secondsToMs(raw json.RawMessage) (int64, bool) {
	f, ok := numberOf(raw)
	if !ok {
		return 0, false
	}
	ms := math.Ceil(f * 1000)
	if ms <= 0 || ms > maxInstantMs {
		return 0, true
	}
	return int64(ms), true
}

// textsOf decodes an array of strings.
func textsOf(raw json.RawMessage) ([]string, bool) {
	if len(raw) == 0 || raw[0] != '[' {
		return nil, false
	}
	var texts []string
	for element := range rawjson.Elements(raw) {
		text, ok := textOf(element)
		if !ok {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, true
}

// envOf decodes an object of strings, in order; of a name that is given twice
// the last value counts, at the first place.
func envOf(raw json.RawMessage) ([]EnvVar, bool) {
	if !isObject(raw) {
		return nil, false
	}
	var env []EnvVar
	at := map[string]int{}
	for name, value := range rawjson.Members(raw) {
		text, ok := textOf(value)
		if !ok {
			return nil, false
		}
		if i, again := at[name]; again {
			env[i].Value = text
			continue
		}
		at[name] = len(env)
		env = append(env, EnvVar{name, text})
	}
	return env, true
}
