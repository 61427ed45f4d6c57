package schedule

import (
	"sync"
	"time"
)

// A Zone is a named time zone: a list of segments of constant offset. It is
// immutable after load and safe for concurrent use.
type Zone struct {
	name     string
	location *time.Location
	segments []segment // ascending, contiguous, from beginning to tableEnd
	tableEnd int64     // beyond it the location is asked, for zones that change for ever
}

// A segment is a span of instants, in Unix seconds, in which the zone keeps one
// offset from UTC. Whether it is called daylight time does not matter.
type segment struct {
	start, end int64 // start included, end not
	offset     int64 // seconds east of UTC; wall = instant + offset
}

const (
	beginning = -1 << 62
	infinity  = 1 << 62

	// tableHorizon ends the precomputed table: 2100-01-01. Zones with a standing
	// rule change twice a year, so the table stays within about 10 kB.
	tableHorizon = 4_102_444_800

	// maxSpreadSec bounds how far apart two instants with the same wall time can
	// be. Zone files allow offsets from -25 h to +26 h.
	maxSpreadSec = 52 * 3600
)

var utc = &Zone{
	name:     "UTC",
	location: time.UTC,
	segments: []segment{{start: beginning, end: infinity}},
	tableEnd: infinity,
}

// UTC returns the zone without offsets.
func UTC() *Zone { return utc }

// Name returns the zone's name in its canonical spelling.
func (z *Zone) Name() string { return z.name }

// Location returns the zone for printing. It must not be used to turn wall time
// into instants: time.Date does not say which side of a change it picks.
func (z *Zone) Location() *time.Location { return z.location }

// zones caches what was loaded, by canonical name. It only grows, and no further
// than the list of names.
var zones struct {
	sync.RWMutex
	byName map[string]*Zone
}

// LoadZone returns the zone of an IANA name, in any case and with surrounding
// spaces allowed. Offsets ("+02:00", "GMT+2") and abbreviations that are not
// names ("PST") are refused with a hint. A blank name is refused too: the caller
// decides what an absent zone means, see [HostZoneName].
func LoadZone(name string) (*Zone, error) {
	source, err := zoneData()
	if err != nil {
		return nil, err
	}
	canonical, ok := source.canonical(name)
	if !ok {
		return nil, source.refuse(name)
	}
	if canonical == "UTC" {
		return utc, nil
	}
	zones.RLock()
	z := zones.byName[canonical]
	zones.RUnlock()
	if z != nil {
		return z, nil
	}
	location, err := source.load(canonical)
	if err != nil {
		return nil, err
	}
	z = newZone(canonical, location)
	zones.Lock()
	defer zones.Unlock()
	if first := zones.byName[canonical]; first != nil {
		return first, nil
	}
	if zones.byName == nil {
		zones.byName = make(map[string]*Zone)
	}
	zones.byName[canonical] = z
	return z, nil
}

// newZone builds the table of segments. Neighbours with the same offset (a
// change of name or of daylight flag only) are joined.
func newZone(name string, location *time.Location) *Zone {
	z := &Zone{name: name, location: location}
	s := boundsAt(location, beginning>>20)
	s.start = beginning
	for {
		if n := len(z.segments); n > 0 && z.segments[n-1].offset == s.offset {
			z.segments[n-1].end = s.end
		} else {
			z.segments = append(z.segments, s)
		}
		if s.end >= tableHorizon {
			break
		}
		start := s.end
		s = boundsAt(location, start)
		// Where a standing rule takes over from the listed changes, Go 1.26 may give
		// the start that the rule would have had (Ciudad Juarez, November 2022).
		s.start = start
	}
	z.tableEnd = s.end
	return z
}

// boundsAt asks the location for the segment that holds sec.
func boundsAt(location *time.Location, sec int64) segment {
	t := time.Unix(sec, 0).In(location)
	_, offset := t.Zone()
	s := segment{start: beginning, end: infinity, offset: int64(offset)}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= sec {
		// Go 1.26 ends a year of a standing rule after 365 days, so on the last day
		// of a leap year the bounds exclude the instant asked for. The year ends at
		// the next UTC midnight.
		s.end = (floorDiv(sec, secondsPerDay) + 1) * secondsPerDay
	}
	return s
}

// at returns the segment that holds the instant sec.
func (z *Zone) at(sec int64) segment {
	if sec >= z.tableEnd {
		return boundsAt(z.location, sec)
	}
	low, high := 0, len(z.segments)
	for high-low > 1 {
		mid := int(uint(low+high) >> 1)
		if z.segments[mid].start <= sec {
			low = mid
		} else {
			high = mid
		}
	}
	return z.segments[low]
}

// firstInstant returns the earliest instant that shows wall, or false when the
// clocks jump over it. segment is the one that shows it.
func (z *Zone) firstInstant(wall int64) (sec int64, shown segment, ok bool) {
	for s := z.at(wall - maxSpreadSec/2); ; s = z.at(s.end) {
		if t := wall - s.offset; t >= s.start && t < s.end {
			return t, s, true
		}
		if s.end > wall+maxSpreadSec/2 {
			return 0, segment{}, false
		}
	}
}

// earlierPass finds the earlier segment that already showed wall, which s shows
// at sec.
func (z *Zone) earlierPass(wall, sec int64, s segment) (earlier segment, seen bool) {
	for s.start > sec-maxSpreadSec {
		s = z.at(s.start - 1)
		if t := wall - s.offset; t >= s.start && t < s.end {
			return s, true
		}
	}
	return segment{}, false
}
