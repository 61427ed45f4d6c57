package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rota-scheduler/rota/worker/job"
)

// FileError is what is wrong with a file somebody wrote: where, and what to
// type instead.
type FileError struct {
	File    string
	Line    int // from 1; 0 = the file as a whole
	Message string
	Hint    string // what to type next; may be empty
	Err     error  // cause; nil if none
}

// Error gives file:line: message (hint).
func (e *FileError) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	text += ": " + e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Unwrap gives the cause.
func (e *FileError) Unwrap() error { return e.Err }

// maxFileBytes bounds a jobs file and a configuration.
const maxFileBytes = 16 << 20

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &FileError{File: path, Message: "cannot be opened", Err: errors.Unwrap(err)}
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, &FileError{File: path, Message: "cannot be read", Err: errors.Unwrap(err)}
	}
	if len(raw) > maxFileBytes {
		return nil, &FileError{File: path, Message: fmt.Sprintf("is larger than %d MiB", maxFileBytes>>20), Hint: "split it"}
	}
	return raw, nil
}

// document reads a JSON file token by token and knows the line it is at.
type document struct {
	file string
	raw  []byte
	dec  *json.Decoder
}

func newDocument(file string, raw []byte) *document {
	raw = bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))
	return &document{file: file, raw: raw, dec: json.NewDecoder(bytes.NewReader(raw))}
}

// line is the line of the last byte read.
func (d *document) line() int { return d.lineAt(d.dec.InputOffset() - 1) }

// valueLine is the line on which the next value starts.
func (d *document) valueLine() int {
	at := d.dec.InputOffset()
	for at < int64(len(d.raw)) && bytes.IndexByte([]byte(" \t\r\n,:"), d.raw[at]) >= 0 {
		at++
	}
	return d.lineAt(at)
}

func (d *document) lineAt(offset int64) int {
	offset = min(max(offset, 0), int64(len(d.raw)))
	return 1 + bytes.Count(d.raw[:offset], []byte("\n"))
}

func (d *document) fault(line int, message, hint string) *FileError {
	return &FileError{File: d.file, Line: line, Message: message, Hint: hint}
}

// syntax turns an error of the decoder into a place in the file. A decoder
// that reads token by token does not say where; one that reads the whole does.
func (d *document) syntax(err error) *FileError {
	var whole json.RawMessage
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal(d.raw, &whole), &syntax) {
		return &FileError{File: d.file, Line: d.line(), Message: "cannot be read", Err: err}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return d.fault(d.lineAt(int64(len(d.raw))), "ends too early", "close every [ and {")
	}
	return d.fault(d.lineAt(syntax.Offset-1), "is not JSON here: "+syntax.Error(), "look for a missing or a trailing comma, and for comments")
}

// value reads the next value whole.
func (d *document) value() (json.RawMessage, error) {
	line := d.valueLine()
	var raw json.RawMessage
	if err := d.dec.Decode(&raw); err != nil {
		return nil, d.syntax(err)
	}
	if len(raw) > 0 && (raw[0] == '{' || raw[0] == '[') {
		if err := job.CheckKeys(raw); err != nil {
			var refusal *job.Error
			if errors.As(err, &refusal) {
				return nil, d.fault(line, refusal.Message, refusal.Hint)
			}
			return nil, d.fault(line, err.Error(), "")
		}
	}
	return raw, nil
}

// open reads the delimiter that starts an object or an array.
func (d *document) open(want json.Delim, what string) error {
	line := d.valueLine()
	tok, err := d.dec.Token()
	if err != nil {
		return d.syntax(err)
	}
	if tok != want {
		return d.fault(line, what, "")
	}
	return nil
}

// members calls each for every key of the object that was opened, and reads
// its end. Duplicate keys are refused.
func (d *document) members(each func(key string, line int) error) error {
	seen := map[string]bool{}
	for d.dec.More() {
		line := d.valueLine()
		tok, err := d.dec.Token()
		if err != nil {
			return d.syntax(err)
		}
		key, ok := tok.(string)
		if !ok {
			return d.fault(line, "must have a key here", "")
		}
		if seen[key] {
			return d.fault(line, fmt.Sprintf("says %q twice", key), "keep one of them")
		}
		seen[key] = true
		if err := each(key, line); err != nil {
			return err
		}
	}
	if _, err := d.dec.Token(); err != nil {
		return d.syntax(err)
	}
	return nil
}

// end checks that nothing follows.
func (d *document) end() error {
	line := d.valueLine()
	if _, err := d.dec.Token(); !errors.Is(err, io.EOF) {
		return d.fault(line, "has something after its end", "one file holds one document")
	}
	return nil
}
