package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// A part is one element of a comma list: a star, a value or a range, perhaps
// with a step. Both ends are as written, so high may be below low (a wrap).
type part struct {
	star      bool
	ranged    bool // "a-b" was written, not a single value
	low, high int
	step      int // 0 when none was written
}

// readField checks one field, keeps its L, W and # parts in d and returns the
// rest as a list of numbers and ranges that wrap nowhere.
func (d *dateSet) readField(index int, text string) (string, error) {
	f := &fieldRules[index]
	var plain []string
	for _, p := range strings.Split(text, ",") {
		if p == "" {
			return "", f.refuse(text, "has an empty element", "remove the extra comma, or write * for every value")
		}
		special := false
		var err error
		switch index {
		case fieldDay:
			special, err = d.readDaySpecial(f, p)
		case fieldWeekday:
			special, err = d.readWeekdaySpecial(f, p)
		}
		if err != nil {
			return "", err
		}
		if special {
			continue
		}
		parsed, err := f.readPart(p)
		if err != nil {
			return "", err
		}
		plain = append(plain, parsed.spell(f))
	}
	return strings.Join(plain, ","), nil
}

func (f *fieldRule) refuse(input, message, hint string) error {
	return fault(CodeSyntax, f.name, input, fmt.Sprintf("%q %s", echo(input), message), hint)
}

func (f *fieldRule) refuseRange(input string) error {
	hint := fmt.Sprintf("write a number from %d to %d", f.min, f.max)
	switch {
	case f.isWeekday() && len(input) == 4:
		hint = "a year is the last of seven fields: second minute hour day month weekday year"
	case f.isWeekday():
		hint = "write 0 to 7 (0 and 7 are Sunday) or SUN to SAT"
	}
	if n, err := strconv.Atoi(input); err == nil && n >= f.min && n <= f.limit() {
		return fault(CodeSyntax, f.name, input, fmt.Sprintf("%q has more than %d digits", echo(input), f.digits), hint)
	}
	return fault(CodeRange, f.name, input, fmt.Sprintf("%q is not between %d and %d", echo(input), f.min, f.limit()), hint)
}

// readDaySpecial handles L, LW and nW.
func (d *dateSet) readDaySpecial(f *fieldRule, p string) (bool, error) {
	switch {
	case p == "L":
		d.lastDay = true
	case p == "LW":
		d.lastWorkday = true
	case strings.HasSuffix(p, "W"):
		day, err := f.number(p, strings.TrimSuffix(p, "W"))
		if err != nil {
			return false, err
		}
		d.nearest |= 1 << uint(day)
	case strings.ContainsAny(p, "LW#"):
		return false, f.refuse(p, "is not a day: L stands alone or as LW, W follows one day", "write L, LW, a day, or a day and W")
	default:
		return false, nil
	}
	return true, nil
}

// readWeekdaySpecial handles weekday#n, weekday#L and weekdayL; the weekday may
// be a range.
func (d *dateSet) readWeekdaySpecial(f *fieldRule, p string) (bool, error) {
	base, nth, found := strings.Cut(p, "#")
	if !found {
		if !strings.HasSuffix(p, "L") {
			return false, nil
		}
		base, nth = strings.TrimSuffix(p, "L"), "L"
	}
	if base == "" {
		return false, f.refuse(p, "names no weekday", "write e.g. FRI#L for the last Friday, MON#1 for the first Monday")
	}
	parsed, err := f.readPart(base)
	if err != nil {
		return false, err
	}
	if parsed.star || parsed.step != 0 {
		return false, f.refuse(p, "has # or L after what is not a weekday or a range of weekdays", "write e.g. MON#1")
	}
	var set uint8
	for _, v := range parsed.values(f) {
		set |= 1 << uint(v)
	}
	switch {
	case nth == "L":
		d.lastWeekdays |= set
	case len(nth) == 1 && nth[0] >= '1' && nth[0] <= '5':
		d.nthWeekday[nth[0]-'1'] |= set
	default:
		return false, f.refuse(p, "needs 1 to 5, or L for the last, after #", "write e.g. MON#1 or FRI#L")
	}
	return true, nil
}

