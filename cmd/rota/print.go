package main

import (
	"bytes"
	"encoding/json"
	"os"
)

// printJSON prints one document, indented.
func (a *app) printJSON(v any) {
	raw, err := marshal(v)
	if err != nil {
		a.talkf("rota: %v\n", err)
		return
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		a.talkf("rota: %v\n", err)
		return
	}
	b.WriteByte('\n')
	a.print(escapeJSON(b.Bytes()))
}

// printJSONLine prints one line of a stream.
func (a *app) printJSONLine(v any) error {
	raw, err := marshal(v)
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(escapeJSON(raw), '\n'))
	return err
}

// marshal is json.Marshal without the escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// print writes a result. A failed write stays in the writer and is told when
// the command ends.
func (a *app) print(b []byte) { _, _ = a.out.Write(b) }

func (a *app) printText(s string) { _, _ = a.out.WriteString(s) }

// isTerminal asks whether f is a character device, which is what a terminal is
// where colour and relative comfort matter.
func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// colored reports whether results may hold colour.
func (a *app) colored() (bool, error) {
	switch a.color {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto":
		return a.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb", nil
	}
	return false, usage("--color must be auto, always or never, not %q", a.color)
}
