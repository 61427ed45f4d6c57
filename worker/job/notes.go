package job

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Notes are what bites later if nobody says it at once: one sentence each,
// about a default that was filled in or a rule that will apply.

func duration(ms int64) string {
	text := (time.Duration(ms) * time.Millisecond).String()
	for _, zero := range []string{"m0s", "h0m"} {
		if trimmed, ok := strings.CutSuffix(text, zero); ok {
			text = trimmed + zero[:1]
		}
	}
	return text
}

// failureNote says what follows a failed run: there is no second try.
func failureNote(kind string) string {
	if kind == "at" {
		return "a run that fails is not tried again: the job is disabled and kept"
	}
	return "a run that fails is not tried again: the next slot is the next run"
}

// creationNotes gives the notes that hold for a new definition as a whole.
func creationNotes(kind string, payload json.RawMessage, deleteAfterRun bool) []string {
	notes := []string{failureNote(kind)}
	timeout := false
	for key := range rawjson.Members(payload) {
		timeout = timeout || key == "timeoutSeconds"
	}
	if !timeout {
		notes = append([]string{"a run is ended after " + duration(defaultTimeoutMs) + ", the default; timeoutSeconds sets another limit, 0 none"}, notes...)
	}
	if deleteAfterRun {
		notes = append(notes, "the job is deleted after a successful run; it runs at most once, and a run that a crash cuts short is recorded as interrupted, not repeated")
	}
	return notes
}
