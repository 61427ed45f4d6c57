package job

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// maxInstantMs is the greatest time the wire contract can name.
const maxInstantMs = 8_640_000_000_000_000

var jsonNull = []byte("null")

func isNull(raw json.RawMessage) bool { return bytes.Equal(raw, jsonNull) }

func isObject(raw json.RawMessage) bool {
	text := bytes.TrimSpace(raw)
	return len(text) > 0 && text[0] == '{'
}

// textOf decodes a JSON string.
func textOf(raw json.RawMessage) (string, bool) { return rawjson.Text(raw) }

// boolOf decodes a JSON boolean, or the words true and false in a string.
func boolOf(raw json.RawMessage) (value, ok bool) {
	text := string(raw)
	if s, quoted := textOf(raw); quoted {
		text = strings.ToLower(strings.TrimSpace(s))
	}
	switch text {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// numberOf decodes a JSON number, or one written as decimal text in a string:
// no hexadecimal, no unit, no word.
func numberOf(raw json.RawMessage) (float64, bool) {
	text := string(raw)
	if s, quoted := textOf(raw); quoted {
		text = strings.TrimSpace(s)
	}
	if text == "" || strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return 0, false
	}
	return f, true
}

// wholeOf decodes a whole number, as numberOf; it must lie within the range of
// instants, where a float is exact.
func wholeOf(raw json.RawMessage) (int64, bool) {
	f, ok := numberOf(raw)
	if !ok || f != math.Trunc(f) || math.Abs(f) > maxInstantMs {
		return 0, false
	}
	return int64(f), true
}

// floorOf is wholeOf for stored rows: fractions are cut off.
func floorOf(raw json.RawMessage) (int64, bool) {
	f, ok := numberOf(raw)
	if !ok || math.Abs(f) > maxInstantMs {
		return 0, false
	}
	return int64(math.Floor(f)), true
}

// stateTime reads a time from the state: finite and above zero, or absent.
func stateTime(raw json.RawMessage) (int64, bool) {
	ms, ok := floorOf(raw)
	return ms, ok && ms > 0
}

// plainNumber writes a number without an exponent.
func plainNumber(f float64) json.RawMessage { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

func quoteJSON(s string) json.RawMessage { return rawjson.AppendString(nil, s) }

func intJSON(n int64) json.RawMessage { return strconv.AppendInt(nil, n, 10) }

func boolJSON(v bool) json.RawMessage { return strconv.AppendBool(nil, v) }
