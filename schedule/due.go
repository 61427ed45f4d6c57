package schedule

import "strings"

// A CatchUpPolicy says what becomes of slots that passed while nobody looked.
type CatchUpPolicy uint8

const (
	// RunOne ("one") runs the newest missed slot. It is the zero value.
	RunOne CatchUpPolicy = iota
	// RunNone ("skip") runs none of them.
	RunNone
	// RunAll ("all") runs the newest slots up to a limit, oldest first.
	RunAll
)

var catchUpNames = [...]string{RunOne: "one", RunNone: "skip", RunAll: "all"}

func (p CatchUpPolicy) String() string {
	if int(p) < len(catchUpNames) {
		return catchUpNames[p]
	}
	return "unknown"
}

// ParseCatchUpPolicy reads "one", "skip" or "all", in any case; empty is RunOne.
func ParseCatchUpPolicy(s string) (CatchUpPolicy, error) {
	word := strings.ToLower(strings.TrimSpace(s))
	if word == "" {
		return RunOne, nil
	}
	for p, name := range catchUpNames {
		if word == name {
			return CatchUpPolicy(p), nil
		}
	}
	return RunOne, fault(CodeSyntax, "catchUp", s, "not a catch-up policy", "write one, skip or all")
}

const (
	// DefaultCatchUpLimit is how many slots RunAll runs when no limit is given.
	DefaultCatchUpLimit = 10
	// MaxCatchUpLimit caps a limit that is given.
	MaxCatchUpLimit = 1000
	// maxCountedSlots bounds the counting of cron slots, which have to be visited
	// one by one: a week of minutes, about 2 ms.
	maxCountedSlots = 10_080
)

// CatchUp is how missed slots of a job are treated.
type CatchUp struct {
	Policy        CatchUpPolicy
	Limit         int   // most slots that RunAll runs; 0 is DefaultCatchUpLimit, capped at MaxCatchUpLimit
	MaxLatenessMs int64 // older slots are not run; 0 is no bound
}

// Missed is the answer of [Due]: what to run and what to record as not run.
type Missed struct {
	RunSlotsMs []int64 // slots to run, oldest first

	FirstMs, LastMs int64 // the first and last slot that passed; 0 when Slots is 0
	Slots           int64 // how many passed

	SkippedFirstMs, SkippedLastMs int64 // the range that is not run, always older than RunSlotsMs
	Skipped                       int64 // Slots less the slots to run

	// Exact is false when a cron schedule had more slots than are worth visiting;
	// Slots and Skipped are then lower bounds. The instants are exact always.
	Exact bool
}

// Due returns the slots in (cursorMs, nowMs] and what the policy makes of them.
// Slots that run are the newest ones, because lateness only grows backwards.
// Counting takes constant time for at and every; a cron schedule is counted to
// 10,080 slots.
func Due(s Schedule, cursorMs, nowMs int64, c CatchUp) Missed {
	m := Missed{Exact: true}
	if nowMs <= cursorMs || !inRange(nowMs) {
		return m
	}
	cursorMs = max(cursorMs, minInstantMs)
	firstMs, ok := s.Next(cursorMs)
	if !ok || firstMs > nowMs {
		return m
	}
	m.FirstMs = firstMs
	m.LastMs, _ = s.upTo(nowMs)
	m.Slots, m.Exact = s.count(firstMs, m.LastMs)

	limit := 0
	switch c.Policy {
	case RunOne:
		limit = 1
	case RunAll:
		limit = min(c.Limit, MaxCatchUpLimit)
		if c.Limit <= 0 {
			limit = DefaultCatchUpLimit
		}
	}
	olderMs, older := m.LastMs, true
	for len(m.RunSlotsMs) < limit && older && olderMs >= firstMs {
		if c.MaxLatenessMs > 0 && nowMs-olderMs > c.MaxLatenessMs {
			break
		}
		m.RunSlotsMs = append(m.RunSlotsMs, olderMs)
		olderMs, older = s.Prev(olderMs)
	}
	reverse(m.RunSlotsMs)
	if older && olderMs >= firstMs {
		m.SkippedFirstMs, m.SkippedLastMs = firstMs, olderMs
		m.Skipped = max(m.Slots-int64(len(m.RunSlotsMs)), 1)
	}
	return m
}

func reverse(list []int64) {
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
}

// upTo returns the greatest slot at or before ms.
func (s Schedule) upTo(ms int64) (int64, bool) {
	if ms == maxInstantMs {
		// Prev takes no instant beyond the range, and one slot may lie on its end.
		if last, ok := s.Next(ms - 1); ok {
			return last, true
		}
		return s.Prev(ms)
	}
	return s.Prev(ms + 1)
}

// count returns the number of slots from firstMs to lastMs, both slots.
func (s Schedule) count(firstMs, lastMs int64) (slots int64, exact bool) {
	switch s.kind {
	case kindAt:
		return 1, true
	case kindEvery:
		return s.countOnGrid(firstMs-1, lastMs), true
	}
	slots = 1
	for slotMs := firstMs; slotMs < lastMs; slots++ {
		if slots >= maxCountedSlots {
			return slots, false
		}
		next, ok := s.Next(slotMs)
		if !ok {
			break
		}
		slotMs = next
	}
	return slots, true
}
