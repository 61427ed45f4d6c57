package worker

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// A tree that is built at once is like one that grew: it has the same entries,
// stays balanced when it is changed, and walks from any key.
func TestTreeBuiltAtOnce(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var keys []int
		for k := range 300 {
			if rng.IntN(3) == 0 {
				keys = append(keys, k)
			}
		}
		built := treeOf(cmp.Compare[int], keys, func(i int) int { return -keys[i] })
		for range 200 {
			k := rng.IntN(300)
			at, there := slices.BinarySearch(keys, k)
			switch {
			case rng.IntN(2) == 0:
				built = built.Delete(new(edit), k)
				if there {
					keys = slices.Delete(keys, at, at+1)
				}
			case !there:
				built = built.Put(new(edit), k, -k)
				keys = slices.Insert(keys, at, k)
			}
		}
		from := rng.IntN(300)
		at, _ := slices.BinarySearch(keys, from)
		var walked []int
		for k, v := range built.From(from) {
			if v != -k {
				t.Fatalf("seed %d: %d has the value of %d", seed, k, -v)
			}
			walked = append(walked, k)
		}
		if !slices.Equal(walked, keys[at:]) || built.Len() != len(keys) {
			t.Fatalf("seed %d: from %d it walks %v of %d, want %v of %d", seed, from, walked, built.Len(), keys[at:], len(keys))
		}
		if depth := depthOf(built.root); len(keys) > 0 && 1<<(depth/3) > len(keys)+1 {
			t.Fatalf("seed %d: %d entries are %d deep", seed, len(keys), depth)
		}
	}
}

func depthOf[K, V any](n *node[K, V]) int {
	if n == nil {
		return 0
	}
	return 1 + max(depthOf(n.left), depthOf(n.right))
}
