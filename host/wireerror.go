package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/rota-scheduler/rota/worker/job"
)

// Wire codes are the top-level error codes of the protocol; the list is
// append-only.
const (
	CodeInvalidRequest = "INVALID_REQUEST" // sending it again cannot help
	CodeForbidden      = "FORBIDDEN"       // the caller lacks a scope
	CodeNotPaired      = "NOT_PAIRED"      // the caller does not say who it is
	CodeUnavailable    = "UNAVAILABLE"     // rota cannot now; see Retryable
)

// Detail codes are the machine-readable part of Details.
const (
	DetailJobNotFound = "CRON_JOB_NOT_FOUND"
	DetailJobChanged  = "CRON_JOB_CHANGED"
	DetailRunNotFound = "RUN_NOT_FOUND"

	DetailMissingScope     = "MISSING_SCOPE"
	DetailProtocolMismatch = "PROTOCOL_MISMATCH"
	DetailNoIdentity       = "DEVICE_IDENTITY_REQUIRED"
	DetailTokenMissing     = "AUTH_TOKEN_MISSING"
	DetailTokenMismatch    = "AUTH_TOKEN_MISMATCH"
	DetailAuthLimited      = "AUTH_RATE_LIMITED"
)

// WireError is a refusal as it goes over the wire.
type WireError struct {
	Code         string          `json:"code"`
	Message      string          `json:"message"`
	Details      json.RawMessage `json:"details,omitempty"` // an object
	Retryable    bool            `json:"retryable,omitempty"`
	RetryAfterMs int64           `json:"retryAfterMs,omitempty"`
}

// Error gives the message.
func (e *WireError) Error() string { return e.Message }

// Detail gives one string member of Details, or "".
func (e *WireError) Detail(key string) string {
	var members map[string]json.RawMessage
	if json.Unmarshal(e.Details, &members) != nil {
		return ""
	}
	var text string
	if json.Unmarshal(members[key], &text) != nil {
		return ""
	}
	return text
}

// retryAfterMs is what a caller is told to wait when the worker cannot now.
const retryAfterMs = 1000

// wireCodes says, for each code of a refusal, what the wire says and whether
// the same request may succeed later.
var wireCodes = map[job.Code]struct {
	code      string
	retryable bool
}{
	job.CodeInvalid:     {CodeInvalidRequest, false},
	job.CodeNotFound:    {CodeInvalidRequest, false},
	job.CodeChanged:     {CodeInvalidRequest, false},
	job.CodeConflict:    {CodeInvalidRequest, false},
	job.CodeUnsupported: {CodeInvalidRequest, false},
	job.CodeOverloaded:  {CodeUnavailable, true},
	job.CodeStopping:    {CodeUnavailable, true},
	job.CodeStorageFull: {CodeUnavailable, true},
	job.CodeStorage:     {CodeUnavailable, true},
	// The request may have been carried out: only a caller with a request key
	// can safely send it again, so nobody is invited to.
	job.CodeUnknown: {CodeUnavailable, false},
}

// wireError maps any error of a handler to the wire. method gives invalid
// parameters their prefix.
func wireError(method string, err error) *WireError {
	var wire *WireError
	if errors.As(err, &wire) {
		return wire
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return &WireError{Code: CodeUnavailable, Message: "the request was given up before it was answered; it may have been carried out",
			Details: object("reason", "gave_up", "execution", "may_have_executed")}
	}
	var refusal *job.Error
	if !errors.As(err, &refusal) {
		return &WireError{Code: CodeUnavailable, Message: "Error: " + err.Error()}
	}
	mapped, ok := wireCodes[refusal.Code]
	if !ok {
		return &WireError{Code: CodeUnavailable, Message: "Error: " + err.Error()}
	}
	e := &WireError{Code: mapped.code, Message: refusalText(method, refusal), Details: refusalDetails(refusal), Retryable: mapped.retryable}
	if e.Retryable {
		e.RetryAfterMs = retryAfterMs
	}
	return e
}

// refusalText is the sentence of a refusal: the cause is for operators and is
// told only where storage failed, and the hint travels in the details.
func refusalText(method string, e *job.Error) string {
	text := e.Message
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	if e.Code == job.CodeInvalid && !e.Plain && !strings.HasPrefix(text, "invalid ") {
		text = "invalid " + method + " params: " + text
	}
	return text
}

// refusalDetails keeps the details of the wire contract and adds the reason,
// the place and what to type next.
func refusalDetails(e *job.Error) json.RawMessage {
	extra := []job.Member{{Key: "reason", Value: quoted(string(e.Code))}}
	if e.Field != "" {
		extra = append(extra, job.Member{Key: "field", Value: quoted(e.Field)})
	}
	if e.Hint != "" {
		extra = append(extra, job.Member{Key: "hint", Value: quoted(e.Hint)})
	}
	if e.Code == job.CodeUnknown {
		extra = append(extra, job.Member{Key: "execution", Value: quoted("may_have_executed")})
	}
	base := []byte(e.Details)
	if len(base) == 0 {
		base = []byte("{}")
	}
	details, err := job.Set(base, extra...)
	if err != nil {
		return e.Details
	}
	return details
}

// notFound is the refusal for a job that is not there. The two openings are
// what clients look for: cron.get has its own.
func notFound(method, id string) *WireError {
	opening := "Automation not found: "
	if method == "cron.get" {
		opening = "cron job not found: "
	}
	return &WireError{
		Code:    CodeInvalidRequest,
		Message: fmt.Sprintf("%s%s. Ask cron.list for the jobs there are and use an id of now.", opening, id),
		Details: object("code", DetailJobNotFound, "jobId", id),
	}
}

// invalid is a refusal of parameters.
func invalid(method, reason string) *WireError {
	return &WireError{Code: CodeInvalidRequest, Message: "invalid " + method + " params: " + reason}
}

// object builds a JSON object of string members, in order.
func object(pairs ...string) json.RawMessage {
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(pairs[i]))
		b.WriteByte(':')
		b.Write(quoted(pairs[i+1]))
	}
	b.WriteByte('}')
	return json.RawMessage(b.String())
}

// quoted is a string as JSON. Strings always marshal.
func quoted(s string) json.RawMessage {
	raw, _ := json.Marshal(s)
	return raw
}

// missingScope are the details of a refusal for want of a scope.
func missingScope(scope string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"code":%q,"missingScope":%q,"requiredScopes":[%q]}`, DetailMissingScope, scope, scope))
}
