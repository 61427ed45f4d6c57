package worker

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// An oracle of slots that shares no code with the schedule package: it walks
// through real time minute by minute, asks Go's time package what the clock on
// the wall shows, and matches the fields of an expression by itself.

// oracleJob is a job and what the oracle needs of its schedule.
type oracleJob struct {
	id    string
	kind  string // at, every, cron
	atMs  int64
	every int64 // interval and anchor, ms
	from  int64
	// cron
	seconds int64 // within the minute
	fields  [5]string
	zone    string
	skip    bool // the rule of daylight saving: skip, else vixie
	window  int64
	params  json.RawMessage
}

// oracleWall is what the clocks of a zone show, minute by minute from a start.
type oracleWall struct {
	startMs int64
	// minutes are what is shown, counted as if all days had 24 hours: the count
	// grows by one a minute, but for changes of offset.
	minutes []int64
}

func newOracleWall(t testing.TB, zone string, fromMs, toMs int64) oracleWall {
	t.Helper()
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	w := oracleWall{startMs: fromMs - fromMs%60_000}
	for ms := w.startMs; ms <= toMs; ms += 60_000 {
		_, offset := time.UnixMilli(ms).In(place).Zone()
		w.minutes = append(w.minutes, (ms/1000+int64(offset))/60)
	}
	return w
}

// slots are the instants at which a job must fire in (fromMs, toMs].
func (j *oracleJob) slots(w oracleWall, fromMs, toMs int64) map[int64]bool {
	all := map[int64]bool{}
	add := func(ms int64) {
		if ms > fromMs && ms <= toMs {
			all[ms] = true
		}
	}
	switch j.kind {
	case "at":
		add(j.atMs)
	case "every":
		for ms := j.from; ms <= toMs; ms += j.every {
			add(ms)
		}
	default:
		j.cronSlots(w, func(ms int64) { add(ms + j.offset()) })
	}
	return all
}

// cronSlots finds the firings of an expression before any stagger.
func (j *oracleJob) cronSlots(w oracleWall, fires func(ms int64)) {
	fixed := !strings.ContainsAny(j.fields[0]+j.fields[1], "*/?")
	shown := w.minutes[0] - 1 // the greatest minute that was on the wall so far
	for i, m := range w.minutes {
		ms := w.startMs + int64(i)*60_000
		again := m <= shown
		if i > 0 && !j.skip && fixed {
			for gone := w.minutes[i-1] + 1; gone < m; gone++ { // jumped over
				if gone > shown && j.matches(gone) {
					fires(ms)
					break
				}
			}
		}
		shown = max(shown, m)
		if j.matches(m) && (!again || !fixed && !j.skip) {
			fires(ms + j.seconds*1000)
		}
	}
}

// matches reports whether a minute on the wall is named by the expression.
func (j *oracleJob) matches(minute int64) bool {
	at := time.Unix(minute*60, 0).UTC() // as if the wall were Greenwich's
	if !oracleField(j.fields[0], at.Minute(), 0, 59) || !oracleField(j.fields[1], at.Hour(), 0, 23) || !oracleField(j.fields[3], int(at.Month()), 1, 12) {
		return false
	}
	day, weekday := oracleField(j.fields[2], at.Day(), 1, 31), oracleField(j.fields[4], int(at.Weekday()), 0, 6)
	if j.fields[2] != "*" && j.fields[4] != "*" {
		return day || weekday // either, where both are named
	}
	return day && weekday
}

// oracleField matches a value against "*", numbers, ranges, lists and steps.
func oracleField(field string, value, least, most int) bool {
	for part := range strings.SplitSeq(field, ",") {
		span, step, stepped := strings.Cut(part, "/")
		low, high := least, most
		if span != "*" {
			a, b, ranged := strings.Cut(span, "-")
			low, _ = strconv.Atoi(a)
			if high = low; ranged {
				high, _ = strconv.Atoi(b)
			} else if stepped {
				high = most
			}
		}
		by := 1
		if stepped {
			by, _ = strconv.Atoi(step)
		}
		if value >= low && value <= high && (value-low)%by == 0 {
			return true
		}
	}
	return false
}

// offset is the job's place in its stagger window.
func (j *oracleJob) offset() int64 {
	if j.window <= 1 {
		return 0
	}
	sum := sha256.Sum256([]byte(j.id))
	return int64(binary.BigEndian.Uint32(sum[:4])) % j.window
}

// encode makes the parameters of cron.add.
func (j *oracleJob) encode(more string) {
	schedule := ""
	switch j.kind {
	case "at":
		schedule = fmt.Sprintf(`{"kind":"at","at":%q}`, time.UnixMilli(j.atMs).UTC().Format(time.RFC3339))
	case "every":
		schedule = fmt.Sprintf(`{"kind":"every","everyMs":%d,"anchorMs":%d}`, j.every, j.from)
	default:
		expr := strings.Join(j.fields[:], " ")
		if j.seconds != 0 {
			expr = fmt.Sprint(j.seconds, " ", expr)
		}
		rule := "vixie"
		if j.skip {
			rule = "skip"
		}
		schedule = fmt.Sprintf(`{"kind":"cron","expr":%q,"tz":%q,"staggerMs":%d}`, expr, j.zone, j.window)
		more += fmt.Sprintf(`,"dst":%q`, rule)
	}
	j.params = json.RawMessage(fmt.Sprintf(`{"name":%q,"schedule":%s,"payload":{"kind":"command","argv":["/bin/true"]}%s}`, j.id, schedule, more))
}
