package job

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/schedule"
)

// The forms of a refusal. Clients match on these texts, so each is written
// once, here.

// invalid refuses the value at a JSON pointer: "at /limit: must be >= 1".
func invalid(path, reason string) *Error {
	return &Error{Code: CodeInvalid, Field: path, Message: "at " + place(path) + ": " + reason}
}

// invalidf is invalid with a formatted reason.
func invalidf(path, format string, args ...any) *Error {
	return invalid(path, fmt.Sprintf(format, args...))
}

// missing refuses an object that lacks a member.
func missing(path, key string) *Error {
	e := &Error{Code: CodeInvalid, Field: path + "/" + key, Message: "must have required property '" + key + "'"}
	if path != "" {
		e.Message = "at " + path + ": " + e.Message
	}
	return e
}

// unexpected refuses a member that a closed object does not have.
func unexpected(path, key string) *Error {
	key = cut(key, maxEchoBytes)
	e := invalid(path, "unexpected property '"+key+"'")
	e.Field = path + "/" + pointer(key)
	return e
}

// oneOf refuses a word that is not in its list.
func oneOf(path string, allowed []string) *Error {
	e := invalid(path, "must be equal to one of the allowed values")
	e.Hint = "one of: " + strings.Join(allowed, ", ")
	return e
}

// unsupported refuses a kind that the wire contract knows and this build does
// not run. Taking it would be a promise that nothing keeps.
func unsupported(path, what, kind string, available []string) *Error {
	return &Error{
		Code:    CodeUnsupported,
		Field:   path,
		Message: fmt.Sprintf("%s %q is not available in this build; available: %s", what, kind, strings.Join(available, ", ")),
		Plain:   true,
	}
}

// unsupportedFeature is unsupported for a member that has no kinds.
func unsupportedFeature(path, what string) *Error {
	return &Error{
		Code:    CodeUnsupported,
		Field:   path,
		Message: what + " is not available in this build",
		Hint:    "leave it out",
		Plain:   true,
	}
}

// fromSchedule turns a refusal of the schedule package into one of ours.
// Expressions keep the wording that clients of the wire contract know.
func fromSchedule(path string, err error) *Error {
	var s *schedule.Error
	if !errors.As(err, &s) {
		return &Error{Code: CodeInvalid, Field: path, Message: "at " + place(path) + ": the schedule is not valid", Err: err}
	}
	e := &Error{Code: CodeInvalid, Field: path, Hint: s.Hint}
	switch {
	case !strings.HasSuffix(path, "/expr"):
		e.Message = "at " + place(path) + ": " + s.Message
	case s.Code == schedule.CodeRange && s.Field != "" && s.Input != "":
		e.Message = "CronPattern: Invalid value for " + s.Field + ": " + s.Input
	default:
		e.Message = "CronPattern: " + s.Error()
	}
	return e
}

// cut shortens text for a message.
func cut(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxBytes], "") + "…"
}
