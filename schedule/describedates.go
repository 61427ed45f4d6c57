package schedule

import (
	"fmt"
	"math/bits"
)

var weekdayNames = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}

var monthNames = [...]string{"", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}

var nthNames = [...]string{"first", "second", "third", "fourth", "fifth"}

const (
	everyDayOfMonth = 1<<32 - 2
	everyWeekday    = 1<<7 - 1
	everyMonth      = 1<<13 - 2
)

// unlimitedDay reports whether the day-of-month field lets every day pass.
func (d *dateSet) unlimitedDay() bool { return d.anyDay || d.days == everyDayOfMonth }

func (d *dateSet) unlimitedWeekday() bool { return d.anyWeekday || d.weekdays == everyWeekday }

// everyDay reports whether the two day fields together let every day pass. Two
// fields that are not stars are alternatives, so one that lets all pass is enough.
func (d *dateSet) everyDay() bool {
	if d.anyDay || d.anyWeekday || d.bothDays {
		return d.unlimitedDay() && d.unlimitedWeekday()
	}
	return d.unlimitedDay() || d.unlimitedWeekday()
}

// describe returns the phrase for the dates, with a leading space, or "".
func (d *dateSet) describe() string {
	return d.describeDays() + d.describeYears()
}

func (d *dateSet) describeDays() string {
	inMonths := ""
	if d.months != everyMonth {
		inMonths = " in " + runList(indexes(uint64(d.months)), func(m int) string { return monthNames[m] })
	}
	if d.everyDay() {
		return inMonths
	}
	byDay := !d.unlimitedDay()
	byWeekday := !d.unlimitedWeekday()
	if byDay && !byWeekday && d.plainDays() && bits.OnesCount16(d.months) == 1 && bits.OnesCount32(d.days) <= 3 {
		return " on " + runList(indexes(uint64(d.days)), formatSmall) + " " + monthNames[bits.TrailingZeros16(d.months)]
	}
	switch {
	case byDay && byWeekday && d.bothDays:
		return " on " + d.namedDays() + ", if that day is " + d.namedWeekdays() + inMonths
	case byDay && byWeekday:
		return " on " + d.namedDays() + " or on " + d.namedWeekdays() + inMonths
	case byDay:
		return " on " + d.namedDays() + inMonths
	}
	return " on " + d.namedWeekdays() + inMonths
}

func (d *dateSet) plainDays() bool { return !d.lastDay && !d.lastWorkday && d.nearest == 0 }

func (d *dateSet) namedDays() string {
	var words []string
	if d.days != 0 {
		words = append(words, values(indexes(uint64(d.days)), "day"))
	}
	for _, day := range indexes(uint64(d.nearest)) {
		words = append(words, fmt.Sprintf("the working day (Monday to Friday) nearest day %d", day))
	}
	if d.lastWorkday {
		words = append(words, "the last working day (Monday to Friday)")
	}
	if d.lastDay {
		words = append(words, "the last day")
	}
	return join(words) + " of the month"
}

// namedWeekdays counts the week from Monday, so that a weekend is a run.
func (d *dateSet) namedWeekdays() string {
	var words []string
	if d.weekdays != 0 {
		words = append(words, weekdayList(d.weekdays))
	}
	for n, set := range d.nthWeekday {
		if set != 0 {
			words = append(words, "the "+nthNames[n]+" "+weekdayList(set)+" of the month")
		}
	}
	if d.lastWeekdays != 0 {
		words = append(words, "the last "+weekdayList(d.lastWeekdays)+" of the month")
	}
	return join(words)
}

func weekdayList(set uint8) string {
	fromMonday := uint64(set>>1 | set&1<<6)
	return runList(indexes(fromMonday), func(i int) string { return weekdayNames[(i+1)%7] })
}

func (d *dateSet) describeYears() string {
	if d.years == nil {
		return ""
	}
	var list []int
	for year := minYear; year <= maxYear; year++ {
		if d.years.contains(year) {
			list = append(list, year)
		}
	}
	if len(list) > 3 {
		if step := progression(list); step > 1 {
			return fmt.Sprintf(" in every %s year from %d through %d", ordinal(step), list[0], list[len(list)-1])
		}
	}
	return " in " + runList(list, formatSmall)
}
