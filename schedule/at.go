package schedule

import (
	"fmt"
	"strings"
)

// maxAtBytes bounds the text of an instant.
const maxAtBytes = 64

// atForms is the hint of every syntax error here.
const atForms = "write e.g. 2026-02-01T09:00:00Z, 2026-02-01T09:00:00+02:00, or 2026-02-01T09:00 with a tz"

// ParseAt reads an instant:
//
//	YYYY-MM-DD[THH:MM[:SS[.fraction]]][Z|±HH:MM|±HHMM]
//	±YYYYYY-MM-DD…
//	milliseconds since 1970, 12 or 13 digits
//
// A text without offset is wall time in z, or UTC when z is nil; an offset in
// the text wins over z. A wall time that the clocks jump over is refused, and one
// that occurs twice is its first pass. Fractions are cut to milliseconds, 24:00
// is the end of the day, and there are no leap seconds. Ten digits are seconds
// almost surely, and are refused rather than taken for January 1970.
func ParseAt(text string, z *Zone) (atMs int64, err error) {
	trimmed := strings.Trim(text, " \t\r\n")
	if len(trimmed) > maxAtBytes {
		return 0, fault(CodeTooLong, "at", text, "too long for an instant", atForms)
	}
	if allDigits(trimmed) {
		return epochMs(trimmed)
	}
	p := atReader{rest: strings.ToUpper(trimmed)}
	wallMs, offsetMs, hasOffset, ok := p.read()
	if !ok {
		if p.fault != nil {
			p.fault.Input = echo(trimmed)
			return 0, p.fault
		}
		return 0, fault(CodeSyntax, "at", trimmed, fmt.Sprintf("%q is not an instant", echo(trimmed)), atForms)
	}
	switch {
	case hasOffset:
		atMs = wallMs - offsetMs
	case z == nil:
		atMs = wallMs
	default:
		wall := floorDiv(wallMs, 1000)
		sec, _, shown := z.firstInstant(wall)
		if !shown {
			return 0, gapError(trimmed, wall, z)
		}
		atMs = sec*1000 + wallMs - wall*1000
	}
	if !inRange(atMs) {
		return 0, fault(CodeRange, "at", trimmed, "the instant is out of range", atForms)
	}
	return atMs, nil
}

// epochMs accepts milliseconds of this century and the end of the last. Fewer
// digits are seconds (or days), more are microseconds or a date without signs.
func epochMs(text string) (int64, error) {
	switch {
	case len(text) <= 11:
		hint := "multiply seconds by 1000"
		if len(text) == 10 {
			hint = "if these are seconds, write " + text + "000"
		}
		return 0, fault(CodeAmbiguousUnit, "at", text, fmt.Sprintf("a number is milliseconds since 1970, and %s would be long past", text), hint+", or write a date such as 2026-02-01T09:00:00Z")
	case len(text) >= 14:
		return 0, fault(CodeAmbiguousUnit, "at", text, "too many digits for milliseconds since 1970", "divide microseconds by 1000, or write a date such as 2026-02-01T09:00:00Z")
	}
	ms := int64(0)
	for i := 0; i < len(text); i++ {
		ms = ms*10 + int64(text[i]-'0')
	}
	if ms == 0 {
		return 0, fault(CodeRange, "at", text, "zero is not an instant to run at", atForms)
	}
	return ms, nil
}

// gapError tells which local times exist around one that does not.
func gapError(text string, wall int64, z *Zone) error {
	s := z.at(wall - maxSpreadSec/2)
	for s.end != infinity && wall-z.at(s.end).offset >= s.end {
		s = z.at(s.end)
	}
	message := fmt.Sprintf("%s does not exist in %s", echo(text), z.name)
	if s.end == infinity {
		return fault(CodeGap, "at", text, message, "choose another time")
	}
	hint := fmt.Sprintf("clocks go from %s to %s there; write %s, or add an offset",
		instantInZone(s.end-1, z), instantInZone(s.end, z), instantInZone(s.end, z))
	return fault(CodeGap, "at", text, message, hint)
}

// An atReader consumes the text of an instant from the left.
type atReader struct {
	rest  string
	fault *Error // set when the form is right and a number is not
}

