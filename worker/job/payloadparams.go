package job

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rota-scheduler/rota/store/rawjson"
)

const maxArgs = 4096

var (
	// payloadKinds are all kinds of the contract; availableKinds those this
	// build runs.
	payloadKinds   = []string{"systemEvent", "agentTurn", "command", "script", "heartbeat", "http", "workflow"}
	availableKinds = []string{"command", "http"}
)

// fieldRule says what one field of a payload may be. check gives the value as
// stored.
type fieldRule struct {
	key   string
	check func(path string, raw json.RawMessage) (json.RawMessage, error)
	// lenient: a value that is not even a number is dropped from a new job, with
	// a note, instead of refused. Old clients rely on it.
	lenient bool
	// needed: a payload of this kind is nothing without it.
	needed bool
}

// commonFields belong to every kind.
var commonFields = []fieldRule{
	{key: "toolsAllow", check: checkTexts},
	{key: "toolsAllowIsDefault", check: checkBool},
}

// payloadFields has the fields of each kind, in stored order.
var payloadFields = map[string][]fieldRule{
	"systemEvent": {{key: "text", check: checkText, needed: true}},
	"agentTurn": {
		{key: "message", check: checkText, needed: true},
		{key: "model", check: checkText},
		{key: "fallbacks", check: checkTexts},
		{key: "thinking", check: checkText},
		{key: "timeoutSeconds", check: checkSeconds, lenient: true},
		{key: "allowUnsafeExternalContent", check: checkBool},
		{key: "externalContentSource", check: checkText},
		{key: "lightContext", check: checkBool},
	},
	"command": {
		{key: "argv", check: checkArgv, needed: true},
		{key: "cwd", check: checkCwd},
		{key: "env", check: checkEnv},
		{key: "input", check: checkInput},
		{key: "timeoutSeconds", check: checkSeconds, lenient: true},
		{key: "noOutputTimeoutSeconds", check: checkSeconds, lenient: true},
		{key: "outputMaxBytes", check: checkOutputMax, lenient: true},
	},
	"http": {
		{key: "url", check: checkPayloadURL, needed: true},
		{key: "method", check: checkMethod},
		{key: "headers", check: checkHeaders},
		{key: "body", check: checkBody},
		{key: "timeoutSeconds", check: checkSeconds, lenient: true},
		{key: "okStatus", check: checkOKStatus},
	},
	"script": {
		{key: "script", check: checkScript, needed: true},
		{key: "timeoutSeconds", check: checkPositive, lenient: true},
		{key: "toolBudget", check: checkPositive, lenient: true},
	},
}

// rulesOf gives all rules of a kind.
func rulesOf(kind string) []fieldRule {
	return append(append([]fieldRule{}, payloadFields[kind]...), commonFields...)
}

// payloadKeys are the keys of all kinds. Those that do not belong to the chosen
// kind are dropped; other keys are refused.
var payloadKeys = func() []string {
	keys := []string{"kind"}
	for _, kind := range payloadKinds {
		for _, rule := range rulesOf(kind) {
			keys = append(keys, rule.key)
		}
	}
	return keys
}()

// payloadKind reads the kind of a payload object.
func payloadKind(f *fields) (string, error) {
	raw, ok := f.get("kind")
	if !ok {
		return "", missing(f.path, "kind")
	}
	kind, ok := word(raw, payloadKinds)
	if !ok {
		return "", oneOf(f.sub("kind"), availableKinds)
	}
	return kind, nil
}

func available(kind string, kinds []string) bool {
	_, ok := word(quoteJSON(kind), kinds)
	return ok
}

