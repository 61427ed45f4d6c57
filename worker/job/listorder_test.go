package job

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Whatever the page, the selection gives the front of the whole order: jobs
// without a next run last in both directions, equal ones by id.
func TestSelectionIsTheFrontOfTheOrder(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 2))
		all := make([]Brief, rng.IntN(60))
		for i := range all {
			all[i] = Brief{ID: fmt.Sprintf("%02d", i), Name: []string{"b", "A", "é", "e", "ab", "aÉ", "a\u0301b", "AEz", ""}[rng.IntN(9)], NextRunAtMs: rng.Int64N(4), UpdatedAtMs: rng.Int64N(3)}
		}
		p := ListParams{SortBy: []string{"", "nextRunAtMs", "updatedAtMs", "name"}[rng.IntN(4)], Descending: rng.IntN(2) == 0}
		s := newSelection(rng.IntN(70), &p)
		for _, b := range all {
			s.add(b)
		}
		want := slices.Clone(all)
		slices.SortStableFunc(want, func(a, b Brief) int { // stable: they came in id order
			found := 0
			switch p.SortBy {
			case "updatedAtMs":
				found = cmp.Compare(a.UpdatedAtMs, b.UpdatedAtMs)
			case "name":
				found = strings.Compare(plainLetters(a.Name), plainLetters(b.Name))
			default:
				if a.NextRunAtMs == 0 || b.NextRunAtMs == 0 {
					return cmp.Compare(b.NextRunAtMs, 0) - cmp.Compare(a.NextRunAtMs, 0)
				}
				found = cmp.Compare(a.NextRunAtMs, b.NextRunAtMs)
			}
			if p.Descending {
				found = -found
			}
			return found
		})
		ids := []string{}
		for _, b := range want[:min(len(want), s.size)] {
			ids = append(ids, b.ID)
		}
		if got := s.sorted(); !slices.Equal(got, ids) || s.total != len(all) {
			t.Fatalf("seed %d, %+v: got %v\nwant %v", seed, p, got, ids)
		}
	}
}