// readPart reads "*", "v", "a-b", each perhaps with "/step".
func (f *fieldRule) readPart(text string) (part, error) {
	var p part
	base, step, stepped := strings.Cut(text, "/")
	if stepped {
		n, ok := digits(step, f.digits)
		if !ok || n < 1 || n > f.size() {
			return p, fault(CodeRange, f.name, text, fmt.Sprintf("%q has a step that is not a number from 1 to %d", echo(text), f.size()), fmt.Sprintf("write one step, e.g. */%d", min(f.size()/2, 5)))
		}
		p.step = n
	}
	if isStar(base) {
		p.star = true
		p.low, p.high = f.min, f.max
		return p, nil
	}
	low, high, ranged := strings.Cut(base, "-")
	p.ranged = ranged
	var err error
	if p.low, err = f.number(text, low); err != nil {
		return p, err
	}
	switch {
	case ranged:
		if p.high, err = f.number(text, high); err != nil {
			return p, err
		}
		if f.isWeekday() && high == "SUN" {
			p.high = 7 // a range that ends on Sunday ends the week
		}
	case stepped:
		p.high = f.max
		if p.low > p.high {
			return p, f.refuse(text, "begins a step at 7, but 7 is Sunday, the start of the week", "write 0/"+step)
		}
	default:
		p.high = p.low
	}
	return p, nil
}

// number reads a value or a name. Sunday may be 7.
func (f *fieldRule) number(whole, text string) (int, error) {
	if n, ok := f.names[text]; ok {
		return n, nil
	}
	n, ok := digits(text, f.digits)
	if !ok {
		if allDigits(text) {
			return 0, f.refuseRange(text)
		}
		return 0, f.refuse(whole, "is not a value of this field", f.example())
	}
	if n < f.min || n > f.limit() {
		return 0, f.refuseRange(text)
	}
	return n, nil
}

func (f *fieldRule) example() string {
	switch f.name {
	case "day of week":
		return "write 0 to 7, SUN to SAT, a range such as MON-FRI, MON#1 or FRI#L"
	case "month":
		return "write 1 to 12 or JAN to DEC"
	case "day of month":
		return "write 1 to 31, L, LW or 15W"
	}
	return fmt.Sprintf("write %d to %d, a range such as %d-%d, or */5", f.min, f.max, f.min+1, f.min+5)
}

// digits reads a number of at most limit digits and nothing else: no sign, no
// space, no long padding.
func digits(s string, limit int) (int, bool) {
	if len(s) > limit || !allDigits(s) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// span returns the ends as an ascending pair, the upper one past the maximum
// when the range wraps.
//
// A weekday range that starts at 7 and ends lower counts its start as 0 and
// still wraps, so it is the whole week: "7-2" is every day. Published vectors
// settle it so, and a warning tells to write 0-2 for Sunday to Tuesday.
func (p part) span(f *fieldRule) (low, high int) {
	low, high = p.low, p.high
	if high < low {
		high += f.size()
	}
	if f.isWeekday() && low == 7 {
		low = 0
		if p.high == 7 {
			high = 0
		}
	}
	return low, high
}

// values lists what the part stands for, in order, each within the field.
func (p part) values(f *fieldRule) []int {
	low, high := p.span(f)
	var list []int
	for v := low; v <= high; v += max(p.step, 1) {
		list = append(list, (v-f.min)%f.size()+f.min)
	}
	return list
}

func (p part) wraps() bool { return p.high < p.low }

// spell writes the part as numbers that every cron reads alike.
func (p part) spell(f *fieldRule) string {
	switch {
	case p.star && p.step == 0:
		return "*"
	case p.wraps() || p.low > f.max || p.high > f.max:
		words := make([]string, 0, f.size())
		for _, v := range p.values(f) {
			words = append(words, strconv.Itoa(v))
		}
		return strings.Join(words, ",")
	}
	text := strconv.Itoa(p.low)
	if p.high != p.low || p.step > 1 { // "5/3" would be read as 5-59/3
		text += "-" + strconv.Itoa(p.high)
	}
	if p.step > 1 {
		text += "/" + strconv.Itoa(p.step)
	}
	return text
}

// readYears reads the seventh field. A star, with or without a step, counts
// from year 0, so "*/4" are the years that four divides.
func readYears(text string) (*yearSet, error) {
	if isStar(text) {
		return nil, nil
	}
	f := &fieldRules[fieldYear]
	years := new(yearSet)
	for _, word := range strings.Split(text, ",") {
		if word == "" {
			return nil, f.refuse(text, "has an empty element", "remove the extra comma, or write * for every year")
		}
		p, err := f.readPart(word)
		if err != nil {
			return nil, err
		}
		if p.wraps() {
			return nil, f.refuse(word, "ends before it begins", "put the earlier year first")
		}
		if p.star {
			p.low = 0
		}
		for y := p.low; y <= p.high; y += max(p.step, 1) {
			years.add(y)
		}
	}
	return years, nil
}
