package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Int is an optional integer of state_json. The zero value is "unset", which
// is not the same as 0.
type Int struct {
	N   int64
	Set bool
}

// Some makes a set Int.
func Some(n int64) Int { return Int{N: n, Set: true} }

// State is the typed view of the keys of state_json that rota reads or writes.
// Times are Unix milliseconds. Keys that are not here survive every write.
type State struct {
	NextRunAtMs               Int    // the persisted deadline
	QueuedAtMs                Int    // a request is committed and waits
	RunningAtMs               Int    // activated at
	RunningReceiptID          string // the receipt of that run
	RunningScheduleChangeID   string // the schedule was edited during the run
	LastRunAtMs               Int    // start of the last finished run
	LastRunStatus             string // ok, error, skipped
	LastStatus                string // old alias of LastRunStatus, written beside it
	LastError                 string
	LastErrorReason           string
	LastDiagnostics           json.RawMessage
	LastDiagnosticSummary     string
	LastDurationMs            Int
	ConsecutiveErrors         Int
	ConsecutiveSkipped        Int
	ScheduleErrorCount        Int
	AutoDisabled              json.RawMessage
	ScheduleActivatedAtMs     Int // slots before it were never missed
	StartupCatchupAtMs        Int // equals NextRunAtMs while a catch-up deferral is pending
	PacedNextRunAtMs          Int
	ForcePreservedNextRunAtMs Int
	LastRunInterruptionReason string
	LastDelivered             json.RawMessage // a boolean
	LastDeliveryStatus        string
	LastDeliveryError         string
	LastSuppressionReason     string // why a good run had nothing to deliver
	// RotaConsumedMs is the greatest slot ever decided. It only rises, but for
	// a corrected clock; no natural deadline is at or below it.
	RotaConsumedMs Int
}

// LastOutcome is the status of the last finished run under either name.
func (s *State) LastOutcome() string {
	if s.LastRunStatus != "" {
		return s.LastRunStatus
	}
	return s.LastStatus
}

// stateField ties one key to one field: exactly one pointer function is set.
type stateField struct {
	key string
	num func(*State) *Int
	str func(*State) *string
	raw func(*State) *json.RawMessage
}

// stateFields is the codec of state_json: decode, encode and the documentation
// of the keys all come from it.
var stateFields = []stateField{
	{key: "nextRunAtMs", num: func(s *State) *Int { return &s.NextRunAtMs }},
	{key: "queuedAtMs", num: func(s *State) *Int { return &s.QueuedAtMs }},
	{key: "runningAtMs", num: func(s *State) *Int { return &s.RunningAtMs }},
	{key: "runningReceiptId", str: func(s *State) *string { return &s.RunningReceiptID }},
	{key: "runningScheduleChangeId", str: func(s *State) *string { return &s.RunningScheduleChangeID }},
	{key: "lastRunAtMs", num: func(s *State) *Int { return &s.LastRunAtMs }},
	{key: "lastRunStatus", str: func(s *State) *string { return &s.LastRunStatus }},
	{key: "lastStatus", str: func(s *State) *string { return &s.LastStatus }},
	{key: "lastError", str: func(s *State) *string { return &s.LastError }},
	{key: "lastErrorReason", str: func(s *State) *string { return &s.LastErrorReason }},
	{key: "lastDiagnostics", raw: func(s *State) *json.RawMessage { return &s.LastDiagnostics }},
	{key: "lastDiagnosticSummary", str: func(s *State) *string { return &s.LastDiagnosticSummary }},
	{key: "lastDurationMs", num: func(s *State) *Int { return &s.LastDurationMs }},
	{key: "consecutiveErrors", num: func(s *State) *Int { return &s.ConsecutiveErrors }},
	{key: "consecutiveSkipped", num: func(s *State) *Int { return &s.ConsecutiveSkipped }},
	{key: "scheduleErrorCount", num: func(s *State) *Int { return &s.ScheduleErrorCount }},
	{key: "autoDisabled", raw: func(s *State) *json.RawMessage { return &s.AutoDisabled }},
	{key: "scheduleActivatedAtMs", num: func(s *State) *Int { return &s.ScheduleActivatedAtMs }},
	{key: "startupCatchupAtMs", num: func(s *State) *Int { return &s.StartupCatchupAtMs }},
	{key: "pacedNextRunAtMs", num: func(s *State) *Int { return &s.PacedNextRunAtMs }},
	{key: "forcePreservedNextRunAtMs", num: func(s *State) *Int { return &s.ForcePreservedNextRunAtMs }},
	{key: "lastRunInterruptionReason", str: func(s *State) *string { return &s.LastRunInterruptionReason }},
	{key: "lastDelivered", raw: func(s *State) *json.RawMessage { return &s.LastDelivered }},
	{key: "lastDeliveryStatus", str: func(s *State) *string { return &s.LastDeliveryStatus }},
	{key: "lastDeliveryError", str: func(s *State) *string { return &s.LastDeliveryError }},
	{key: "deliverySuppressionReason", str: func(s *State) *string { return &s.LastSuppressionReason }},
	{key: "rotaConsumedMs", num: func(s *State) *Int { return &s.RotaConsumedMs }},
}

