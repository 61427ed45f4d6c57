// Package rawjson edits JSON objects on their bytes: members that nobody names
// keep their bytes, their order and the white space around them. It is how
// keys that rota does not know survive its writes.
//
// It does not decode values, and it expects text that is valid JSON; anything
// else is refused by Set and ends the walks.
package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"
)

// Member is one edit of a JSON object: Key gets Value, or is removed when
// Value is nil.
type Member struct {
	Key   string
	Value json.RawMessage
}

// Set edits the top-level members of a JSON object on its bytes, in one pass.
// Keys that exist are replaced where they stand, new ones are appended in the
// order given. Members that no edit names keep their bytes, their order and
// the white space around them. Where the object says a key twice, the edit
// leaves one, so that readers that take the first and readers that take the
// last agree afterwards.
//
// Two edits of one key are an error of the caller: the last one counts.
func Set(object []byte, edits ...Member) ([]byte, error) {
	if !Valid(object) {
		return nil, errNotObject
	}
	if s := (scan{text: object}); !s.begin() {
		return nil, errNotObject
	}
	for _, e := range edits {
		if e.Value != nil && !Valid(e.Value) {
			return nil, fmt.Errorf("the new value of %q is not valid JSON", e.Key)
		}
	}
	grown := 0
	for _, e := range edits {
		grown += len(e.Key) + len(e.Value) + 8
	}
	return AppendSet(make([]byte, 0, len(object)+grown), object, edits...), nil
}

// AppendSet is Set for an object and values that are known to be valid JSON: it
// appends the object as edited.
func AppendSet(b, object []byte, edits ...Member) []byte {
	s := scan{text: object}
	if !s.begin() {
		return append(b, object...)
	}
	begun := s.at
	b = append(b, object[:begun]...)
	open := len(b)
	var few [48]bool
	written := few[:]
	if len(edits) > len(few) {
		written = make([]bool, len(edits))
	}
	var last span // the member before
	members, wrote := 0, false
	for from := begun; s.next(); from = s.at + 1 {
		last = span{from, s.valueEnd, s.at}
		members++
		edit := editOf(edits, s.key)
		if edit >= 0 && (edits[edit].Value == nil || written[edit]) {
			continue
		}
		if wrote {
			b = append(b, ',')
		}
		wrote = true
		if edit < 0 {
			b = append(b, object[from:s.at]...)
			continue
		}
		written[edit] = true
		b = append(b, object[from:s.valueAt]...)
		b = append(b, edits[edit].Value...)
		b = append(b, object[s.valueEnd:s.at]...)
	}
	indent := indentOf(object, last)
	for i := range edits {
		e := &edits[i]
		if e.Value == nil || written[i] || lastEdit(edits, e.Key) != i {
			continue
		}
		if wrote {
			b = append(trimSpaceRight(b, open), ',')
		}
		wrote = true
		b = append(b, indent...)
		b = AppendString(b, e.Key)
		b = append(b, ':')
		b = append(b, e.Value...)
	}
	switch {
	case members > 0:
		b = append(trimSpaceRight(b, open), object[last.valueEnd:last.to]...)
	case !wrote:
		b = append(b, object[begun:s.at]...)
	}
	return append(b, object[s.at:]...)
}

// Members walks the top-level members of a JSON object in order. Keys are
// decoded, values are the object's own bytes. It stops where the text stops
// being an object.
func Members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) {
		s := scan{text: object}
		if !s.begin() {
			return
		}
		for s.next() {
			if !yield(unquoteKey(s.key), s.value()) {
				return
			}
		}
	}
}

// Fields is Members for readers that look for keys they know: a key is bytes, of
// the object itself where nothing in it is escaped, so that none is copied.
func Fields(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) {
		s := scan{text: object}
		if !s.begin() {
			return
		}
		for s.next() {
			if len(s.key) < 2 {
				return // a quote at the end of the text
			}
			key := s.key[1 : len(s.key)-1]
			if bytes.IndexByte(key, '\\') >= 0 {
				key = []byte(unquoteKey(s.key))
			}
			if !yield(key, s.value()) {
				return
			}
		}
	}
}

// Text decodes a JSON string; ok is false for any other value.
func Text(raw json.RawMessage) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", false
	}
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), true
	}
	return escaped(raw)
}

// escaped is Text where something has to be decoded.
func escaped(raw json.RawMessage) (text string, ok bool) {
	if json.Unmarshal(raw, &text) != nil {
		return "", false
	}
	return text, true
}

var errNotObject = errors.New("not a JSON object")

// span is where one member lies: from..to is everything between the comma or
// brace before it and the one after it, white space included.
type span struct{ from, valueEnd, to int }

