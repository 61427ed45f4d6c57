package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rota-scheduler/rota/worker/job"
)

// params are a method's parameters: an object whose keys are known to be
// unique. The getters take a member if it is there and report its first fault
// as the reason of an "invalid … params" refusal.
type params struct {
	method  string
	raw     json.RawMessage
	members map[string]json.RawMessage
}

// readParams checks that params are an object without duplicate or case-folded
// keys. encoding/json would accept both and pick one. Every surface takes as
// much as a line of the socket has: what one client stores, all can change.
func readParams(method string, raw json.RawMessage) (params, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) > maxRequestBytes {
		return params{}, invalid(method, fmt.Sprintf("at root: must not have more than %d bytes", maxRequestBytes))
	}
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	if raw[0] != '{' {
		return params{}, invalid(method, "at root: must be object")
	}
	if err := job.CheckKeys(raw); err != nil {
		var refusal *job.Error
		if errors.As(err, &refusal) {
			return params{}, refusal
		}
		return params{}, invalid(method, err.Error())
	}
	p := params{method: method, raw: raw}
	if err := json.Unmarshal(raw, &p.members); err != nil {
		return params{}, invalid(method, "at root: "+err.Error())
	}
	return p, nil
}

// only refuses any key that is not listed.
func (p params) only(known ...string) error {
	var unknown []string
	for key := range p.members {
		if !slices.Contains(known, key) {
			unknown = append(unknown, key)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	return invalid(p.method, "at root: unexpected property '"+slices.Min(unknown)+"'")
}

// text takes a string member; limit bounds its bytes.
func (p params) text(key string, limit int) (string, error) {
	raw, ok := p.members[key]
	if !ok {
		return "", nil
	}
	var s string
	if string(raw) == "null" || json.Unmarshal(raw, &s) != nil {
		return "", invalid(p.method, "at /"+key+": must be string")
	}
	if len(s) > limit {
		return "", invalid(p.method, fmt.Sprintf("at /%s: must not have more than %d characters", key, limit))
	}
	return s, nil
}

// whole takes an integer member between low and high; def is its value when it
// is left out.
func (p params) whole(key string, low, high, def int64) (int64, error) {
	raw, ok := p.members[key]
	if !ok {
		return def, nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case err != nil && errors.Is(err, strconv.ErrRange), err == nil && n > high:
		if strings.HasPrefix(string(raw), "-") {
			return 0, invalid(p.method, fmt.Sprintf("at /%s: must be >= %d", key, low))
		}
		return 0, invalid(p.method, fmt.Sprintf("at /%s: must be <= %d", key, high))
	case err != nil:
		return 0, invalid(p.method, "at /"+key+": must be integer")
	case n < low:
		return 0, invalid(p.method, fmt.Sprintf("at /%s: must be >= %d", key, low))
	}
	return n, nil
}

// flag takes a boolean member.
func (p params) flag(key string) (bool, error) {
	switch raw, ok := p.members[key]; {
	case !ok, string(raw) == "false":
		return false, nil
	case string(raw) == "true":
		return true, nil
	}
	return false, invalid(p.method, "at /"+key+": must be boolean")
}

// word takes a string member that is one of the allowed words; def is its
// value when it is left out.
func (p params) word(key, def string, allowed ...string) (string, error) {
	if _, ok := p.members[key]; !ok {
		return def, nil
	}
	s, err := p.text(key, 64)
	if err != nil {
		return "", err
	}
	if slices.Contains(allowed, s) {
		return s, nil
	}
	return "", invalid(p.method, "at /"+key+": must be equal to one of the allowed values: "+strings.Join(allowed, ", "))
}

// words takes an array of 1 to len(allowed) allowed words.
func (p params) words(key string, allowed ...string) ([]string, error) {
	raw, ok := p.members[key]
	if !ok {
		return nil, nil
	}
	var list []string
	if string(raw) == "null" || json.Unmarshal(raw, &list) != nil {
		return nil, invalid(p.method, "at /"+key+": must be array of strings")
	}
	if len(list) < 1 || len(list) > len(allowed) {
		return nil, invalid(p.method, fmt.Sprintf("at /%s: must have 1 to %d items", key, len(allowed)))
	}
	for i, s := range list {
		if !slices.Contains(allowed, s) {
			return nil, invalid(p.method, fmt.Sprintf("at /%s/%d: must be equal to one of the allowed values: %s", key, i, strings.Join(allowed, ", ")))
		}
	}
	return list, nil
}

// id takes the one id of a single-job method, under either of its names.
func (p params) id() (string, error) {
	id, given, err := p.optionalID()
	if err == nil && (!given || id == "") {
		err = invalid(p.method, "missing id")
	}
	return id, err
}

func (p params) optionalID() (id string, given bool, err error) {
	_, hasID := p.members["id"]
	_, hasJobID := p.members["jobId"]
	key := "id"
	switch {
	case hasID && hasJobID:
		return "", false, invalid(p.method, "at root: must match a schema in anyOf (give either id or jobId)")
	case hasJobID:
		key = "jobId"
	case !hasID:
		return "", false, nil
	}
	id, err = p.text(key, 1024)
	return strings.TrimSpace(id), true, err
}
