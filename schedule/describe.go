package schedule

import (
	"fmt"
	"math/bits"
	"strings"
)

// Describe says in plain English when the schedule fires.
func (s Schedule) Describe() string {
	switch s.kind {
	case kindAt:
		return "once, at " + FormatInstant(s.firstMs)
	case kindEvery:
		return "every " + formatSpan(s.spanMs) + ", counted from " + FormatInstant(s.firstMs)
	case kindCron:
		text := s.expression.Describe() + ", " + s.zone.name
		if s.zone != utc {
			text += " time"
		}
		if s.spanMs > 0 {
			text += ", each " + formatSpan(s.spanMs) + " later (stagger)"
		}
		return text
	}
	return "never"
}

// Describe says in plain English which wall times match. It speaks of the sets
// that were read, not of the text, so two spellings of one set read alike.
func (e *Expression) Describe() string {
	if e.Never() {
		return "never"
	}
	clock, moments := e.times.describe()
	dates := e.dates.describe()
	if moments && e.dates.everyDay() {
		clock += " every day"
	}
	return clock + dates
}

// maxListedTimes is how many times of day are listed one by one.
const maxListedTimes = 6

// describe returns the phrase for the time of day, and whether it is a list of
// moments ("at 09:00"), which wants "every day" after it.
func (t *timeSet) describe() (phrase string, moments bool) {
	n := bits.OnesCount32(t.hour) * bits.OnesCount64(t.minute) * bits.OnesCount64(t.second)
	if n <= maxListedTimes {
		return "at " + t.list(), true
	}
	hours := uint64(t.hour)
	everyHour := hours == full(24)
	if t.second != 1 {
		return t.describeSeconds(hours), false
	}
	pace := rhythm(t.minute, 60, "minute")
	single := bits.OnesCount64(t.minute) == 1
	switch {
	case t.minute == 1 && rhythm(hours, 24, "hour") != "":
		return rhythm(hours, 24, "hour"), false
	case single && rhythm(hours, 24, "hour") != "":
		return fmt.Sprintf("%s, at minute %d", rhythm(hours, 24, "hour"), lowest(t.minute)), false
	case single && len(runsOf(hours)) == 1:
		minute := lowest(t.minute)
		return fmt.Sprintf("every hour from %02d:%02d through %02d:%02d", lowest(hours), minute, highest(hours), minute), false
	case pace != "" && everyHour:
		return pace, false
	case pace != "" && len(runsOf(hours)) <= 3:
		return pace + " " + spansOfDay(runsOf(hours), fmt.Sprintf(":%02d", highest(t.minute)), ":00"), false
	}
	return "at " + named(t.minute, 60, "minute") + " of " + named(hours, 24, "hour"), false
}

func (t *timeSet) describeSeconds(hours uint64) string {
	pace := rhythm(t.second, 60, "second")
	allMinutes := t.minute == full(60)
	if pace != "" && allMinutes {
		if hours == full(24) {
			return pace
		}
		if runs := runsOf(hours); len(runs) <= 3 {
			return pace + " " + spansOfDay(runs, fmt.Sprintf(":59:%02d", highest(t.second)), ":00:00")
		}
	}
	phrase := "at " + named(t.second, 60, "second")
	if pace != "" {
		phrase = pace
	}
	phrase += " of " + named(t.minute, 60, "minute")
	if hours == full(24) && allMinutes {
		return phrase
	}
	return phrase + " of " + named(hours, 24, "hour")
}

// list writes each time of day that matches, in order.
func (t *timeSet) list() string {
	var words []string
	for sod, ok := t.next(0); ok; sod, ok = t.next(sod + 1) {
		word := fmt.Sprintf("%02d:%02d", sod/3600, sod/60%60)
		if t.second != 1 {
			word += fmt.Sprintf(":%02d", sod%60)
		}
		words = append(words, word)
		if sod == secondsPerDay-1 {
			break
		}
	}
	return join(words)
}

// spansOfDay writes runs of hours as spans of clock time.
func spansOfDay(runs [][2]int, lastSuffix, firstSuffix string) string {
	words := make([]string, len(runs))
	for i, r := range runs {
		words[i] = fmt.Sprintf("from %02d%s through %02d%s", r[0], firstSuffix, r[1], lastSuffix)
	}
	return join(words)
}

func full(size int) uint64 { return 1<<uint(size) - 1 }

// rhythm names a set that repeats evenly around the whole circle of its unit:
// "every minute", "every 15 minutes". Otherwise it returns "".
func rhythm(set uint64, size int, unit string) string {
	if set == full(size) {
		return "every " + unit
	}
	step := 0
	if bits.OnesCount64(set) > 1 && set&1 != 0 {
		step = lowest(set &^ 1)
	}
	if step < 2 || size%step != 0 {
		return ""
	}
	for v := 0; v < size; v++ {
		if (set&(1<<uint(v)) != 0) != (v%step == 0) {
			return ""
		}
	}
	return fmt.Sprintf("every %d %ss", step, unit)
}

// named writes a set as values of a unit: "minute 5", "minutes 5 through 10 and
// 30", "every 2nd minute from 1 through 59", "every minute".
func named(set uint64, size int, unit string) string {
	if set == full(size) {
		return "every " + unit
	}
	return values(indexes(set), unit)
}

func indexes(set uint64) []int {
	var list []int
	for ; set != 0; set &= set - 1 {
		list = append(list, lowest(set))
	}
	return list
}

// values writes an ascending list of numbers with the name of their unit.
func values(list []int, unit string) string {
	if len(list) == 1 {
		return fmt.Sprintf("%s %d", unit, list[0])
	}
	if step := progression(list); step > 1 && len(list) > 3 {
		return fmt.Sprintf("every %s %s from %d through %d", ordinal(step), unit, list[0], list[len(list)-1])
	}
	return unit + "s " + runList(list, formatSmall)
}

func formatSmall(n int) string { return formatInt(int64(n)) }

// progression returns the common difference of a list, or 0.
func progression(list []int) int {
	step := list[1] - list[0]
	for i := 2; i < len(list); i++ {
		if list[i]-list[i-1] != step {
			return 0
		}
	}
	return step
}

// runsOf splits a set into runs of neighbours.
func runsOf(set uint64) [][2]int { return runs(indexes(set)) }

func runs(list []int) [][2]int {
	var out [][2]int
	for _, v := range list {
		if n := len(out); n > 0 && out[n-1][1] == v-1 {
			out[n-1][1] = v
		} else {
			out = append(out, [2]int{v, v})
		}
	}
	return out
}

// runList writes an ascending list, three neighbours or more as "a through b".
func runList(list []int, name func(int) string) string {
	var words []string
	for _, r := range runs(list) {
		if r[1]-r[0] >= 2 {
			words = append(words, name(r[0])+" through "+name(r[1]))
			continue
		}
		for v := r[0]; v <= r[1]; v++ {
			words = append(words, name(v))
		}
	}
	return join(words)
}

func join(words []string) string {
	switch len(words) {
	case 0:
		return ""
	case 1:
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

func ordinal(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
