package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Stagger spreads jobs that name the same moment over a window, by an offset
// that depends on the job's id alone: a restart does not roll it anew.

// topOfHourStaggerMs is the window of jobs at the full hour without their own.
const topOfHourStaggerMs = 300_000

// staggerTries bounds the search for a slot after the cursor.
const staggerTries = 4

// StaggerOffset returns the job's place in a window: the first four bytes of the
// SHA-256 of its id, big-endian, modulo the window. A window of at most 1 ms
// gives 0.
func StaggerOffset(jobID string, windowMs int64) int64 {
	if windowMs <= 1 {
		return 0
	}
	sum := sha256.Sum256([]byte(jobID))
	return int64(binary.BigEndian.Uint32(sum[:4])) % windowMs
}

// DefaultStaggerMs returns the window of a job that names none: five minutes for
// an expression whose minute (and second, of six fields) is literally 0 and
// whose hours include a star, else 0. It reads the text as written, so @hourly
// gets 0.
func DefaultStaggerMs(expr string) int64 {
	fields := strings.Fields(expr)
	switch {
	case len(fields) == 6 && fields[0] == "0":
		fields = fields[1:]
	case len(fields) != 5:
		return 0
	}
	if fields[0] != "0" {
		return 0
	}
	for _, hours := range strings.Split(fields[1], ",") {
		if strings.HasPrefix(hours, "*") || strings.HasPrefix(hours, "?") {
			return topOfHourStaggerMs
		}
	}
	return 0
}

// nextStaggered finds the base slot from a cursor moved back by the offset, and
// moves it forth again. Where slots lie closer than the offset the first try may
// land at or before afterMs.
func (s *Schedule) nextStaggered(afterMs int64) (int64, bool) {
	cursorMs := afterMs
	if s.spanMs > 0 {
		cursorMs = max(0, afterMs-s.spanMs)
	}
	for range staggerTries {
		sec, ok := s.nextFiring(floorDiv(cursorMs, 1000) + 1)
		if !ok {
			return 0, false
		}
		if slotMs := sec*1000 + s.spanMs; slotMs > afterMs {
			return slotMs, inRange(slotMs)
		}
		cursorMs = sec * 1000
	}
	return 0, false
}

// prevStaggered is the mirror image.
func (s *Schedule) prevStaggered(beforeMs int64) (int64, bool) {
	cursorMs := beforeMs - s.spanMs
	for range staggerTries {
		sec, ok := s.prevFiring(floorDiv(cursorMs-1, 1000))
		if !ok {
			return 0, false
		}
		if slotMs := sec*1000 + s.spanMs; slotMs < beforeMs {
			return slotMs, inRange(slotMs)
		}
		cursorMs = sec * 1000
	}
	return 0, false
}
