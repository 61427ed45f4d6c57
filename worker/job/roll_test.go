package job

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// However the jobs came to be as they are, the roll gives the page, the total and
// the revision that looking at all of them gives.
func TestRollIsTheSelectionOfAll(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var roll Roll
		jobs := map[string]Brief{}
		for range 1 + rng.IntN(8) {
			roll.Apply(movesOf(rng, jobs))
			for range 4 {
				p := ListParams{Enabled: []string{"", "enabled", "disabled", "all"}[rng.IntN(4)], Limit: rng.IntN(30), Offset: rng.IntN(80)}
				if !p.ByRoll() {
					t.Fatalf("%+v is not by roll", p)
				}
				got, want := roll.Select(p), Select(slices.Values(inOrder(jobs)), nil, p)
				if got.ids = append([]string{}, got.ids...); !reflect.DeepEqual(got, want) {
					t.Fatalf("seed %d, %+v:\n got %+v\nwant %+v", seed, p, got, want)
				}
			}
		}
	}
}

// movesOf changes some jobs.
func movesOf(rng *rand.Rand, jobs map[string]Brief) (moves []Moved) {
	for _, i := range rng.Perm(60)[:rng.IntN(60)] {
		id := fmt.Sprintf("%02d", i)
		var m Moved
		if was, ok := jobs[id]; ok {
			m.Was = &was
		}
		delete(jobs, id)
		if rng.IntN(4) > 0 {
			is := Brief{ID: id, Enabled: rng.IntN(3) > 0, NextRunAtMs: rng.Int64N(6), UpdatedAtMs: rng.Int64N(3)}
			m.Is, jobs[id] = &is, is
		}
		moves = append(moves, m)
	}
	return moves
}

func inOrder(jobs map[string]Brief) (all []Brief) {
	for i := range 60 {
		if b, ok := jobs[fmt.Sprintf("%02d", i)]; ok {
			all = append(all, b)
		}
	}
	return all
}

// What takes the jobs themselves is left to Select.
func TestRollKnowsWhatItCannotAnswer(t *testing.T) {
	for _, p := range []ListParams{{Descending: true}, {SortBy: "name"}, {SortBy: "updatedAtMs"}, {Query: "x"}, {ScheduleKind: "at"},
		{LastRunStatus: "ok"}, {Trigger: "conditional"}, {AgentID: "a"}, {SessionKey: "k"}, {SessionAgentID: "a"}} {
		if p.ByRoll() {
			t.Errorf("%+v", p)
		}
	}
	for _, p := range []ListParams{{}, {SortBy: "nextRunAtMs", Query: " ", Compact: true, Limit: 3, Offset: 9, Enabled: "all"}} {
		if !p.ByRoll() {
			t.Errorf("%+v", p)
		}
	}
}
