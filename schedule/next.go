package schedule

// How the next slot is found.
//
// The expression is a set of wall times; the zone is a list of segments of
// constant offset. Within a segment wall time and instant differ by a constant,
// so the search asks the expression for the next wall time and subtracts. What
// is special happens only at the edges of segments: a wall time that an earlier
// segment has shown already (a repeated one), and wall times that no segment
// shows (a gap), which belong to the instant of the change. A wall time far away
// is approached in one jump: between it and here nothing matches, except within
// maxSpreadSec of the start, where clocks set back could show again what lies
// behind.

// maxDates bounds the wall times that one search may reject.
const maxDates = 146_097

// cycleSec is the length of the Gregorian calendar, 400 years.
const cycleSec = 146_097 * secondsPerDay

// nextFiring returns the least firing instant at or after sec, in Unix seconds.
func (s *Schedule) nextFiring(sec int64) (int64, bool) {
	e, z := s.expression, s.zone
	once := s.dst == Skip || e.fixed
	atGapEnd := s.dst == Vixie && e.fixed
	// Beyond the table a zone repeats with the calendar, so a cycle without a
	// firing is the proof that none follows; years that are named do not repeat.
	proofSec := max(sec, tableHorizon) + cycleSec
	if e.dates.years != nil {
		proofSec = infinity
	}
	seg := z.at(sec)
	for range maxDates {
		if atGapEnd && sec == seg.start && s.gapFires(seg) {
			return sec, true
		}
		wall, found := e.nextWall(sec + seg.offset)
		t := wall - seg.offset
		switch {
		case found && t > proofSec:
			return 0, false
		case found && t < seg.end:
			if !once {
				return t, true
			}
			earlier, seen := z.earlierPass(wall, t, seg)
			if !seen {
				return t, true
			}
			// All that segment showed is seen; go on behind it.
			sec = earlier.end + earlier.offset - seg.offset
			if sec >= seg.end {
				sec = seg.end
				seg = z.at(sec)
			}
		case seg.end-sec <= maxSpreadSec:
			sec = seg.end
			seg = z.at(sec)
		case !found:
			return 0, false
		default:
			sec = max(seg.end, t-maxSpreadSec)
			seg = z.at(sec)
		}
	}
	return 0, false
}

// prevFiring returns the greatest firing instant at or before sec.
func (s *Schedule) prevFiring(sec int64) (int64, bool) {
	e, z := s.expression, s.zone
	once := s.dst == Skip || e.fixed
	atGapEnd := s.dst == Vixie && e.fixed
	seg := z.at(sec)
	for range maxDates {
		wall, found := e.prevWall(sec + seg.offset)
		t := wall - seg.offset
		if found && t >= seg.start {
			if !once {
				return t, true
			}
			earlier, seen := z.earlierPass(wall, t, seg)
			if !seen {
				return t, true
			}
			sec = earlier.start + earlier.offset - seg.offset - 1
			if sec >= seg.start {
				continue
			}
		}
		// Nothing ordinary is left in this segment, down to its first instant.
		if atGapEnd && s.gapFires(seg) {
			return seg.start, true
		}
		switch {
		case seg.start == beginning:
			return 0, false
		case sec-seg.start <= maxSpreadSec:
			sec = seg.start - 1
		case !found:
			return 0, false
		default:
			sec = min(seg.start-1, t+maxSpreadSec)
		}
		seg = z.at(sec)
	}
	return 0, false
}

// gapFires reports whether a wall time that the clocks jump over at the start of
// seg matches. A wall time that another segment shows is not jumped over, and
// one jump of a day or more is a date that never existed.
func (s *Schedule) gapFires(seg segment) bool {
	if seg.start == beginning {
		return false
	}
	before := s.zone.at(seg.start - 1)
	if gap := seg.offset - before.offset; gap <= 0 || gap >= secondsPerDay {
		return false
	}
	end := seg.start + seg.offset
	for wall := seg.start + before.offset; ; {
		match, found := s.expression.nextWall(wall)
		if !found || match >= end {
			return false
		}
		_, shown, exists := s.zone.firstInstant(match)
		if !exists {
			return true
		}
		wall = shown.end + shown.offset // all of it is shown; look behind it
	}
}
