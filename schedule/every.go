package schedule

import (
	"math"
	"strconv"
	"strings"
)

// The grid. All values are within ±8.64e15, so sums and differences of two of
// them cannot overflow an int64.

// nextOnGrid returns the least grid point after afterMs, in constant time.
func (s *Schedule) nextOnGrid(afterMs int64) (int64, bool) {
	slotMs := s.firstMs
	if afterMs >= s.firstMs {
		slotMs += ((afterMs-s.firstMs)/s.spanMs + 1) * s.spanMs
	}
	return slotMs, inRange(slotMs)
}

// prevOnGrid returns the greatest grid point before beforeMs. Nothing precedes
// the anchor.
func (s *Schedule) prevOnGrid(beforeMs int64) (int64, bool) {
	if beforeMs <= s.firstMs {
		return 0, false
	}
	return s.firstMs + (beforeMs-1-s.firstMs)/s.spanMs*s.spanMs, true
}

// countOnGrid counts the grid points in (afterMs, untilMs].
func (s *Schedule) countOnGrid(afterMs, untilMs int64) int64 {
	upTo := func(ms int64) int64 {
		if ms < s.firstMs {
			return 0
		}
		return (ms-s.firstMs)/s.spanMs + 1
	}
	return upTo(untilMs) - upTo(afterMs)
}

// ParseEveryMs reads an interval in milliseconds as stored: a whole or decimal
// number, perhaps with an exponent, and no unit. Fractions are dropped; what is
// left must be at least 1.
func ParseEveryMs(raw string) (int64, error) {
	return parseMs("every", raw, 1)
}

// ParseAnchorMs reads an anchor in the same form; it must not be negative.
func ParseAnchorMs(raw string) (int64, error) {
	return parseMs("anchor", raw, 0)
}

// maxNumberBytes bounds the text of a number.
const maxNumberBytes = 64

func parseMs(field, raw string, least int64) (int64, error) {
	text := strings.Trim(raw, " \t\r\n")
	if len(text) > maxNumberBytes {
		return 0, fault(CodeTooLong, field, raw, "too long for a number of milliseconds", "write e.g. 60000")
	}
	if !isDecimal(text) {
		return 0, fault(CodeSyntax, field, raw, "not a number of milliseconds", "write a plain number, e.g. 60000 for one minute")
	}
	value, err := strconv.ParseFloat(text, 64)
	// Whole numbers up to 2^53 are exact in a float64, and the limit is below.
	value = math.Floor(value)
	if err != nil || value < float64(least) || value > maxInstantMs {
		return 0, fault(CodeRange, field, raw, "must be between "+formatInt(least)+" and 8640000000000000 ms", "write a plain number, e.g. 60000 for one minute")
	}
	return int64(value), nil
}

// isDecimal accepts digits with an optional sign, fraction and exponent: what a
// stored JSON number or numeric string can look like, and neither hexadecimal
// nor "Infinity" nor digit separators.
func isDecimal(s string) bool {
	s = strings.TrimLeft(s, "+-")
	mantissa, exponent := s, ""
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		mantissa, exponent = s[:i], s[i+1:]
		if exponent != "" && (exponent[0] == '+' || exponent[0] == '-') {
			exponent = exponent[1:]
		}
		if !allDigits(exponent) {
			return false
		}
	}
	whole, fraction, dotted := strings.Cut(mantissa, ".")
	return allDigits(whole) && (!dotted || allDigits(fraction))
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