// normalPayload checks a whole payload and brings it to its stored form.
func normalPayload(path string, raw json.RawMessage) (kind string, stored json.RawMessage, notes []string, err error) {
	f, err := readFields(path, raw, payloadKeys)
	if err != nil {
		return "", nil, nil, err
	}
	if kind, err = payloadKind(&f); err != nil {
		return "", nil, nil, err
	}
	if !available(kind, availableKinds) {
		return "", nil, nil, unsupported(f.sub("kind"), "payload kind", kind, availableKinds)
	}
	members := []rawjson.Member{{Key: "kind", Value: quoteJSON(kind)}}
	for _, rule := range rulesOf(kind) {
		value, ok := f.get(rule.key)
		if !ok {
			if rule.needed {
				return "", nil, nil, missing(path, rule.key)
			}
			continue
		}
		if _, number := numberOf(value); rule.lenient && !number {
			notes = append(notes, fmt.Sprintf("payload.%s is not a number and was left out: its default applies", rule.key))
			continue
		}
		checked, err := rule.check(f.sub(rule.key), value)
		if err != nil {
			return "", nil, nil, err
		}
		notes = append(notes, clampNote(rule.key, value, checked)...)
		members = append(members, rawjson.Member{Key: rule.key, Value: checked})
	}
	return kind, objectOf(members), notes, nil
}

// patchPayload merges a partial payload of the same kind into the stored one,
// on its bytes. A null clears an optional field.
func patchPayload(path string, stored json.RawMessage, f *fields, kind string) (json.RawMessage, []string, error) {
	var edits []rawjson.Member
	var notes []string
	for _, rule := range rulesOf(kind) {
		value, ok := f.find(rule.key)
		if !ok {
			continue
		}
		if isNull(value) {
			if rule.needed {
				return nil, nil, invalid(f.sub(rule.key), "must NOT be null: a payload of kind "+kind+" needs it")
			}
			edits = append(edits, rawjson.Member{Key: rule.key})
			continue
		}
		checked, err := rule.check(f.sub(rule.key), value)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, clampNote(rule.key, value, checked)...)
		edits = append(edits, rawjson.Member{Key: rule.key, Value: checked})
	}
	merged, err := rawjson.Set(stored, changedOnly(stored, edits)...)
	return merged, notes, err
}

func clampNote(key string, asked, stored json.RawMessage) []string {
	a, _ := numberOf(asked)
	s, _ := numberOf(stored)
	if key != "outputMaxBytes" || a == s {
		return nil
	}
	return []string{fmt.Sprintf("outputMaxBytes was cut to %d (16 MiB), the most that is kept of a stream", outputCeilingBytes)}
}

// Checks of single fields.

func checkText(path string, raw json.RawMessage) (json.RawMessage, error) {
	text, ok := textOf(raw)
	if !ok {
		return nil, invalid(path, "must be string")
	}
	if strings.TrimSpace(text) == "" {
		return nil, invalid(path, "must NOT have fewer than 1 characters")
	}
	return raw, nil
}

func checkTexts(path string, raw json.RawMessage) (json.RawMessage, error) {
	if _, ok := textsOf(raw); !ok {
		return nil, invalid(path, "must be an array of strings")
	}
	return raw, nil
}

func checkBool(path string, raw json.RawMessage) (json.RawMessage, error) {
	if s := string(raw); s != "true" && s != "false" {
		return nil, invalid(path, "must be boolean")
	}
	return raw, nil
}

// checkArgv checks a command's words. They are not trimmed: a blank one is an
// argument like any other, except in the first place.
func checkArgv(path string, raw json.RawMessage) (json.RawMessage, error) {
	argv, ok := textsOf(raw)
	switch {
	case !ok:
		return nil, invalid(path, "must be an array of strings")
	case len(argv) == 0:
		return nil, invalid(path, "must NOT have fewer than 1 items")
	case len(argv) > maxArgs:
		return nil, invalidf(path, "must NOT have more than %d items", maxArgs)
	case strings.TrimSpace(argv[0]) == "":
		return nil, invalid(path+"/0", "must NOT have fewer than 1 characters")
	}
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			return nil, invalidf(fmt.Sprintf("%s/%d", path, i), "must NOT contain a NUL byte")
		}
	}
	return raw, nil
}

