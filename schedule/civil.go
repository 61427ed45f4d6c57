package schedule

// Integer arithmetic on the proleptic Gregorian calendar. A day is a count of
// days since 1970-01-01; a wall time is a count of seconds since its midnight.
// time.Time is kept out of it: one Date call costs as much as a whole search.

const (
	secondsPerDay = 86_400
	minYear       = 1
	maxYear       = 9999
)

// floorDiv rounds towards minus infinity; b must be positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// dayOf counts the days from 1970-01-01 to the given date. Years are shifted to
// begin in March, so that the leap day is the last of its year.
func dayOf(year, month, day int) int64 {
	y := int64(year)
	if month <= 2 {
		y--
	}
	cycle := floorDiv(y, 400)
	yearOfCycle := y - cycle*400
	monthFromMarch := int64((month + 9) % 12)
	dayOfYear := (153*monthFromMarch+2)/5 + int64(day) - 1
	return cycle*146_097 + yearOfCycle*365 + yearOfCycle/4 - yearOfCycle/100 + dayOfYear - 719_468
}

// dateOf is the inverse of dayOf.
func dateOf(days int64) (year, month, day int) {
	days += 719_468
	cycle := floorDiv(days, 146_097)
	dayOfCycle := days - cycle*146_097
	yearOfCycle := (dayOfCycle - dayOfCycle/1_460 + dayOfCycle/36_524 - dayOfCycle/146_096) / 365
	dayOfYear := dayOfCycle - (365*yearOfCycle + yearOfCycle/4 - yearOfCycle/100)
	monthFromMarch := (5*dayOfYear + 2) / 153
	day = int(dayOfYear-(153*monthFromMarch+2)/5) + 1
	month = int(monthFromMarch)%12 + 3
	year = int(yearOfCycle + cycle*400)
	if month > 12 {
		month -= 12
	}
	if month <= 2 {
		year++
	}
	return year, month, day
}

// weekdayOf returns 0 for Sunday to 6 for Saturday. 1970-01-01 was a Thursday.
func weekdayOf(days int64) int {
	w := (days + 4) % 7
	if w < 0 {
		w += 7
	}
	return int(w)
}

func isLeap(year int) bool {
	return year%4 == 0 && (year%100 != 0 || year%400 == 0)
}

// Month lengths and the days before each month, of a common year.
var (
	monthLengths    = [13]int8{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	daysBeforeMonth = [13]int16{0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334}
)

func daysInMonth(leap bool, month int) int {
	if month == 2 && leap {
		return 29
	}
	return int(monthLengths[month])
}

// A yearKind is one of the fourteen calendars a year can have: the weekday of
// 1 January, plus 7 when the year is leap. Which dates an expression matches in
// a year depends on nothing else (but the year field), so emptiness is proved
// over fourteen kinds instead of four hundred years.
type yearKind uint8

const yearKinds = 14

func kindOf(leap bool, janFirstWeekday int) yearKind {
	if leap {
		return yearKind(janFirstWeekday + 7)
	}
	return yearKind(janFirstWeekday)
}

func (k yearKind) leap() bool { return k >= 7 }

// firstWeekday is the weekday of the first of month in a year of this kind.
func (k yearKind) firstWeekday(month int) int {
	w := int(k) + int(daysBeforeMonth[month])
	if k >= 7 {
		w -= 7
		if month > 2 {
			w++
		}
	}
	return w % 7
}

func kindOfYear(year int) yearKind {
	return kindOf(isLeap(year), weekdayOf(dayOf(year, 1, 1)))
}