var stateFieldByKey = func() map[string]*stateField {
	m := make(map[string]*stateField, len(stateFields))
	for i := range stateFields {
		m[stateFields[i].key] = &stateFields[i]
	}
	return m
}()

// DecodeState reads state_json. A value of the wrong type counts as unset: the
// key keeps its bytes until rota has a value of its own to write.
func DecodeState(raw []byte) (*State, error) {
	s := new(State)
	if err := DecodeStateTo(s, raw); err != nil {
		return nil, err
	}
	return s, nil
}

// DecodeStateTo is DecodeState into a State that may have been another's.
func DecodeStateTo(s *State, raw []byte) error {
	if text := bytes.TrimLeft(raw, " \t\r\n"); !rawjson.Valid(raw) || text[0] != '{' {
		return errNotObject
	}
	*s = State{}
	s.read(raw)
	return nil
}

// ReadState is DecodeState for bytes that it has decoded before.
func ReadState(raw []byte) *State {
	s := new(State)
	s.read(raw)
	return s
}

func (s *State) read(raw []byte) {
	for key, value := range rawjson.Fields(raw) {
		f := stateFieldByKey[string(key)]
		switch {
		case f == nil:
		case f.num != nil:
			*f.num(s) = decodeInt(value)
		case f.str != nil:
			if text, ok := rawjson.Text(value); ok {
				*f.str(s) = text
			}
		default:
			if string(value) != "null" {
				*f.raw(s) = value
			}
		}
	}
}

var errNotObject = errors.New("not a JSON object")

// decodeInt takes JSON numbers, also with a fraction or exponent, floored.
func decodeInt(value []byte) Int {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return Some(n)
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.Abs(f) > 8.64e15 {
		return Int{}
	}
	return Some(int64(math.Floor(f)))
}

// EncodeState writes the difference between two states into the bytes the
// first was read from. Where nothing differs it gives the same bytes. What it
// needs on the way it writes to room, which may be nil: a busy turn encodes
// several states a run.
func EncodeState(raw []byte, was, is *State, room []byte) ([]byte, error) {
	var few [32]rawjson.Member
	edits, text := few[:0], room[:0]
	for i := range stateFields {
		f := &stateFields[i]
		var value json.RawMessage // nil removes the key
		switch {
		case f.num != nil:
			a, b := *f.num(was), *f.num(is)
			if a == b {
				continue
			}
			if b.Set {
				from := len(text)
				text = strconv.AppendInt(text, b.N, 10)
				value = text[from:]
			}
		case f.str != nil:
			a, b := *f.str(was), *f.str(is)
			if a == b {
				continue
			}
			if b != "" {
				from := len(text)
				text = rawjson.AppendString(text, b)
				value = text[from:]
			}
		default:
			a, b := *f.raw(was), *f.raw(is)
			if bytes.Equal(a, b) {
				continue
			}
			value = b
		}
		edits = append(edits, rawjson.Member{Key: f.key, Value: value})
	}
	if len(edits) == 0 {
		return raw, nil
	}
	return rawjson.Set(raw, edits...)
}