func (p *atReader) read() (wallMs, offsetMs int64, hasOffset, ok bool) {
	dayMs, ok := p.date()
	if !ok {
		return 0, 0, false, false
	}
	clockMs := int64(0)
	if p.take('T') {
		if clockMs, ok = p.clock(); !ok {
			return 0, 0, false, false
		}
	}
	offsetMs, hasOffset, ok = p.offset()
	return dayMs + clockMs, offsetMs, hasOffset, ok && p.rest == ""
}

func (p *atReader) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// number consumes exactly n digits.
func (p *atReader) number(n int) (int, bool) {
	if len(p.rest) < n {
		return 0, false
	}
	value, ok := digits(p.rest[:n], n)
	if ok {
		p.rest = p.rest[n:]
	}
	return value, ok
}

func (p *atReader) outOfRange(what string) bool {
	p.fault = &Error{Code: CodeRange, Field: "at", Message: what, Hint: atForms}
	return false
}

func (p *atReader) date() (dayMs int64, ok bool) {
	width, sign := 4, 1
	if p.take('+') {
		width = 6
	} else if p.take('-') {
		width, sign = 6, -1
	}
	year, ok := p.number(width)
	if !ok || !p.take('-') || (sign < 0 && year == 0) {
		return 0, false
	}
	year *= sign
	month, ok := p.number(2)
	if !ok || !p.take('-') {
		return 0, false
	}
	day, ok := p.number(2)
	if !ok {
		return 0, false
	}
	if month < 1 || month > 12 {
		return 0, p.outOfRange(fmt.Sprintf("there is no month %d", month))
	}
	if day < 1 || day > daysInMonth(isLeap(year), month) {
		return 0, p.outOfRange(fmt.Sprintf("month %d of %d has no day %d", month, year, day))
	}
	return dayOf(year, month, day) * secondsPerDay * 1000, true
}

func (p *atReader) clock() (clockMs int64, ok bool) {
	hour, ok := p.number(2)
	if !ok || !p.take(':') {
		return 0, false
	}
	minute, ok := p.number(2)
	if !ok {
		return 0, false
	}
	second, ms := 0, 0
	if p.take(':') {
		if second, ok = p.number(2); !ok {
			return 0, false
		}
		if p.take('.') {
			if ms, ok = p.fraction(); !ok {
				return 0, false
			}
		}
	}
	endOfDay := hour == 24 && minute == 0 && second == 0 && ms == 0
	if (hour > 23 && !endOfDay) || minute > 59 || second > 59 {
		return 0, p.outOfRange("the clock goes from 00:00:00 to 23:59:59, or is 24:00:00")
	}
	return int64(secondOfDay(hour, minute, second))*1000 + int64(ms), true
}

// fraction consumes one digit or more and keeps three. "24:00:00.0001" keeps
// nothing but is past the end of the day; it is let through as 24:00:00.
func (p *atReader) fraction() (ms int, ok bool) {
	n := 0
	for n < len(p.rest) && p.rest[n] >= '0' && p.rest[n] <= '9' {
		if n < 3 {
			ms = ms*10 + int(p.rest[n]-'0')
		}
		n++
	}
	for i := n; i < 3; i++ {
		ms *= 10
	}
	p.rest = p.rest[n:]
	return ms, n > 0
}

// offset reads Z, ±HH:MM or ±HHMM; nothing is no offset.
func (p *atReader) offset() (offsetMs int64, found, ok bool) {
	if p.rest == "" {
		return 0, false, true
	}
	if p.take('Z') {
		return 0, true, true
	}
	sign := int64(1)
	if p.take('-') {
		sign = -1
	} else if !p.take('+') {
		return 0, false, false
	}
	hours, ok := p.number(2)
	if !ok {
		return 0, false, false
	}
	p.take(':')
	minutes, ok := p.number(2)
	if !ok {
		return 0, false, false
	}
	if hours > 23 || minutes > 59 {
		return 0, true, p.outOfRange("an offset is at most 23:59")
	}
	return sign * int64(hours*60+minutes) * 60_000, true, true
}
