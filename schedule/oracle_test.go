package schedule

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An evaluator of the written rules that shares no code with the package: it
// reads the text of the fields itself, looks at every minute (or second) of real
// time in a window through time.Location, and decides from the list of wall
// times that were really shown. It is slow and knows nothing of segments.

var seedFlag = flag.Uint64("seed", 20261129, "seed of the random tests")

// random returns a source that the printed seed replays.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	t.Logf("seed %d (replay with -seed)", *seedFlag)
	return rand.New(rand.NewPCG(*seedFlag, 0))
}

// oracleField matches one plain or special field of the text.
type oracleField struct {
	text     string
	min, max int
}

func (f oracleField) has(v int) bool {
	for _, part := range strings.Split(f.text, ",") {
		body, stepText, _ := strings.Cut(part, "/")
		step := 1
		if stepText != "" {
			step, _ = strconv.Atoi(stepText)
		}
		low, high := f.min, f.max
		if body != "*" && body != "?" {
			a, b, ranged := strings.Cut(body, "-")
			low, _ = strconv.Atoi(a)
			high = low
			if ranged {
				high, _ = strconv.Atoi(b)
			} else if stepText != "" {
				high = f.max
			}
		}
		size := f.max - f.min + 1
		if high < low {
			high += size
		}
		for n := low; n <= high; n += step {
			if (n-f.min)%size == v-f.min {
				return true
			}
		}
	}
	return false
}

// An oracleJob is an expression read as text: second minute hour day month
// weekday, the weekdays 0 to 6.
type oracleJob struct {
	text   string
	fields [6]string
	fixed  bool
	sets   [6]map[int]bool
}

