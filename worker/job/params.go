package job

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Bounds of what a client may write.
const (
	maxNameRunes        = 200
	maxDescriptionRunes = 10_000
	maxKeyRunes         = 1_000 // session keys, agent ids, channel addresses
	maxScriptBytes      = 65_536
	maxNamed            = 5  // mistakes of one kind that one refusal lists
	maxEchoBytes        = 64 // of what the client sent, in one refusal
)

// fields are the members of a closed object of the wire contract.
type fields struct {
	path    string
	members []rawjson.Member // null members are kept: in a patch they clear
}

// readFields refuses what is not an object and what the object does not have.
func readFields(path string, raw json.RawMessage, allowed ...[]string) (fields, error) {
	f := fields{path: path}
	if !isObject(raw) {
		return f, invalid(path, "must be object")
	}
	var refused *Error
	named := 0
	for key, value := range rawjson.Members(raw) {
		if !slices.ContainsFunc(allowed, func(list []string) bool { return slices.Contains(list, key) }) {
			e := unexpected(path, key)
			switch named++; {
			case refused == nil:
				refused = e
			case named <= maxNamed:
				refused.Message += "; " + e.Message
			case named == maxNamed+1:
				refused.Message += "; …"
			}
			continue
		}
		f.members = append(f.members, rawjson.Member{Key: key, Value: value})
	}
	if refused != nil {
		return f, refused
	}
	return f, nil
}

// get finds a member; a null one counts as absent.
func (f *fields) get(key string) (json.RawMessage, bool) {
	raw, ok := f.find(key)
	return raw, ok && !isNull(raw)
}

// find finds a member, null included.
func (f *fields) find(key string) (json.RawMessage, bool) {
	for _, m := range f.members {
		if m.Key == key {
			return m.Value, true
		}
	}
	return nil, false
}

func (f *fields) sub(key string) string { return f.path + "/" + key }

func (f *fields) encode() json.RawMessage {
	kept := slices.DeleteFunc(slices.Clone(f.members), func(m rawjson.Member) bool { return isNull(m.Value) })
	return objectOf(kept)
}

// textRule says what a string of the contract may be.
type textRule struct {
	maxRunes int
	lines    bool // line breaks and tabs allowed
	label    bool // shown to people in lists: must be visible and well ordered
}

var (
	nameRule        = textRule{maxRunes: maxNameRunes, label: true}
	descriptionRule = textRule{maxRunes: maxDescriptionRunes, lines: true}
	keyRule         = textRule{maxRunes: maxKeyRunes}
)

// normalText trims a string and checks it. A string that trimming does not
// change keeps its bytes, escapes included.
func normalText(path string, raw json.RawMessage, rule textRule) (json.RawMessage, error) {
	text, ok := textOf(raw)
	if !ok {
		return nil, invalid(path, "must be string")
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return nil, invalid(path, "must NOT have fewer than 1 characters")
	}
	if n := utf8.RuneCountInString(trimmed); n > rule.maxRunes {
		return nil, invalidf(path, "must NOT have more than %d characters (has %d)", rule.maxRunes, n)
	}
	if err := rule.check(path, trimmed); err != nil {
		return nil, err
	}
	if trimmed == text {
		return raw, nil
	}
	return quoteJSON(trimmed), nil
}

func (rule textRule) check(path, text string) error {
	visible := false
	for _, r := range text {
		lineBreak := r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029'
		if (unicode.IsControl(r) || lineBreak) && !(rule.lines && (lineBreak || r == '\t')) {
			return invalidf(path, "must NOT contain the control character %U", r)
		}
		visible = visible || unicode.IsGraphic(r) && !unicode.IsSpace(r)
	}
	if !rule.label {
		return nil
	}
	if !visible {
		return invalid(path, "must contain a visible character")
	}
	if !bidiBalanced(text) {
		return &Error{Code: CodeInvalid, Field: path,
			Message: "at " + place(path) + ": must NOT contain a direction control that is not closed",
			Hint:    "it would reorder the text after it; remove it, or close it"}
	}
	return nil
}