// editOf gives the index of the edit that counts for a key as it stands, or -1.
func editOf(edits []Member, quoted []byte) int {
	if len(quoted) < 2 {
		return -1
	}
	key := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(key, '\\') >= 0 || !utf8.Valid(key) {
		key = []byte(unquoteKey(quoted))
	}
	for i := len(edits) - 1; i >= 0; i-- {
		if string(key) == edits[i].Key {
			return i
		}
	}
	return -1
}

// lastEdit gives the index of the edit that counts for a key, or -1.
func lastEdit(edits []Member, key string) int {
	for i := len(edits) - 1; i >= 0; i-- {
		if edits[i].Key == key {
			return i
		}
	}
	return -1
}

// indentOf is the white space before the last member: new members are laid
// out like it.
func indentOf(object []byte, last span) []byte {
	text := object[last.from:last.to]
	n := 0
	for n < len(text) && isSpace(text[n]) {
		n++
	}
	return text[:n]
}

// trimSpaceRight drops white space from the end of b, not going below keep.
func trimSpaceRight(b []byte, keep int) []byte {
	for len(b) > keep && isSpace(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}

// scan steps through the members of one object without building
// anything. It expects valid JSON and never reads outside the text when it
// gets something else.
type scan struct {
	text              []byte
	at                int // next byte to read; after next: the comma or closing brace
	first             bool
	key               []byte // quoted, as it stands
	valueAt, valueEnd int
}

func (s *scan) begin() bool {
	s.space()
	if s.at >= len(s.text) || s.text[s.at] != '{' {
		return false
	}
	s.at++
	s.first = true
	return true
}

// next finds one more member; false at the end of the object.
func (s *scan) next() bool {
	if !s.first {
		if s.at >= len(s.text) || s.text[s.at] != ',' {
			return false
		}
		s.at++
	}
	s.space()
	if s.at >= len(s.text) || s.text[s.at] != '"' {
		return false
	}
	s.first = false
	keyAt := s.at
	s.at = skipString(s.text, s.at)
	s.key = s.text[keyAt:s.at]
	s.space()
	if s.at >= len(s.text) || s.text[s.at] != ':' {
		return false
	}
	s.at++
	s.space()
	s.valueAt = s.at
	s.valueEnd = skipValue(s.text, s.at)
	s.at = s.valueEnd
	s.space()
	return s.valueEnd > s.valueAt
}

func (s *scan) value() json.RawMessage { return s.text[s.valueAt:s.valueEnd] }

// is compares the key.
func (s *scan) is(key string) bool { return keyIs(s.key, key) }

// keyIs compares a quoted key without decoding it where it has no escape.
func keyIs(quoted []byte, key string) bool {
	if bytes.IndexByte(quoted, '\\') >= 0 || !utf8.Valid(quoted) {
		return unquoteKey(quoted) == key
	}
	return len(quoted) == len(key)+2 && string(quoted[1:len(quoted)-1]) == key
}

func (s *scan) space() {
	for s.at < len(s.text) && isSpace(s.text[s.at]) {
		s.at++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// skipString gives the index after the string that starts at i.
func skipString(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// skipValue gives the index after the value that starts at i.
func skipValue(text []byte, i int) int {
	for depth := 0; i < len(text); {
		switch c := text[i]; c {
		case '"':
			i = skipString(text, i)
		case '{', '[':
			depth++
			i++
			continue
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return i
			}
			i++
			continue
		default:
			for i < len(text) && !isDelimiter(text[i]) {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return len(text)
}

func isDelimiter(c byte) bool {
	switch c {
	case ',', ':', '{', '}', '[', ']', '"', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

// unquoteKey decodes a key; most have no escape and are cut out as they are.
func unquoteKey(quoted []byte) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var key string
	if json.Unmarshal(quoted, &key) != nil {
		return string(quoted)
	}
	return key
}

// AppendString appends s as a JSON string, escaping only what JSON demands:
// what people typed is stored as they typed it.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\t':
			b = append(b, '\\', 't')
		case r == '\r':
			b = append(b, '\\', 'r')
		case r < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}

// Elements walks the Elements of a JSON array; the values are its own bytes.
func Elements(array []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) {
		i := 1
		for i < len(array) {
			for i < len(array) && (isSpace(array[i]) || array[i] == ',') {
				i++
			}
			end := skipValue(array, i)
			if end <= i || !yield(json.RawMessage(array[i:end])) {
				return
			}
			i = end
		}
	}
}

// Get gives the value of one key, nil if the object lacks it. Of a key
// that is given twice the last value counts, as in most readers.
func Get(object []byte, key string) json.RawMessage {
	from, to := Find(object, key)
	if to == 0 {
		return nil
	}
	return object[from:to]
}

// Find is Get for writers: where the value lies, 0 and 0 if the object lacks it.
func Find(object []byte, key string) (from, to int) {
	s := scan{text: object}
	if !s.begin() {
		return 0, 0
	}
	for s.next() {
		if s.is(key) {
			from, to = s.valueAt, s.valueEnd
		}
	}
	return from, to
}
