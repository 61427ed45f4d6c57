package schedule

import (
	"math"
	"strconv"
	"strings"
)

// maxDurationBytes bounds the text of a duration.
const maxDurationBytes = 64

// A durationUnit is one spelling and its milliseconds, longest unit first.
var durationUnits = [...]struct {
	name string
	ms   float64
}{
	{"d", 86_400_000},
	{"h", 3_600_000},
	{"m", 60_000},
	{"s", 1_000},
	{"ms", 1},
}

const durationForms = "write e.g. 500ms, 30s, 5m, 2h, 1d or 1h30m; a bare number is milliseconds"

// ParseDuration reads a span of elapsed time as people type it: 500ms, 30s, 5m,
// 2h, 1d, larger units before smaller (1h30m), decimals (1.5h), any case. A bare
// number is milliseconds. A day is 24 hours. The result is rounded to the
// nearest millisecond and is never negative.
func ParseDuration(text string) (ms int64, err error) {
	rest := strings.ToLower(strings.Trim(text, " \t\r\n"))
	if len(rest) > maxDurationBytes {
		return 0, fault(CodeTooLong, "duration", text, "too long for a duration", durationForms)
	}
	if rest == "" {
		return 0, fault(CodeSyntax, "duration", text, "the duration is empty", durationForms)
	}
	if rest[0] == '-' {
		return 0, fault(CodeRange, "duration", text, "a duration cannot be negative", durationForms)
	}
	total, used := 0.0, 0 // used: the units up to here are spent
	for first := true; rest != ""; first = false {
		length := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
		if length < 0 {
			length = len(rest)
		}
		number := rest[:length]
		unit := strings.IndexAny(rest[length:], "0123456789.")
		if unit < 0 {
			unit = len(rest) - length
		}
		name := rest[length : length+unit]
		rest = rest[length+unit:]
		whole, fraction, dotted := strings.Cut(number, ".")
		if !allDigits(whole) || (dotted && !allDigits(fraction)) {
			return 0, fault(CodeSyntax, "duration", text, "not a duration", durationForms)
		}
		value, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return 0, fault(CodeRange, "duration", text, "the number is too large", durationForms)
		}
		if name == "" && first && rest == "" {
			total = value
			break
		}
		i := used
		for i < len(durationUnits) && durationUnits[i].name != name {
			i++
		}
		if i == len(durationUnits) {
			return 0, fault(CodeSyntax, "duration", text, "each number needs one of the units d, h, m, s, ms, the larger first", durationForms)
		}
		used = i + 1
		total += value * durationUnits[i].ms
	}
	total = math.Round(total)
	if total > maxInstantMs {
		return 0, fault(CodeRange, "duration", text, "the duration is longer than time itself can be written", durationForms)
	}
	return int64(total), nil
}

// formatSpan writes milliseconds as ParseDuration reads them: "1h30m", "500ms".
func formatSpan(ms int64) string {
	if ms == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, unit := range durationUnits {
		if n := ms / int64(unit.ms); n > 0 {
			b.WriteString(formatInt(n) + unit.name)
			ms -= n * int64(unit.ms)
		}
	}
	return b.String()
}