// checkCwd checks a working directory: absolute, because the daemon's own
// directory is nobody's business, and without a tilde, because no shell is
// there to expand it.
func checkCwd(path string, raw json.RawMessage) (json.RawMessage, error) {
	cwd, ok := textOf(raw)
	switch {
	case !ok:
		return nil, invalid(path, "must be string")
	case strings.ContainsRune(cwd, 0):
		return nil, invalid(path, "must NOT contain a NUL byte")
	case strings.HasPrefix(cwd, "~"):
		e := invalid(path, "must be an absolute path")
		e.Hint = "write the whole path: ~ is not expanded; leave cwd out for the home directory"
		return nil, e
	case !filepath.IsAbs(cwd) && !strings.HasPrefix(cwd, "/"):
		e := invalid(path, "must be an absolute path")
		e.Hint = "what it is relative to depends on how the daemon was started; leave cwd out for the home directory"
		return nil, e
	}
	return raw, nil
}

// checkEnv checks the environment. Names that differ only by case are refused:
// they are one variable on Windows and two elsewhere.
func checkEnv(path string, raw json.RawMessage) (json.RawMessage, error) {
	if !isObject(raw) {
		return nil, invalid(path, "must be object")
	}
	seen := map[string]bool{}
	for name, value := range rawjson.Members(raw) {
		shown := cut(name, maxEchoBytes)
		at := path + "/" + pointer(shown)
		text, ok := textOf(value)
		switch folded := foldKey(name); {
		case name == "" || strings.ContainsAny(name, "=\x00"):
			return nil, invalidf(path, "%q is not a name of an environment variable", shown)
		case seen[folded]:
			return nil, invalidf(path, "%q is given twice (case does not count)", shown)
		case !ok:
			return nil, invalid(at, "must be string")
		case strings.ContainsRune(text, 0):
			return nil, invalid(at, "must NOT contain a NUL byte")
		default:
			seen[folded] = true
		}
	}
	return raw, nil
}

func checkInput(path string, raw json.RawMessage) (json.RawMessage, error) {
	if _, ok := textOf(raw); !ok {
		return nil, invalid(path, "must be string")
	}
	return raw, nil
}

func checkScript(path string, raw json.RawMessage) (json.RawMessage, error) {
	text, ok := textOf(raw)
	if !ok {
		return nil, invalid(path, "must be string")
	}
	if len(text) == 0 || len(text) > maxScriptBytes {
		return nil, invalidf(path, "must have 1 to %d bytes", maxScriptBytes)
	}
	return raw, nil
}

// checkSeconds checks a limit in seconds, 0 for none; text is made a number.
func checkSeconds(path string, raw json.RawMessage) (json.RawMessage, error) {
	return checkNumber(path, raw, 0, maxInstantMs/1000)
}

func checkPositive(path string, raw json.RawMessage) (json.RawMessage, error) {
	return checkNumber(path, raw, 1, maxInstantMs/1000)
}

func checkNumber(path string, raw json.RawMessage, least, most float64) (json.RawMessage, error) {
	f, ok := numberOf(raw)
	switch {
	case !ok:
		return nil, invalid(path, "must be number")
	case f < least:
		return nil, invalidf(path, "must be >= %g", least)
	case f > most:
		return nil, invalidf(path, "must be <= %.0f", most)
	}
	if raw[0] != '"' {
		return raw, nil
	}
	return plainNumber(f), nil
}

func checkOutputMax(path string, raw json.RawMessage) (json.RawMessage, error) {
	n, ok := wholeOf(raw)
	switch {
	case !ok:
		return nil, invalid(path, "must be integer")
	case n < 1:
		return nil, invalid(path, "must be >= 1")
	}
	return intJSON(min(n, outputCeilingBytes)), nil
}
