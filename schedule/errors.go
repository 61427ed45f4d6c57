package schedule

import "strings"

// The catalogue of error codes. It is append-only: a code that was published
// keeps its spelling and meaning.
const (
	// CodeSyntax: the text does not have the form that is expected there.
	CodeSyntax = "syntax"
	// CodeRange: a number is outside what the field or the calendar allows.
	CodeRange = "range"
	// CodeNever: well formed, but no date can ever match.
	CodeNever = "never"
	// CodeZone: not a time zone name that the zone data holds.
	CodeZone = "zone"
	// CodePast: an instant that has gone by. This package has no clock and never
	// returns it; it is listed here for the callers that compare with now.
	CodePast = "past"
	// CodeGap: a local time that the clocks jump over in that zone.
	CodeGap = "gap"
	// CodeAmbiguousUnit: a bare number that could be seconds or milliseconds.
	CodeAmbiguousUnit = "ambiguous-unit"
	// CodeCharacter: a character that no expression may contain, often invisible.
	CodeCharacter = "character"
	// CodeTooLong: longer than any sensible input.
	CodeTooLong = "too-long"
	// CodeAlias: an @word that is not a cron alias.
	CodeAlias = "alias"
	// CodeZonePrefix: TZ= or CRON_TZ= inside an expression.
	CodeZonePrefix = "zone-prefix"
	// CodeDST: not the name of a daylight-saving rule.
	CodeDST = "dst"
)

// Error says what is wrong with a schedule, where, and what to type instead.
type Error struct {
	Code    string // one of the Code constants
	Field   string // "minute", "hour", "day of month", "tz", "at", "every", … or empty for the whole
	Input   string // the offending text, cut to a bounded length
	Message string // what is wrong, a clause without a full stop
	Hint    string // what to type next; may be empty
}

// Error returns the field and the message; the hint is for the caller to place.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// maxEchoBytes bounds how much of a bad input an error repeats.
const maxEchoBytes = 64

func fault(code, field, input, message, hint string) *Error {
	return &Error{Code: code, Field: field, Input: echo(input), Message: message, Hint: hint}
}

// echo shortens s for a message and keeps it valid text.
func echo(s string) string {
	if len(s) > maxEchoBytes {
		s = s[:maxEchoBytes] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
