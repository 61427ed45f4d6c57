package job

import (
	"encoding/json"
	"errors"
	"strings"
)

// Code classifies a refusal. The list is append-only: scripts and clients
// match on it.
type Code string

const (
	// CodeInvalid: the request itself is wrong; sending it again cannot help.
	CodeInvalid Code = "invalid"
	// CodeNotFound: no such job, run or slot.
	CodeNotFound Code = "not_found"
	// CodeChanged: the job is no longer at the revision the caller expected.
	CodeChanged Code = "changed"
	// CodeConflict: the state of the job forbids it now (ambiguous key, key reused for another request).
	CodeConflict Code = "conflict"
	// CodeUnsupported: a kind this build does not run; the message names it.
	CodeUnsupported Code = "unsupported"
	// CodeOverloaded: the command lane is full; retry after a moment.
	CodeOverloaded Code = "overloaded"
	// CodeStopping: the worker takes no more commands.
	CodeStopping Code = "stopping"
	// CodeStorageFull: the disk is full; outcomes and reads go on, writes do not.
	CodeStorageFull Code = "storage_full"
	// CodeStorage: the storage failed; Err tells how.
	CodeStorage Code = "storage"
	// CodeUnknown: the storage failed during a commit and the answer could not be read back.
	CodeUnknown Code = "unknown"
)

// Error is how rota refuses: what was wrong, where, why, and what to type
// next. It is returned, never also logged.
type Error struct {
	Code    Code
	Op      string // what was attempted: "cron.add", "commit"
	Field   string // where, as a JSON pointer ("/schedule/expr") or a flag; empty if nowhere in particular
	Message string // one sentence, for people
	Hint    string // what to type next; empty if there is nothing to do
	// Plain says that Message is a sentence of its own: a surface that prefixes
	// the refusals of parameters ("invalid cron.add params: …") leaves it alone.
	Plain   bool
	Details json.RawMessage // machine-readable detail of the wire contract, an object; nil if none
	Err     error           // cause, for operators; nil if none
	past    bool
}

// InThePast reports whether an error refuses a one-shot because its time has
// gone by. Whoever applies a list of jobs again, at each start, may leave such
// a job out instead of refusing the list.
func InThePast(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.past
}

// during names what was attempted in a refusal that does not say it yet.
func during(op string, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Op == "" {
		e.Op = op
	}
	return err
}

// Error gives the message, the hint and the cause on one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	if e.Hint != "" {
		b.WriteString(" (")
		b.WriteString(e.Hint)
		b.WriteString(")")
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }
