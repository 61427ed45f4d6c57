package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// member is one member of an object as an independent reader sees it.
type plainMember struct {
	key   string
	value string
}

// readMembers reads an object with the standard decoder.
func readMembers(t *testing.T, object []byte) []plainMember {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(object))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		t.Fatalf("%q is not an object: %v, %v", object, token, err)
	}
	var members []plainMember
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		members = append(members, plainMember{key.(string), string(value)})
	}
	return members
}

// Valid objects stay valid, the edit is in the result, and members that it
// does not name keep their bytes and their order.
func FuzzSet(f *testing.F) {
	for _, object := range []string{`{}`, `{ }`, `{"a":1}`, `{"a":1,"b":[{"a":2}],"a":3}`, "{\n\t\"a\" : \"x\\\"y\" ,\n\t\"b\":{}\n}\n", `{"\u0061":1e5,"":null}`, `[1]`, `{"a":`} {
		f.Add(object, "a", `{"z": 1}`)
		f.Add(object, "new", ``)
		f.Add(object, "", `7`)
	}
	f.Fuzz(func(t *testing.T, object, key, value string) {
		edit := Member{Key: key}
		if value != "" {
			edit.Value = json.RawMessage(value)
		}
		got, err := Set([]byte(object), edit)
		trimmed := strings.TrimLeft(object, " \t\r\n")
		ok := json.Valid([]byte(object)) && trimmed[0] == '{' && (value == "" || json.Valid([]byte(value)))
		if (err == nil) != ok {
			t.Fatalf("Set(%q, %q, %q): %v", object, key, value, err)
		}
		if err != nil {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("Set(%q, %q, %q) = %q is not JSON", object, key, value, got)
		}
		// A key that is not valid UTF-8 is written as U+FFFD.
		name := strings.ToValidUTF8(key, "\uFFFD")
		var before, after, edited []plainMember
		for _, m := range readMembers(t, []byte(object)) {
			if m.key != key {
				before = append(before, m)
			}
		}
		for _, m := range readMembers(t, got) {
			if m.key == key || m.key == name {
				edited = append(edited, m)
				continue
			}
			after = append(after, m)
		}
		if name != key {
			return // such a key can collide with one that is spelled U+FFFD
		}
		if len(before) != len(after) {
			t.Fatalf("Set(%q, %q, %q) = %q changed other members", object, key, value, got)
		}
		for i := range before {
			if before[i] != after[i] {
				t.Fatalf("Set(%q, %q, %q) = %q changed %q", object, key, value, got, before[i].key)
			}
		}
		switch {
		case value == "" && len(edited) != 0, value != "" && (len(edited) != 1 || edited[0].value != strings.Trim(value, " \t\r\n")):
			t.Fatalf("Set(%q, %q, %q) = %q", object, key, value, got)
		}
	})
}
