package schedule

// A fieldRule is what one field of an expression may say.
type fieldRule struct {
	name     string         // as errors and warnings call it
	min, max int            // the values it stands for
	names    map[string]int // upper case
	digits   int            // the longest number that is written out
}

// size is the number of values: the largest step, and the length of a wrap.
func (f *fieldRule) size() int { return f.max - f.min + 1 }

func (f *fieldRule) isWeekday() bool { return f == &fieldRules[fieldWeekday] }

// limit is the largest number that may be written: Sunday may be 7.
func (f *fieldRule) limit() int {
	if f.isWeekday() {
		return 7
	}
	return f.max
}

// The fields in the order of the longest form.
const (
	fieldSecond = iota
	fieldMinute
	fieldHour
	fieldDay
	fieldMonth
	fieldWeekday
	fieldYear
	fieldCount
)

var monthNumbers = map[string]int{
	"JAN": 1, "FEB": 2, "MAR": 3, "APR": 4, "MAY": 5, "JUN": 6,
	"JUL": 7, "AUG": 8, "SEP": 9, "OCT": 10, "NOV": 11, "DEC": 12,
}

var weekdayNumbers = map[string]int{
	"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6,
}

var fieldRules = [fieldCount]fieldRule{
	fieldSecond:  {name: "second", min: 0, max: 59, digits: 2},
	fieldMinute:  {name: "minute", min: 0, max: 59, digits: 2},
	fieldHour:    {name: "hour", min: 0, max: 23, digits: 2},
	fieldDay:     {name: "day of month", min: 1, max: 31, digits: 2},
	fieldMonth:   {name: "month", min: 1, max: 12, digits: 2, names: monthNumbers},
	fieldWeekday: {name: "day of week", min: 0, max: 6, digits: 2, names: weekdayNumbers},
	fieldYear:    {name: "year", min: minYear, max: maxYear, digits: 4},
}

// aliases and what they stand for. @reboot and @every are not cron: the first
// is an event, the second an interval.
var aliases = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// characterNames are the invisible or look-alike characters that people paste.
var characterNames = map[rune]string{
	0x00:   "NUL",
	0x0b:   "a vertical tab",
	0x0c:   "a form feed",
	0x85:   "a next-line control",
	0xa0:   "a no-break space",
	0xad:   "a soft hyphen",
	0x2007: "a figure space",
	0x2009: "a thin space",
	0x200b: "a zero-width space",
	0x200c: "a zero-width non-joiner",
	0x200d: "a zero-width joiner",
	0x2010: "a hyphen that is not ASCII",
	0x2011: "a no-break hyphen",
	0x2012: "a figure dash",
	0x2013: "an en dash",
	0x2014: "an em dash",
	0x2028: "a line separator",
	0x202f: "a narrow no-break space",
	0x2060: "a word joiner",
	0x2212: "a minus sign that is not ASCII",
	0x2217: "an asterisk operator",
	0x3000: "an ideographic space",
	0xfeff: "a byte order mark",
	0xff0a: "a full-width asterisk",
}
