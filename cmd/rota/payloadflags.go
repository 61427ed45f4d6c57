package main

import (
	"encoding/json"
	"strings"

	"github.com/spf13/pflag"
)

// payloadFlags say what a job runs: a command, or one http request.
type payloadFlags struct {
	command, commandArgv, commandCwd, commandInput string
	commandEnv                                     []string
	noOutputSeconds, outputMax                     string

	url, method, body, okStatus string
	headers                     []string

	timeoutSeconds string // of both
}

// The flags that belong to one kind of payload alone.
var (
	commandFlags = []string{"command", "command-argv", "command-cwd", "command-env", "command-input", "no-output-timeout-seconds", "output-max-bytes"}
	requestFlags = []string{"http", "http-method", "http-header", "http-body", "ok-status"}
)

const choosePayload = "Choose exactly one payload: --command, --command-argv, or --http"

func (f *payloadFlags) register(set *pflag.FlagSet) {
	set.StringVar(&f.command, "command", "", "shell command line")
	set.StringVar(&f.commandArgv, "command-argv", "", `command as a JSON array: ["prog","arg"]`)
	set.StringVar(&f.commandCwd, "command-cwd", "", "working directory, absolute (default: the home directory)")
	set.StringArrayVar(&f.commandEnv, "command-env", nil, "K=V, may be repeated")
	set.StringVar(&f.commandInput, "command-input", "", "text for standard input")
	set.StringVar(&f.url, "http", "", "send a request to this URL instead of running a command")
	set.StringVar(&f.method, "http-method", "", "request method (default: GET, or POST with a body)")
	set.StringArrayVar(&f.headers, "http-header", nil, "'Name: value', may be repeated")
	set.StringVar(&f.body, "http-body", "", "text of the request's body")
	set.StringVar(&f.okStatus, "ok-status", "", "answers that are a good run, such as 200-299,304 (default 200-299)")
	set.StringVar(&f.timeoutSeconds, "timeout-seconds", "", "longest run; 0 = no limit (default 600)")
	set.StringVar(&f.noOutputSeconds, "no-output-timeout-seconds", "", "longest silence; 0 = no limit")
	set.StringVar(&f.outputMax, "output-max-bytes", "", "bytes of output to keep a stream")
}

// payloadPatch is what the flags say of a payload.
type payloadPatch struct {
	kind    string // empty: nothing but what every kind has
	whole   bool   // a payload of its own, not a change of one
	members map[string]any
}

// params are the payload as cron.add and cron.update take it.
func (p *payloadPatch) params() map[string]any {
	p.members["kind"] = p.kind
	return p.members
}

// payload reads the flags; without any it has no members.
func (f *jobFlags) payload() (payloadPatch, error) {
	p := payloadPatch{members: map[string]any{}}
	isCommand, isRequest := f.anyGiven(commandFlags...), f.anyGiven(requestFlags...)
	var err error
	switch {
	case isCommand && isRequest, f.given("command") && f.given("command-argv"):
		return p, usage(choosePayload)
	case isCommand:
		p.kind = "command"
		err = f.commandPayload(&p)
	case isRequest:
		p.kind = "http"
		err = f.requestPayload(&p)
	}
	if err != nil {
		return p, err
	}
	for _, n := range []struct {
		flag, value, key string
		low              int64
	}{
		{"timeout-seconds", f.run.timeoutSeconds, "timeoutSeconds", 0},
		{"no-output-timeout-seconds", f.run.noOutputSeconds, "noOutputTimeoutSeconds", 0},
		{"output-max-bytes", f.run.outputMax, "outputMaxBytes", 1},
	} {
		if !f.given(n.flag) {
			continue
		}
		if p.members[n.key], err = wholeNumber("--"+n.flag, n.value, n.low); err != nil {
			return p, err
		}
	}
	return p, nil
}

