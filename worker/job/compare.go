package job

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// setMember is memberOf for readers to whom null is the same as absent.
func setMember(object []byte, key string) (json.RawMessage, bool) {
	value := rawjson.Get(object, key)
	return value, value != nil && !isNull(value)
}

// changedOnly drops the edits that would change nothing, so that equal values
// in another spelling leave the bytes alone.
func changedOnly(object []byte, edits []rawjson.Member) []rawjson.Member {
	return slices.DeleteFunc(slices.Clone(edits), func(e rawjson.Member) bool {
		old := rawjson.Get(object, e.Key)
		if e.Value == nil || old == nil {
			return e.Value == nil && old == nil
		}
		return sameJSON(old, e.Value)
	})
}

// lastEdit gives the index of the edit that counts for a key, or -1.
func lastEdit(edits []rawjson.Member, key string) int {
	for i := len(edits) - 1; i >= 0; i-- {
		if edits[i].Key == key {
			return i
		}
	}
	return -1
}

// lastOfEach keeps the last edit of each key, in the order they first appear.
func lastOfEach(edits []rawjson.Member) []rawjson.Member {
	var kept []rawjson.Member
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
	text := bytes.TrimSpace(raw)
	if len(text) == 0 {
		return b
	}
	switch text[0] {
	case '{':
		return appendSorted(b, text, without)
	case '[':
		b = append(b, '[')
		first := true
		for element := range rawjson.Elements(text) {
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
		return rawjson.AppendString(b, s)
	}
	return append(b, text...)
}

func appendSorted(b []byte, object []byte, without []string) []byte {
	type member struct{ key, value []byte } // the object's own bytes
	var room [24]member
	members := room[:0]
	for key, value := range rawjson.Fields(object) {
		if !slices.ContainsFunc(without, func(w string) bool { return string(key) == w }) {
			members = append(members, member{key, value})
		}
	}
	slices.SortStableFunc(members, func(a, c member) int { return bytes.Compare(a.key, c.key) })
	b = append(b, '{')
	wrote := false
	for i, m := range members {
		if i+1 < len(members) && bytes.Equal(members[i+1].key, m.key) {
			continue // given twice: the last one counts
		}
		if wrote {
			b = append(b, ',')
		}
		wrote = true
		b = append(rawjson.AppendString(b, string(m.key)), ':')
		b = appendCanonical(b, m.value)
	}
	return append(b, '}')
}
