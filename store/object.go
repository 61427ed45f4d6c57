package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Member is one key of a JSON object with its value's bytes.
type Member struct {
	Key   string
	Value json.RawMessage // nil removes the member
}

var errNotObject = errors.New("not a JSON object")

// SetMembers edits top-level members of a JSON object on its bytes: members
// that are not named keep their bytes and their place, new ones go to the end.
// The input is not modified.
func SetMembers(object []byte, edits ...Member) ([]byte, error) {
	out := make([]byte, 0, len(object)+64)
	out = append(out, '{')
	done := make([]bool, len(edits))
	put := func(key, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, key...)
		out = append(out, ':')
		out = append(out, value...)
	}
	err := scanMembers(object, func(rawKey []byte, key string, value []byte) error {
		for i, e := range edits {
			if e.Key != key {
				continue
			}
			if !done[i] && e.Value != nil {
				put(rawKey, e.Value)
			}
			done[i] = true
			return nil
		}
		put(rawKey, value)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, e := range edits {
		if done[i] || e.Value == nil {
			continue
		}
		key, err := json.Marshal(e.Key)
		if err != nil {
			return nil, err
		}
		put(key, e.Value)
	}
	return append(out, '}'), nil
}

// EachMember calls f with every top-level member in order. Values alias the input.
func EachMember(object []byte, f func(key string, value json.RawMessage) error) error {
	return scanMembers(object, func(_ []byte, key string, value []byte) error { return f(key, value) })
}

// scanMembers walks the top level of one object. It relies on json.Valid for
// the grammar and then only has to find ends, which keeps it short.
func scanMembers(object []byte, f func(rawKey []byte, key string, value []byte) error) error {
	if !json.Valid(object) {
		return errNotObject
	}
	b := bytes.TrimSpace(object)
	if len(b) == 0 || b[0] != '{' {
		return errNotObject
	}
	i := 1
	for {
		i = skipSpace(b, i)
		if b[i] == '}' {
			return nil
		}
		if b[i] == ',' {
			i = skipSpace(b, i+1)
		}
		keyEnd := valueEnd(b, i)
		rawKey := b[i:keyEnd]
		key, err := keyText(rawKey)
		if err != nil {
			return err
		}
		i = skipSpace(b, keyEnd)
		i = skipSpace(b, i+1) // the colon
		end := valueEnd(b, i)
		if err := f(rawKey, key, b[i:end]); err != nil {
			return err
		}
		i = end
	}
}

func keyText(raw []byte) (string, error) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", fmt.Errorf("key %s: %w", raw, err)
	}
	return s, nil
}

func skipSpace(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r' {
		i++
	}
	return i
}

// valueEnd finds the end of the valid JSON value that starts at i.
func valueEnd(b []byte, i int) int {
	depth := 0
	for ; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // a bare literal ended by its container
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}
