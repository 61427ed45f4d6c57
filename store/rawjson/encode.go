package rawjson

import (
	"bytes"
	"encoding/json"
	"sync"
)

// encoders are kept: a new one grows its buffer anew for each value.
var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.json = json.NewEncoder(&e.text)
	e.json.SetEscapeHTML(false)
	return e
}}

type encoder struct {
	text bytes.Buffer
	json *json.Encoder
}

// maxKept is the largest buffer that waits for its next use.
const maxKept = 64 << 10

// Encode is json.Marshal without HTML escapes: the bytes stored and sent are the
// bytes people wrote.
func Encode(v any) (json.RawMessage, error) {
	e := encoders.Get().(*encoder)
	e.text.Reset()
	if err := e.json.Encode(v); err != nil {
		return nil, err // and the encoder is not used again: it remembers
	}
	out := bytes.Clone(bytes.TrimRight(e.text.Bytes(), "\n"))
	if e.text.Cap() <= maxKept {
		encoders.Put(e)
	}
	return out, nil
}

// AppendWithout appends the members of an object, with a comma before each, but
// for those of some keys.
func AppendWithout(b, object []byte, keys ...string) []byte {
	s := scan{text: object}
	if !s.begin() {
		return b
	}
members:
	for s.next() {
		for _, key := range keys {
			if s.is(key) {
				continue members
			}
		}
		b = append(append(append(append(b, ','), s.key...), ':'), s.value()...)
	}
	return b
}
