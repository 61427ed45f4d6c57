package job

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Bounds of an http payload.
const (
	maxMethodLetters = 20
	maxHeaders       = 100
	maxHeaderBytes   = 8 << 10
	maxStatusRanges  = 100
)

// urlRule is for an address with what a query can hold.
var urlRule = textRule{maxRunes: 4000}

// Echo stands at the start of an http payload's URL for a listener of this
// machine that answers with the request it got. "http://" may stand before it.
const Echo = "${ROTA_ECHO}"

func cutEcho(text string) (rest string, ok bool) {
	return strings.CutPrefix(strings.TrimPrefix(text, "http://"), Echo)
}

// NamesEcho reports whether parameters of cron.add, or a definition, have an
// http payload that goes to the echo listener.
func NamesEcho(object json.RawMessage) bool {
	payload := rawjson.Get(object, "payload")
	kind, _ := word(rawjson.Get(payload, "kind"), payloadKinds)
	_, named := cutEcho(strings.TrimSpace(textMember(rawjson.Get(payload, "url"))))
	return kind == "http" && named
}

// NamesEcho reports whether the request goes to the echo listener. Its URL then
// begins with [Echo], whatever stood before it.
func (p *HTTPPayload) NamesEcho() bool { return strings.HasPrefix(p.URL, Echo) }

// decodeHTTP reads an http payload as rows carry it. What can be sent at all is
// the launcher's to judge: here a value is only refused when it is none.
func decodeHTTP(path string, raw json.RawMessage) (*HTTPPayload, error) {
	p := &HTTPPayload{TimeoutMs: defaultTimeoutMs}
	for key, value := range rawjson.Fields(raw) {
		if isNull(value) {
			continue
		}
		ok := true
		switch string(key) {
		case "url":
			p.URL, ok = textOf(value)
		case "method":
			p.Method, ok = textOf(value)
		case "headers":
			if p.Headers, ok = headersOf(value); !ok {
				return nil, invalid(path+"/headers", "must be an object of strings")
			}
		case "body":
			p.Body, ok = textOf(value)
		case "timeoutSeconds":
			if ms, number := secondsToMs(value); number {
				p.TimeoutMs = ms
			}
		case "okStatus":
			p.OKStatus, _ = statusesOf(value)
		}
		if !ok {
			return nil, invalid(path+"/"+string(key), "must be string")
		}
	}
	if p.URL = strings.TrimSpace(p.URL); p.URL == "" {
		return nil, missing(path, "url")
	}
	if rest, named := cutEcho(p.URL); named {
		p.URL = Echo + rest
	}
	if p.Method = strings.ToUpper(strings.TrimSpace(p.Method)); p.Method == "" {
		p.Method = defaultMethod(p.Body)
	}
	if len(p.OKStatus) == 0 {
		p.OKStatus = []StatusRange{{200, 299}}
	}
	return p, nil
}

// defaultMethod is the method of a request that names none.
func defaultMethod(body string) string {
	if body == "" {
		return "GET"
	}
	return "POST"
}

// headersOf decodes an object of strings, in order; of a name that is given
// twice, case ignored, the last value counts, at the first place.
func headersOf(raw json.RawMessage) ([]Header, bool) {
	if !isObject(raw) {
		return nil, false
	}
	var headers []Header
	for name, value := range rawjson.Members(raw) {
		text, ok := textOf(value)
		if !ok {
			return nil, false
		}
		if i := slices.IndexFunc(headers, func(h Header) bool { return strings.EqualFold(h.Name, name) }); i >= 0 {
			headers[i].Value = text
			continue
		}
		headers = append(headers, Header{name, text})
	}
	return headers, true
}

// statusesOf reads which answers are good: a code, text such as "200-299,304",
// or an array of these.
func statusesOf(raw json.RawMessage) ([]StatusRange, bool) {
	if len(raw) == 0 || raw[0] != '[' {
		text, ok := textOf(raw)
		if !ok {
			text = string(raw)
		}
		return statusesIn(text)
	}
	var ranges []StatusRange
	for element := range rawjson.Elements(raw) {
		if len(element) == 0 || element[0] == '[' {
			return nil, false
		}
		more, ok := statusesOf(element)
		if !ok {
			return nil, false
		}
		ranges = append(ranges, more...)
	}
	return ranges, len(ranges) > 0
}

func statusesIn(text string) ([]StatusRange, bool) {
	var ranges []StatusRange
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		low, okLow := statusCode(from)
		high, okHigh := statusCode(to)
		if !okLow || !okHigh || low > high {
			return nil, false
		}
		ranges = append(ranges, StatusRange{low, high})
	}
	return ranges, true
}

