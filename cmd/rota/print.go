package main

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/rota-scheduler/rota/worker/job"
)

// printJSON prints one document, indented.
func (a *app) printJSON(v any) {
	raw, err := job.Encode(v)
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
	raw, err := job.Encode(v)
	if err != nil {
		return err
	}
	_, err = a.out.Write(append(escapeJSON(raw), '\n'))
	return err
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