func newOracleJob(text string) *oracleJob {
	words := strings.Fields(text)
	if len(words) == 5 {
		words = append([]string{"0"}, words...)
	}
	j := &oracleJob{text: text, fixed: !strings.ContainsAny(words[0]+words[1]+words[2], "*?/")}
	copy(j.fields[:], words)
	bounds := [6][2]int{{0, 59}, {0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	for i, b := range bounds {
		j.sets[i] = make(map[int]bool)
		f := oracleField{strings.TrimPrefix(words[i], "+"), b[0], b[1]}
		if strings.ContainsAny(f.text, "LW#") {
			continue
		}
		for v := b[0]; v <= b[1]; v++ {
			j.sets[i][v] = f.has(v)
		}
	}
	return j
}

// A shown is a wall time as a clock shows it.
type shown struct{ year, month, day, hour, minute, second int }

func (j *oracleJob) matches(w shown) bool {
	if !j.sets[0][w.second] || !j.sets[1][w.minute] || !j.sets[2][w.hour] || !j.sets[4][w.month] {
		return false
	}
	date := time.Date(w.year, time.Month(w.month), w.day, 0, 0, 0, 0, time.UTC)
	day := j.dayMatches(date)
	weekday := j.weekdayMatches(date)
	dayText, weekdayText := j.fields[3], j.fields[5]
	switch {
	case dayText == "*" || dayText == "?":
		return weekday
	case weekdayText == "*" || weekdayText == "?":
		return day
	case strings.HasPrefix(weekdayText, "+"):
		return day && weekday
	}
	return day || weekday
}

func (j *oracleJob) dayMatches(date time.Time) bool {
	last := time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC)
	workday := func(d time.Time) bool { return d.Weekday() != time.Saturday && d.Weekday() != time.Sunday }
	switch text := j.fields[3]; {
	case text == "L":
		return date.Equal(last)
	case text == "LW":
		for !workday(last) {
			last = last.AddDate(0, 0, -1)
		}
		return date.Equal(last)
	case strings.HasSuffix(text, "W"):
		n, _ := strconv.Atoi(strings.TrimSuffix(text, "W"))
		if n > last.Day() {
			return false
		}
		target := time.Date(date.Year(), date.Month(), n, 0, 0, 0, 0, time.UTC)
		for _, move := range []int{0, -1, 1, -2, 2} {
			d := target.AddDate(0, 0, move)
			if d.Month() == date.Month() && workday(d) {
				return date.Equal(d)
			}
		}
		return false
	}
	return j.sets[3][date.Day()]
}

func (j *oracleJob) weekdayMatches(date time.Time) bool {
	text := strings.TrimPrefix(j.fields[5], "+")
	base, nth, found := strings.Cut(text, "#")
	if !found {
		return j.sets[5][int(date.Weekday())]
	}
	want, _ := strconv.Atoi(base)
	if int(date.Weekday()) != want {
		return false
	}
	if nth == "L" {
		return date.AddDate(0, 0, 7).Month() != date.Month()
	}
	n, _ := strconv.Atoi(nth)
	return (date.Day()-1)/7+1 == n
}

// A window is a stretch of real time with what the clocks showed.
type window struct {
	location *time.Location
	stepSec  int64
	instants []int64
	walls    []shown
	offsets  []int
	times    map[shown]int // how often each wall time was shown
}

func look(location *time.Location, fromSec, toSec, stepSec int64) *window {
	w := &window{location: location, stepSec: stepSec, times: make(map[shown]int)}
	for sec := fromSec; sec <= toSec; sec += stepSec {
		t := time.Unix(sec, 0).In(location)
		_, offset := t.Zone()
		wall := shown{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second()}
		w.instants = append(w.instants, sec)
		w.walls = append(w.walls, wall)
		w.offsets = append(w.offsets, offset)
		w.times[wall]++
	}
	return w
}

// firings decides by the written rules which instants of the window fire.
func (w *window) firings(j *oracleJob, dst DST) []int64 {
	var out []int64
	seen := make(map[shown]bool)
	for i, sec := range w.instants {
		fires := false
		if wall := w.walls[i]; j.matches(wall) {
			again := seen[wall]
			seen[wall] = true
			fires = !again || (dst == Vixie && !j.fixed)
		}
		if i > 0 && dst == Vixie && j.fixed {
			rise := w.offsets[i] - w.offsets[i-1]
			if rise > 0 && rise < 24*3600 && w.gapMatches(j, sec, w.offsets[i-1], w.offsets[i]) {
				fires = true
			}
		}
		if fires {
			out = append(out, sec)
		}
	}
	return out
}

func (w *window) gapMatches(j *oracleJob, sec int64, before, after int) bool {
	for at := sec + int64(before); at < sec+int64(after); at += w.stepSec {
		t := time.Unix(at, 0).UTC() // the wall time, written as if it were UTC
		wall := shown{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second()}
		if w.times[wall] == 0 && j.matches(wall) {
			return true
		}
	}
	return false
}

// transitions lists the instants between two years at which a zone's offset
// changes, on whole minutes.
func transitions(location *time.Location, fromYear, toYear int) []int64 {
	offsetAt := func(sec int64) int {
		_, offset := time.Unix(sec, 0).In(location).Zone()
		return offset
	}
	var out []int64
	end := time.Date(toYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for sec := time.Date(fromYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); sec < end; sec += 3600 {
		if offsetAt(sec) == offsetAt(sec+3600) {
			continue
		}
		at := sec + 60
		for offsetAt(at) == offsetAt(sec) {
			at += 60
		}
		out = append(out, at)
	}
	return out
}

// randomField writes a field that hits often: near transitions the hours matter.
func randomField(r *rand.Rand, low, high int, starShare float64) string {
	if r.Float64() < starShare {
		return "*"
	}
	pick := func() int { return low + r.IntN(high-low+1) }
	switch r.IntN(6) {
	case 0:
		return fmt.Sprintf("*/%d", 1+r.IntN(high-low+1))
	case 1:
		return fmt.Sprintf("%d-%d", pick(), pick())
	case 2:
		return fmt.Sprintf("%d,%d,%d", pick(), pick(), pick())
	case 3:
		return fmt.Sprintf("%d/%d", pick(), 1+r.IntN(high-low+1))
	case 4:
		return fmt.Sprintf("%d-%d/%d", pick(), pick(), 1+r.IntN(5))
	}
	return strconv.Itoa(pick())
}

func randomHour(r *rand.Rand) string {
	near := []string{"0", "1", "2", "3", "23", "0-3", "1,2", "2,14", "23,0,1", "22-2", "0-23", "*", "*/2", "1-3/2", "2/6"}
	if r.IntN(3) == 0 {
		return randomField(r, 0, 23, 0.2)
	}
	return near[r.IntN(len(near))]
}

func randomDates(r *rand.Rand) string {
	day, month, weekday := randomField(r, 1, 31, 0.8), randomField(r, 1, 12, 0.85), randomField(r, 0, 6, 0.75)
	switch r.IntN(20) {
	case 0:
		day = "L"
	case 1:
		day = "LW"
	case 2:
		day = fmt.Sprintf("%dW", 1+r.IntN(31))
	case 3:
		weekday = fmt.Sprintf("%d#%d", r.IntN(7), 1+r.IntN(5))
	case 4:
		weekday = fmt.Sprintf("%d#L", r.IntN(7))
	case 5:
		weekday = "+" + weekday
	}
	return day + " " + month + " " + weekday
}

// The zones have gaps and overlaps of 20 minutes to a day, at midnight, over
// midnight, with negative daylight time, or no rule at all.
var transitionZones = []struct {
	name     string
	from, to int
}{
	{"America/New_York", 2026, 2028}, {"Europe/Oslo", 2026, 2027}, {"Australia/Lord_Howe", 2026, 2027},
	{"Antarctica/Troll", 2026, 2027}, {"Africa/Cairo", 2026, 2027}, {"Asia/Beirut", 2026, 2027},
	{"America/Havana", 2026, 2027}, {"America/Santiago", 2026, 2027}, {"Pacific/Chatham", 2026, 2027},
	{"Africa/Casablanca", 2026, 2028}, {"America/Nuuk", 2023, 2027}, {"Pacific/Apia", 2011, 2012},
	{"Europe/Dublin", 2026, 2027}, {"America/St_Johns", 2010, 2012}, {"Asia/Pyongyang", 2015, 2019},
	{"America/Caracas", 2007, 2017}, {"Pacific/Kwajalein", 1993, 1994}, {"Asia/Tehran", 2021, 2023},
	{"Europe/Moscow", 2010, 2015}, {"America/Asuncion", 2024, 2025}, {"Asia/Almaty", 2024, 2025},
	{"Pacific/Norfolk", 2015, 2020}, {"America/Sao_Paulo", 2017, 2020}, {"Asia/Gaza", 2026, 2027},
	{"Pacific/Fakaofo", 2011, 2012}, {"America/Scoresbysund", 2023, 2025}, {"Africa/Juba", 2020, 2022},
	{"Asia/Kathmandu", 1985, 1987}, {"America/Ciudad_Juarez", 2022, 2023}, {"America/Argentina/San_Luis", 2007, 2010}, {"America/New_York", 2101, 2102},
}

func TestOracleAgreesNearTransitions(t *testing.T) {
	r := random(t)
	compared, fired := 0, 0
	for _, tz := range transitionZones {
		z := zone(t, tz.name)
		changes := transitions(z.Location(), tz.from, tz.to)
		if len(changes) == 0 {
			t.Errorf("%s does not change between %d and %d", tz.name, tz.from, tz.to)
		}
		for _, at := range changes {
			minutes := look(z.Location(), at-40*3600, at+40*3600, 60)
			seconds := look(z.Location(), at-3*3600, at+3*3600, 1)
			for i := range 20 {
				text, w := randomField(r, 0, 59, 0.15)+" "+randomHour(r)+" "+randomDates(r), minutes
				if i >= 17 {
					text, w = randomField(r, 0, 59, 0.3)+" "+text, seconds
				}
				for _, dst := range []DST{Vixie, Skip} {
					fired += compare(t, w, text, z, dst)
					compared++
				}
				if t.Failed() {
					return
				}
			}
		}
	}
	t.Logf("%d comparisons, %d firings", compared, fired)
	if compared < 2500 || fired < 50_000 {
		t.Errorf("the random expressions hit too little: %d comparisons, %d firings", compared, fired)
	}
}

// compare walks both ways through a window and returns how many slots it has.
func compare(t *testing.T, w *window, text string, z *Zone, dst DST) int {
	t.Helper()
	e, err := ParseExpression(text)
	if err != nil {
		if code(err) != CodeNever {
			t.Errorf("%q: %v", text, err)
		}
		return 0
	}
	j := newOracleJob(text)
	if e.FixedTime() != j.fixed {
		t.Errorf("%q: FixedTime is %v", text, e.FixedTime())
	}
	s := Cron(e, z, dst, 0)
	want := w.firings(j, dst)
	first, last := w.instants[0], w.instants[len(w.instants)-1]
	label := func() string { return fmt.Sprintf("%q %s %s", text, z.Name(), dst) }

	atMs, i := first*1000-1, 0
	for ; i < len(want); i++ {
		slotMs, ok := s.Next(atMs)
		if !ok || slotMs != want[i]*1000 {
			t.Errorf("%s: next of %s is %s, the oracle says %s", label(), FormatInstant(atMs), answer(slotMs, ok), FormatInstant(want[i]*1000))
			return i
		}
		atMs = slotMs
	}
	if slotMs, ok := s.Next(atMs); ok && slotMs <= last*1000 {
		t.Errorf("%s: one more at %s", label(), FormatInstant(slotMs))
	}
	atMs = last*1000 + 1
	for i = len(want) - 1; i >= 0; i-- {
		slotMs, ok := s.Prev(atMs)
		if !ok || slotMs != want[i]*1000 {
			t.Errorf("%s: previous of %s is %s, the oracle says %s", label(), FormatInstant(atMs), answer(slotMs, ok), FormatInstant(want[i]*1000))
			return len(want)
		}
		atMs = slotMs
	}
	if slotMs, ok := s.Prev(atMs); ok && slotMs >= first*1000 {
		t.Errorf("%s: one more, backwards, at %s", label(), FormatInstant(slotMs))
	}
	return len(want)
}

// Far from changes the dates matter: the same evaluator, a day at a time in UTC.
func TestOracleAgreesOnDates(t *testing.T) {
	r := random(t)
	from := time.Date(2095, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	days := look(time.UTC, from, from+12*366*secondsPerDay, secondsPerDay)
	for range 400 {
		compare(t, days, "0 0 "+randomDates(r), UTC(), Vixie)
	}
}
