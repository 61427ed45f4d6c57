package job

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// memberOf gives the value of one key, nil if the object lacks it. Of a key
// that is given twice the last value counts, as in most readers.
func memberOf(object []byte, key string) json.RawMessage {
	var found json.RawMessage
	for k, value := range Members(object) {
		if k == key {
			found = value
		}
	}
	return found
}

// changedOnly drops the edits that would change nothing, so that equal values
// in another spelling leave the bytes alone.
func changedOnly(object []byte, edits []Member) []Member {
	return slices.DeleteFunc(slices.Clone(edits), func(e Member) bool {
		old := memberOf(object, e.Key)
		if e.Value == nil || old == nil {
			return e.Value == nil && old == nil
		}
		return sameJSON(old, e.Value)
	})
}

// lastOfEach keeps the last edit of each key, in the order they first appear.
func lastOfEach(edits []Member) []Member {
	var kept []Member
	for i, e := range edits {
		if lastEdit(edits, e.Key) == i {
			kept = append(kept, e)
		}
	}
	return kept
}

// sameJSON reports whether two values mean the same: key order, white space and
// the escapes of strings do not count.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(a, b) || bytes.Equal(appendCanonical(nil, a), appendCanonical(nil, b))
}

// appendCanonical writes a value with its keys sorted, strings in one spelling
// and no white space. Top-level members named in without are left out.
func appendCanonical(b []byte, raw json.RawMessage, without ...string) []byte {
	text := trimSpace(raw)
	if len(text) == 0 {
		return b
	}
	switch text[0] {
	case '{':
		return appendSorted(b, text, without)
	case '[':
		b = append(b, '[')
		first := true
		for element := range elements(text) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendCanonical(b, element)
		}
		return append(b, ']')
	case '"':
		if bytes.IndexByte(text, '\\') < 0 {
			return append(b, text...)
		}
		s, ok := textOf(json.RawMessage(text))
		if !ok {
			return append(b, text...)
		}
		return appendString(b, s)
	}
	return append(b, text...)
}

func appendSorted(b []byte, object []byte, without []string) []byte {
	members := make([]Member, 0, 16)
	for key, value := range Members(object) {
		if !slices.Contains(without, key) {
			members = append(members, Member{key, value})
		}
	}
	slices.SortStableFunc(members, func(a, c Member) int { return strings.Compare(a.Key, c.Key) })
	b = append(b, '{')
	wrote := false
	for i, m := range members {
		if i+1 < len(members) && members[i+1].Key == m.Key {
			continue // given twice: the last one counts
		}
		if wrote {
			b = append(b, ',')
		}
		wrote = true
		b = append(appendString(b, m.Key), ':')
		b = appendCanonical(b, m.Value)
	}
	return append(b, '}')
}