func statusCode(text string) (int, bool) {
	text = strings.TrimSpace(text)
	if len(text) != 3 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	code, err := strconv.Atoi(text)
	return code, err == nil && code >= 100 && code <= 599
}

// Checks of the fields as clients write them. No refusal repeats a value: an
// address, a header or a body may hold a secret.

func checkPayloadURL(path string, raw json.RawMessage) (json.RawMessage, error) {
	stored, err := normalText(path, raw, urlRule)
	if err != nil {
		return nil, err
	}
	text, _ := textOf(stored)
	if rest, named := cutEcho(text); named {
		if rest == "" || strings.ContainsAny(rest[:1], "/?") {
			text = "http://echo.invalid" + rest
		} else {
			e := invalid(path, Echo+" stands for a whole host, with its port")
			e.Hint = "write a path after it: " + Echo + "/path"
			return nil, e
		}
	}
	if strings.Contains(text, Echo) {
		return nil, invalid(path, Echo+" stands at the start alone")
	}
	return stored, checkURL(path, text, `put them into a header: "headers":{"Authorization":"…"}`)
}

// checkURL checks the address of a request or of a webhook.
func checkURL(path, text, credentialsHint string) error {
	u, err := url.Parse(text)
	switch {
	case strings.ContainsFunc(text, unicode.IsSpace):
		e := invalid(path, "must NOT contain white space")
		e.Hint = "write a space as %20"
		return e
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return invalid(path, "must be an http or https URL")
	case u.User != nil:
		e := invalid(path, "must NOT contain credentials")
		e.Hint = credentialsHint
		return e
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return invalid(path, "must have a port from 1 to 65535")
		}
	}
	return nil
}

// checkMethod takes any method that a server may know. CONNECT asks for a
// tunnel and sends nothing through it.
func checkMethod(path string, raw json.RawMessage) (json.RawMessage, error) {
	text, ok := textOf(raw)
	if !ok {
		return nil, invalid(path, "must be string")
	}
	method := strings.ToUpper(strings.TrimSpace(text))
	letters := strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
	if method == "" || len(method) > maxMethodLetters || !letters || method == "CONNECT" {
		e := invalid(path, "must be a request method")
		e.Hint = "such as GET, HEAD, POST, PUT, PATCH or DELETE"
		return nil, e
	}
	return quoteJSON(method), nil
}

// connectionHeaders are set by whoever sends the request; a second one would
// say where it ends, or where it goes, in two ways.
var connectionHeaders = []string{"connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade"}

// headerNameMarks may stand in a header's name beside letters and digits.
const headerNameMarks = "!#$%&'*+-.^_`|~"

func checkHeaders(path string, raw json.RawMessage) (json.RawMessage, error) {
	if !isObject(raw) {
		return nil, invalid(path, "must be object")
	}
	seen := map[string]bool{}
	for name, value := range rawjson.Members(raw) {
		shown := cut(name, maxEchoBytes)
		at := path + "/" + pointer(shown)
		folded := strings.ToLower(name)
		text, isText := textOf(value)
		switch {
		case !isHeaderName(name):
			return nil, invalidf(path, "%q is not a name of a header", shown)
		case slices.Contains(connectionHeaders, folded):
			e := invalid(at, "is set by the request itself")
			e.Hint = "leave it out"
			return nil, e
		case seen[folded]:
			return nil, invalidf(path, "%q is given twice (case does not count)", shown)
		case !isText:
			return nil, invalid(at, "must be string")
		case len(text) > maxHeaderBytes:
			return nil, invalidf(at, "must NOT have more than %d bytes", maxHeaderBytes)
		case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
			return nil, invalid(at, "must NOT contain a line break or another control character")
		case len(seen) == maxHeaders:
			return nil, invalidf(path, "must NOT have more than %d headers", maxHeaders)
		}
		seen[folded] = true
	}
	return raw, nil
}

func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune(headerNameMarks, r)
	})
}

// checkBody takes text, sent as it is; an empty one is no body.
func checkBody(path string, raw json.RawMessage) (json.RawMessage, error) {
	if _, ok := textOf(raw); ok {
		return raw, nil
	}
	e := invalid(path, "must be string")
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		e.Hint = `quote it: "body":"{\"key\":\"value\"}", with "headers":{"Content-Type":"application/json"}`
	}
	return nil, e
}

func checkOKStatus(path string, raw json.RawMessage) (json.RawMessage, error) {
	ranges, ok := statusesOf(raw)
	if !ok || len(ranges) > maxStatusRanges {
		e := invalid(path, "must name status codes from 100 to 599")
		e.Hint = `write a code, an array of codes, or text such as "200-299,304"`
		return nil, e
	}
	return raw, nil
}