// bidiBalanced reports whether each embedding, override and isolate of the
// bidirectional algorithm is closed by its own terminator. Plain marks (LRM,
// RLM, ALM) reorder nothing after the text and are fine.
func bidiBalanced(text string) bool {
	var open []rune
	for _, r := range text {
		switch r {
		case '\u202A', '\u202B', '\u202D', '\u202E':
			open = append(open, '\u202C')
		case '\u2066', '\u2067', '\u2068':
			open = append(open, '\u2069')
		case '\u202C', '\u2069':
			if len(open) == 0 || open[len(open)-1] != r {
				return false
			}
			open = open[:len(open)-1]
		}
	}
	return len(open) == 0
}

// word finds the canonical spelling of a word of a list, case ignored.
func word(raw json.RawMessage, list []string) (string, bool) {
	text, ok := textOf(raw)
	if !ok {
		return "", false
	}
	text = strings.TrimSpace(text)
	for _, w := range list {
		if strings.EqualFold(w, text) {
			return w, true
		}
	}
	return text, false
}

// normalWord checks a word of a list and gives its canonical spelling.
func normalWord(path string, raw json.RawMessage, list []string) (json.RawMessage, error) {
	w, ok := word(raw, list)
	if !ok {
		return nil, oneOf(path, list)
	}
	return quoteJSON(w), nil
}

var wakeModes = []string{"now", "next-heartbeat"}

// normalTarget checks a session target.
func normalTarget(path string, raw json.RawMessage) (string, error) {
	if w, ok := word(raw, []string{"main", "isolated", "current"}); ok {
		return w, nil
	}
	text, _ := textOf(raw)
	text = strings.TrimSpace(text)
	key, ok := strings.CutPrefix(text, "session:")
	if !ok || strings.TrimSpace(key) == "" {
		return "", oneOf(path, []string{"main", "isolated", "current", "session:<key>"})
	}
	if err := keyRule.check(path, text); err != nil {
		return "", err
	}
	return text, nil
}

// checkTarget refuses a payload that its session target cannot run.
func checkTarget(target, kind string) error {
	message := ""
	switch {
	case target == "main" && kind != "systemEvent" && kind != "script" && kind != "heartbeat":
		message = `main cron jobs require payload.kind="systemEvent" or "script"`
	case target == "main":
	case kind == "systemEvent" || kind == "script" && target != "isolated":
		message = `isolated cron jobs require payload.kind="agentTurn", "command", or "script"; script payloads do not support current/session targets`
	}
	if message == "" {
		return nil
	}
	return &Error{Code: CodeInvalid, Field: "/sessionTarget", Message: message}
}

// normalOwner checks the owner object.
func normalOwner(path string, raw json.RawMessage) (json.RawMessage, error) {
	f, err := readFields(path, raw, []string{"agentId", "sessionKey", "accountId"})
	if err != nil {
		return nil, err
	}
	for i, m := range f.members {
		if isNull(m.Value) {
			continue
		}
		if f.members[i].Value, err = normalText(f.sub(m.Key), m.Value, keyRule); err != nil {
			return nil, err
		}
	}
	return f.encode(), nil
}

// systemNamespaces are declaration keys that the jobs of the system itself use.
var systemNamespaces = []string{"heartbeat:", "skill-collection-review:"}

func normalDeclarationKey(path string, raw json.RawMessage) (json.RawMessage, error) {
	key, err := normalText(path, raw, nameRule)
	if err != nil {
		return nil, err
	}
	text, _ := textOf(key)
	for _, namespace := range systemNamespaces {
		if strings.HasPrefix(text, namespace) {
			return nil, invalidf(path, "keys that begin with %q belong to the system", namespace)
		}
	}
	return key, nil
}
