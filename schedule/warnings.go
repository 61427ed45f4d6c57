package schedule

import (
	"fmt"
	"strings"
)

// warn collects what reads differently from what it does. Every field has
// been accepted by now, so its parts can be read again without errors.
func (e *Expression) warn(fields [fieldCount]string) {
	for i := fieldSecond; i <= fieldWeekday; i++ {
		text := strings.TrimPrefix(fields[i], "+")
		if isStar(text) {
			continue
		}
		for _, word := range strings.Split(text, ",") {
			e.warnPart(i, word)
		}
	}
	d := &e.dates
	if !d.anyDay && !d.anyWeekday && !d.bothDays {
		hint := "put + before the weekday to require both"
		if strings.HasPrefix(fields[fieldDay], "*/") || strings.HasPrefix(fields[fieldWeekday], "*/") {
			hint = "a step is a restriction even after a star; " + hint
		}
		e.warning("day of month and day of week are both set: a date that matches either fires; %s", hint)
	}
	if d.anyWeekday && !d.anyDay && !d.lastDay && !d.lastWorkday && d.nearest == 0 {
		first := lowest(uint64(d.days))
		if first > 28 && d.months&^(1<<2) != 0 {
			e.warning("months without day %d are passed over; write L for the last day of each month", first)
		}
	}
}

func (e *Expression) warning(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, w := range e.warnings {
		if w == text {
			return
		}
	}
	e.warnings = append(e.warnings, text)
}

func (e *Expression) warnPart(index int, word string) {
	f := &fieldRules[index]
	if strings.ContainsAny(word, "LW#") && index != fieldMonth && index != fieldWeekday {
		return
	}
	if index == fieldWeekday && (strings.Contains(word, "#") || strings.HasSuffix(word, "L")) {
		return
	}
	p, err := f.readPart(word)
	if err != nil {
		return // L, W and # parts are not ranges
	}
	values := p.values(f)
	dayField := index == fieldDay || index == fieldWeekday
	switch {
	case p.low == 7 && p.wraps():
		e.warning("%s: %s starts at 7 and wraps, which is every day; write 0-%d to start on Sunday", f.name, word, p.high)
	case p.wraps() && index == fieldWeekday:
		e.warning("%s: %s wraps past Saturday", f.name, word)
	case p.wraps():
		e.warning("%s: %s wraps past %d", f.name, word, f.max)
	case p.step == 1 && p.star && dayField:
		e.warning("%s: %s counts as a restriction; write *", f.name, word)
	case p.step > 1 && len(values) == 1:
		e.warning("%s: %s is only %d, because the step is longer than the range; write %d", f.name, word, values[0], values[0])
	case p.step > 1 && !p.star && !p.ranged:
		e.warning("%s: %s means %d-%d/%d", f.name, word, p.low, p.high, p.step)
	case p.step > 1 && p.star && f.size()%p.step != 0 && index <= fieldHour:
		e.warning("%s: %s starts again at %d, so the last gap is shorter than %d", f.name, word, f.min, p.step)
	case !p.star && p.ranged && p.step <= 1 && len(values) >= f.size():
		e.warnFullRange(f, index, word)
	}
}

// warnFullRange speaks of a range that names every value but is not a star.
func (e *Expression) warnFullRange(f *fieldRule, index int, word string) {
	switch index {
	case fieldSecond, fieldMinute, fieldHour:
		if e.fixed {
			e.warning("%s: %s names moments, so a repeated hour runs once; write *", f.name, word)
		} else {
			e.warning("%s: %s is every value; write *", f.name, word)
		}
	case fieldDay, fieldWeekday:
		e.warning("%s: %s counts as a restriction; write *", f.name, word)
	default:
		e.warning("%s: %s is every value; write *", f.name, word)
	}
}
