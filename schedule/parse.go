package schedule

import (
	"fmt"
	"strings"

	"github.com/robfig/cron/v3"
)

// maxExpressionBytes is room for two fields that list all sixty values.
const maxExpressionBytes = 1024

// ParseExpression reads a cron expression of 5, 6 (seconds first) or 7 (year
// last) fields, or an alias such as @daily in any case. An expression that no
// date can ever match is refused with [CodeNever]; one whose years have gone by
// is accepted, and its Next is never.
func ParseExpression(text string) (*Expression, error) {
	if len(text) > maxExpressionBytes {
		return nil, fault(CodeTooLong, "", text, fmt.Sprintf("the expression has %d bytes; the limit is %d", len(text), maxExpressionBytes), "use ranges and steps instead of long lists")
	}
	if err := checkCharacters(text); err != nil {
		return nil, err
	}
	e := &Expression{text: strings.Trim(text, " \t\r\n")}
	fields, err := splitFields(e.text)
	if err != nil {
		return nil, err
	}
	e.fixed = true
	for _, f := range fields[fieldSecond : fieldHour+1] {
		if strings.ContainsAny(f, "*?/") {
			e.fixed = false
		}
	}
	if err := e.read(fields); err != nil {
		return nil, err
	}
	e.dates.index()
	if e.dates.empty() {
		return nil, fault(CodeNever, "day of month", e.text, fmt.Sprintf("%q can never fire: no date matches its day, month and weekday fields", echo(e.text)), "check the length of the month, or write L for its last day")
	}
	e.warn(fields)
	return e, nil
}

// Expressions are parsed expressions by their text, so that schedules which say
// the same share one. They are for compiling many at once, by one goroutine: they
// only grow, and are dropped afterwards. Nil parses and keeps nothing.
type Expressions map[string]*Expression

// Parse is [ParseExpression] for a text that may have been parsed before.
func (known Expressions) Parse(text string) (*Expression, error) {
	if e := known[text]; e != nil {
		return e, nil
	}
	e, err := ParseExpression(text)
	if err == nil && known != nil {
		known[text] = e
	}
	return e, err
}

// checkCharacters refuses what is not printable ASCII or plain white space, and
// names it: the usual culprit is invisible.
func checkCharacters(text string) error {
	for i, r := range text {
		if r == ' ' || r == '\t' || r == '\n' || r == '\r' || (r > ' ' && r < 0x7f) {
			continue
		}
		what := fmt.Sprintf("U+%04X", r)
		if name, ok := characterNames[r]; ok {
			what = name + " (" + what + ")"
		}
		return fault(CodeCharacter, "", text, fmt.Sprintf("character %d is %s", len([]rune(text[:i]))+1, what), "retype the expression with plain spaces, digits and ASCII signs")
	}
	return nil
}

// splitFields expands an alias and returns the seven fields, the absent ones
// filled in: second "0", year "*".
func splitFields(text string) ([fieldCount]string, error) {
	var fields [fieldCount]string
	words := strings.Fields(text)
	if len(words) == 0 {
		return fields, fault(CodeSyntax, "", text, "the expression is empty", `write five fields: minute, hour, day of month, month, day of week, e.g. "0 9 * * *"`)
	}
	first := strings.ToUpper(words[0])
	if strings.HasPrefix(first, "TZ=") || strings.HasPrefix(first, "CRON_TZ=") {
		return fields, fault(CodeZonePrefix, "tz", text, "a zone cannot stand inside the expression", "put the zone in the job's tz and leave only the fields here")
	}
	if first[0] == '@' {
		expansion, err := expandAlias(text, words)
		if err != nil {
			return fields, err
		}
		words = strings.Fields(expansion)
	}
	switch len(words) {
	case 5:
		fields[fieldSecond] = "0"
		copy(fields[fieldMinute:], words)
		fields[fieldYear] = "*"
	case 6:
		copy(fields[:], words)
		fields[fieldYear] = "*"
	case 7:
		copy(fields[:], words)
	default:
		return fields, fault(CodeSyntax, "", text, fmt.Sprintf("found %s where an expression has 5, 6 (seconds first) or 7 (year last)", count(len(words), "field")), `write e.g. "0 9 * * 1-5": minute, hour, day of month, month, day of week`)
	}
	for i, f := range fields {
		fields[i] = strings.ToUpper(f)
	}
	return fields, nil
}

func expandAlias(text string, words []string) (string, error) {
	word := strings.ToLower(words[0])
	if expansion, ok := aliases[word]; ok && len(words) == 1 {
		return expansion, nil
	}
	switch word {
	case "@every":
		return "", fault(CodeAlias, "every", text, "@every is not a cron expression", "give the interval as an every schedule, e.g. every 10m")
	case "@reboot":
		return "", fault(CodeAlias, "", text, "@reboot is an event, not a time", "start the work from the service manager instead")
	}
	return "", fault(CodeAlias, "", text, fmt.Sprintf("%q is not an alias", echo(text)), "aliases: @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly")
}

// read fills the sets from the seven fields.
func (e *Expression) read(fields [fieldCount]string) error {
	d := &e.dates
	var plain [fieldYear]string
	for i := range plain {
		text := fields[i]
		if i == fieldWeekday && strings.HasPrefix(text, "+") {
			d.bothDays = true
			text = text[1:]
		}
		normal, err := d.readField(i, text)
		if err != nil {
			return err
		}
		plain[i] = normal
	}
	years, err := readYears(fields[fieldYear])
	if err != nil {
		return err
	}
	d.years = years
	d.anyDay = isStar(fields[fieldDay])
	d.anyWeekday = isStar(strings.TrimPrefix(fields[fieldWeekday], "+"))
	return e.fill(plain)
}

func isStar(field string) bool { return field == "*" || field == "?" }

// fill turns the plain fields into bit sets. The parser is robfig's; what
// reaches it are numbers in range, in order, without wraps or empty parts,
// because it accepts (or panics on) much that is not an expression. Its Next is
// not used.
func (e *Expression) fill(plain [fieldYear]string) error {
	const nothing = "" // a field that holds only L, W or # parts
	filled := plain
	for i := range filled {
		if filled[i] == nothing {
			filled[i] = "*"
		}
	}
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(strings.Join(filled[:], " "))
	if err != nil {
		return fault(CodeSyntax, "", e.text, "cannot be read: "+err.Error(), "")
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return fault(CodeSyntax, "", e.text, "cannot be read as fields", "")
	}
	const values = 1<<60 - 1 // the parser marks a star in the top bit
	e.times.second = spec.Second & values
	e.times.minute = spec.Minute & values
	e.times.hour = uint32(spec.Hour & values)
	e.dates.months = uint16(spec.Month & values)
	if plain[fieldDay] != nothing {
		e.dates.days = uint32(spec.Dom & values)
	}
	if plain[fieldWeekday] != nothing {
		e.dates.weekdays = uint8(spec.Dow & values)
	}
	return nil
}
