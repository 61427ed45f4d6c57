package schedule

import "math/bits"

// A dateSet holds the dates that match: rules for the day of the month and the
// day of the week, months and years. The days that match in one month become a
// single mask (bit d for day d), so that L, W and # cost no more than numbers.
type dateSet struct {
	days        uint32 // plain days of the month, bits 1 to 31
	nearest     uint32 // nW: the weekday nearest to day n, bits 1 to 31
	lastDay     bool   // L
	lastWorkday bool   // LW

	weekdays     uint8    // plain weekdays, bits 0 (Sunday) to 6
	nthWeekday   [5]uint8 // weekday#1 to weekday#5
	lastWeekdays uint8    // weekday#L, weekdayL

	anyDay, anyWeekday bool // the field is literally "*" or "?"
	bothDays           bool // "+" before the weekday field: both must match

	months uint16 // bits 1 to 12
	years  *yearSet

	// monthsOfKind holds the months in which at least one day matches, for each
	// of the fourteen calendars. It makes empty months and years one test each.
	monthsOfKind [yearKinds]uint16
}

// A yearSet is a bit for each year from 0 to 9999. A nil set is every year.
type yearSet [maxYear/64 + 1]uint64

func (s *yearSet) contains(year int) bool {
	return s == nil || s[year/64]&(1<<uint(year%64)) != 0
}

func (s *yearSet) add(year int) { s[year/64] |= 1 << uint(year%64) }

// index fills monthsOfKind once every other field is set.
func (d *dateSet) index() {
	for k := yearKind(0); k < yearKinds; k++ {
		var months uint16
		for m := 1; m <= 12; m++ {
			if d.months&(1<<uint(m)) != 0 && d.daysOf(k, m) != 0 {
				months |= 1 << uint(m)
			}
		}
		d.monthsOfKind[k] = months
	}
}

// empty reports whether no date of any listed year matches.
func (d *dateSet) empty() bool {
	for year := minYear; year <= maxYear; year++ {
		if d.years == nil && year > 400 {
			return true // the calendar repeats after 400 years
		}
		if d.years.contains(year) && d.monthsOfKind[kindOfYear(year)] != 0 {
			return false
		}
	}
	return true
}

// daysOf returns the mask of matching days of a month, whether or not the month
// itself is listed.
func (d *dateSet) daysOf(k yearKind, month int) uint32 {
	length := daysInMonth(k.leap(), month)
	all := uint32(1)<<uint(length+1) - 2
	if d.anyDay && d.anyWeekday {
		return all
	}
	first := k.firstWeekday(month)
	switch {
	case d.anyDay:
		return d.byWeekday(first, length) & all
	case d.anyWeekday:
		return d.byDay(first, length) & all
	case d.bothDays:
		return d.byDay(first, length) & d.byWeekday(first, length) & all
	default:
		return (d.byDay(first, length) | d.byWeekday(first, length)) & all
	}
}

// byDay returns the days that the day-of-month field selects. first is the
// weekday of day 1.
func (d *dateSet) byDay(first, length int) uint32 {
	mask := d.days
	if d.lastDay {
		mask |= 1 << uint(length)
	}
	if d.lastWorkday {
		mask |= 1 << uint(nearestWorkday(length, first, length))
	}
	for rest := d.nearest; rest != 0; rest &= rest - 1 {
		if day := bits.TrailingZeros32(rest); day <= length {
			mask |= 1 << uint(nearestWorkday(day, first, length))
		}
	}
	return mask
}

// nearestWorkday moves a Saturday to the Friday before and a Sunday to the
// Monday after, but never out of the month.
func nearestWorkday(day, first, length int) int {
	switch (first + day - 1) % 7 {
	case 6:
		if day == 1 {
			return 3
		}
		return day - 1
	case 0:
		if day == length {
			return day - 2
		}
		return day + 1
	}
	return day
}

// byWeekday returns the days that the day-of-week field selects.
func (d *dateSet) byWeekday(first, length int) uint32 {
	mask := spread(d.weekdays, first)
	for n, set := range d.nthWeekday {
		if set != 0 {
			week := uint32(0x7f) << uint(7*n+1)
			mask |= spread(set, first) & week
		}
	}
	if d.lastWeekdays != 0 {
		week := uint32(0x7f) << uint(length-6)
		mask |= spread(d.lastWeekdays, first) & week
	}
	return mask
}

// spread repeats a set of weekdays over a month whose day 1 falls on first: bit
// d of the result is set when day d is one of them.
func spread(weekdays uint8, first int) uint32 {
	week := uint64(weekdays)
	run := week | week<<7 | week<<14 | week<<21 | week<<28 | week<<35
	return uint32(run >> uint(first) << 1)
}

// contains reports whether the date matches. It is called with real dates only.
func (d *dateSet) contains(year, month, day int) bool {
	if d.months&(1<<uint(month)) == 0 || !d.years.contains(year) {
		return false
	}
	if d.anyDay && d.anyWeekday {
		return true
	}
	return d.daysOf(kindOfYear(year), month)&(1<<uint(day)) != 0
}

// after returns the first matching day later than the given date.
func (d *dateSet) after(year, month, day int) (int64, bool) {
	k := kindOfYear(year)
	if d.years.contains(year) {
		if d.monthsOfKind[k]&(1<<uint(month)) != 0 {
			if left := d.daysOf(k, month) &^ (1<<uint(day+1) - 1); left != 0 {
				return dayOf(year, month, bits.TrailingZeros32(left)), true
			}
		}
		if left := d.monthsOfKind[k] &^ (1<<uint(month+1) - 1); left != 0 {
			month = bits.TrailingZeros16(left)
			return dayOf(year, month, bits.TrailingZeros32(d.daysOf(k, month))), true
		}
	}
	// The search leaves the calendar after one cycle unless a year is named.
	for n := 0; year < maxYear && (n < 400 || d.years != nil); n++ {
		weekday := int(k) + 1 // 365 days = 52 weeks and a day
		if k.leap() {
			weekday -= 6 // the kind counts from 7, and there is one more day
		}
		year++
		k = kindOf(isLeap(year), weekday%7)
		if months := d.monthsOfKind[k]; months != 0 && d.years.contains(year) {
			month = bits.TrailingZeros16(months)
			return dayOf(year, month, bits.TrailingZeros32(d.daysOf(k, month))), true
		}
	}
	return 0, false
}

// before returns the last matching day earlier than the given date.
func (d *dateSet) before(year, month, day int) (int64, bool) {
	k := kindOfYear(year)
	if d.years.contains(year) {
		if d.monthsOfKind[k]&(1<<uint(month)) != 0 {
			if left := d.daysOf(k, month) & (1<<uint(day) - 1); left != 0 {
				return dayOf(year, month, 31-bits.LeadingZeros32(left)), true
			}
		}
		if left := d.monthsOfKind[k] & (1<<uint(month) - 1); left != 0 {
			month = 15 - bits.LeadingZeros16(left)
			return dayOf(year, month, 31-bits.LeadingZeros32(d.daysOf(k, month))), true
		}
	}
	for n := 0; year > minYear && (n < 400 || d.years != nil); n++ {
		year--
		k = kindOfYear(year)
		if months := d.monthsOfKind[k]; months != 0 && d.years.contains(year) {
			month = 15 - bits.LeadingZeros16(months)
			return dayOf(year, month, 31-bits.LeadingZeros32(d.daysOf(k, month))), true
		}
	}
	return 0, false
}
