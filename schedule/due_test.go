package schedule

import (
	"slices"
	"testing"
)

// Due against the plain definition: list every slot in (cursor, now], keep the
// newest that are not too late, skip the rest.
func TestDueAgreesWithItsDefinition(t *testing.T) {
	r := random(t)
	for range 1500 {
		z, cursorMs := near(t, r)
		s := randomSchedule(t, r, z, cursorMs)
		spanMs := r.Int64N(6 * 3_600_000)
		if s.kind == kindEvery {
			spanMs = min(spanMs, s.spanMs*2000)
		}
		nowMs := cursorMs + spanMs
		c := CatchUp{Policy: CatchUpPolicy(r.IntN(3)), Limit: r.IntN(6)}
		if r.IntN(2) == 0 {
			c.MaxLatenessMs = 1 + r.Int64N(3_600_000)
		}
		all := slots(s, cursorMs, nowMs)
		m := Due(s, cursorMs, nowMs, c)

		limit := map[CatchUpPolicy]int{RunOne: 1, RunNone: 0, RunAll: c.Limit}[c.Policy]
		if c.Policy == RunAll && limit == 0 {
			limit = 10
		}
		run := all[max(0, len(all)-limit):]
		for len(run) > 0 && c.MaxLatenessMs > 0 && nowMs-run[0] > c.MaxLatenessMs {
			run = run[1:]
		}
		skipped := all[:len(all)-len(run)]
		if !slices.Equal(m.RunSlotsMs, run) {
			t.Fatalf("%s (%d, %d] %+v: runs %v, want %v", s.Describe(), cursorMs, nowMs, c, m.RunSlotsMs, run)
		}
		if m.Exact && (m.Slots != int64(len(all)) || m.Skipped != int64(len(skipped))) || m.Slots > int64(len(all)) {
			t.Fatalf("%s %+v: %+v, want %d slots and %d skipped", s.Describe(), c, m, len(all), len(skipped))
		}
		if len(all) > 0 && (m.FirstMs != all[0] || m.LastMs != all[len(all)-1]) {
			t.Fatalf("%s: %+v, want %d to %d", s.Describe(), m, all[0], all[len(all)-1])
		}
		if len(skipped) > 0 && (m.SkippedFirstMs != skipped[0] || m.SkippedLastMs != skipped[len(skipped)-1]) {
			t.Fatalf("%s: %+v, want skipped %d to %d", s.Describe(), m, skipped[0], skipped[len(skipped)-1])
		}
		if len(skipped) == 0 && (m.SkippedFirstMs != 0 || m.SkippedLastMs != 0 || m.Skipped != 0) {
			t.Fatalf("%s: %+v, want nothing skipped", s.Describe(), m)
		}
	}
}

func TestDueEdges(t *testing.T) {
	grid, err := Every(1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name        string
		cursor, now int64
		slots       int64
	}{
		{"now is the cursor", 5000, 5000, 0},
		{"the clock went back", 5000, 4000, 0},
		{"a slot at now counts", 4500, 5000, 1},
		{"a slot at the cursor does not", 5000, 5999, 0},
		{"no cursor yet", -1 << 63, 3000, 4},
		{"now out of range", 0, maxInstantMs + 1, 0},
		{"the end of time", maxInstantMs - 2000, maxInstantMs, 2},
	} {
		m := Due(grid, c.cursor, c.now, CatchUp{Policy: RunAll})
		if m.Slots != c.slots || int64(len(m.RunSlotsMs)) != c.slots || !m.Exact {
			t.Errorf("%s: %+v, want %d slots", c.name, m, c.slots)
		}
	}
	if m := Due(grid, 0, 10_000_000, CatchUp{Policy: RunAll, Limit: 1 << 30}); len(m.RunSlotsMs) != MaxCatchUpLimit {
		t.Errorf("an absurd limit runs %d slots", len(m.RunSlotsMs))
	}
	if m := Due(grid, 0, 10_000, CatchUp{Policy: RunOne, Limit: 5}); len(m.RunSlotsMs) != 1 || m.Skipped != 9 {
		t.Errorf("one is one, whatever the limit: %+v", m)
	}
	if m := Due(grid, 0, 10_500, CatchUp{Policy: RunOne, MaxLatenessMs: 499}); len(m.RunSlotsMs) != 0 || m.Skipped != 10 || m.SkippedLastMs != 10_000 {
		t.Errorf("too late: %+v", m)
	}
	if m := Due(grid, 0, 10_500, CatchUp{Policy: RunOne, MaxLatenessMs: 500}); len(m.RunSlotsMs) != 1 {
		t.Errorf("just in time: %+v", m)
	}
}