func (f *jobFlags) commandPayload(p *payloadPatch) error {
	switch {
	case f.given("command"):
		if strings.TrimSpace(f.run.command) == "" {
			return usage("--command is empty")
		}
		p.members["argv"], p.whole = []string{"sh", "-lc", f.run.command}, true
	case f.given("command-argv"):
		var argv []string
		if json.Unmarshal([]byte(f.run.commandArgv), &argv) != nil || len(argv) == 0 {
			return usage(`--command-argv must be a JSON array of strings, such as ["echo","hi"]`)
		}
		p.members["argv"], p.whole = argv, true
	}
	if f.given("command-cwd") {
		p.members["cwd"] = f.run.commandCwd
	}
	if f.given("command-input") {
		p.members["input"] = f.run.commandInput
	}
	if f.given("command-env") {
		env := map[string]string{}
		for _, pair := range f.run.commandEnv {
			name, value, ok := strings.Cut(pair, "=")
			if !ok || name == "" {
				return usage("--command-env takes NAME=VALUE, not %q", pair)
			}
			env[name] = value
		}
		p.members["env"] = env
	}
	return nil
}

func (f *jobFlags) requestPayload(p *payloadPatch) error {
	if p.whole = f.given("http"); p.whole {
		if strings.TrimSpace(f.run.url) == "" {
			return usage("--http is empty: give a URL")
		}
		p.members["url"] = f.run.url
	}
	for _, m := range []struct{ flag, key, value string }{
		{"http-method", "method", f.run.method}, {"http-body", "body", f.run.body}, {"ok-status", "okStatus", f.run.okStatus},
	} {
		if f.given(m.flag) {
			p.members[m.key] = m.value
		}
	}
	if !f.given("http-header") {
		return nil
	}
	headers := map[string]string{}
	for i, line := range f.run.headers {
		name, value, ok := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if !ok || name == "" { // the line may be a secret: it is not repeated
			failure := usage("--http-header takes 'Name: value'; number %d has no name and colon", i+1)
			failure.Field = "--http-header"
			return failure
		}
		if _, twice := headers[name]; twice {
			return usage("--http-header gives %q twice", name)
		}
		headers[name] = strings.TrimSpace(value)
	}
	p.members["headers"] = headers
	return nil
}

// over completes a change from the kind of payload that the job has.
func (p *payloadPatch) over(oldKind string) error {
	switch {
	case p.kind == oldKind:
	case p.kind == "" && (oldKind == "command" || oldKind == "http"):
		p.kind = oldKind
	case p.kind == "http":
		return usage("the job has a payload of kind %q: give a whole request with --http", oldKind)
	default:
		return usage("the job has a payload of kind %q: give a whole command with --command or --command-argv", oldKind)
	}
	return nil
}

// clearRequest are the flags of edit that clear a field of a request.
type clearRequest struct{ method, headers, body, okStatus bool }

func (c *clearRequest) register(set *pflag.FlagSet) {
	set.BoolVar(&c.method, "clear-http-method", false, "the default method again")
	set.BoolVar(&c.headers, "clear-http-headers", false, "no headers of the job's own")
	set.BoolVar(&c.body, "clear-http-body", false, "no body")
	set.BoolVar(&c.okStatus, "clear-ok-status", false, "the default of 200-299 again")
}

// apply puts a null for each field to clear.
func (c *clearRequest) apply(p *payloadPatch) error {
	for _, f := range []struct {
		clear bool
		key   string
		flags string
	}{
		{c.method, "method", "--http-method or --clear-http-method"}, {c.headers, "headers", "--http-header or --clear-http-headers"},
		{c.body, "body", "--http-body or --clear-http-body"}, {c.okStatus, "okStatus", "--ok-status or --clear-ok-status"},
	} {
		if !f.clear {
			continue
		}
		if _, set := p.members[f.key]; set {
			return usage("Choose either %s, not both", f.flags)
		}
		if p.kind == "command" {
			return usage(choosePayload)
		}
		p.kind, p.members[f.key] = "http", nil
	}
	return nil
}
