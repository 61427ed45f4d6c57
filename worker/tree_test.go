package worker

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTreesThatAreKeptDoNotChange plays random edits on a tree beside a map, and
// keeps some trees on the way: each must stay what it was, and balanced.
func TestTreesThatAreKeptDoNotChange(t *testing.T) {
	type kept struct {
		tree tree[int, int]
		is   map[int]int
	}
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		is, now, e := map[int]int{}, newTree[int, int](cmp.Compare[int]), new(edit)
		var all []kept
		for step := range 2000 {
			key := rng.IntN(300)
			if rng.IntN(5) < 3 {
				now, is[key] = now.Put(e, key, step), step
			} else {
				now = now.Delete(e, key)
				delete(is, key)
			}
			if rng.IntN(60) == 0 {
				all = append(all, kept{now, maps.Clone(is)})
				e = e.next()
			}
		}
		for i, k := range append(all, kept{now, is}) {
			var keys []int
			for key, value := range k.tree.All() {
				if keys = append(keys, key); k.is[key] != value {
					t.Fatalf("seed %d: tree %d of %d: %d is %d, was %d", seed, i, len(all), key, value, k.is[key])
				}
			}
			if !slices.Equal(keys, slices.Sorted(maps.Keys(k.is))) {
				t.Fatalf("seed %d: tree %d of %d has not the keys it had", seed, i, len(all))
			}
			checkBalance(t, k.tree.root)
		}
	}
}

// checkBalance holds every node to its size and to the weights of its sides.
func checkBalance[K, V any](t *testing.T, n *node[K, V]) {
	t.Helper()
	if n == nil {
		return
	}
	l, r := n.left.len(), n.right.len()
	if n.size != l+r+1 {
		t.Fatalf("a node of %d and %d entries counts %d", l, r, n.size)
	}
	if l+r >= 2 && (l > 3*r || r > 3*l) {
		t.Fatalf("a node has %d entries on one side and %d on the other", l, r)
	}
	checkBalance(t, n.left)
	checkBalance(t, n.right)
}

// BenchmarkTreeEdit changes 128 entries of many in one edit, as a busy turn
// changes jobs.
func BenchmarkTreeEdit(b *testing.B) {
	for _, size := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			t, e := newTree[int, int](cmp.Compare[int]), new(edit)
			for i := range size {
				t = t.Put(e, i, i)
			}
			rng := rand.New(rand.NewPCG(1, 1))
			b.ReportAllocs()
			for n := 0; n < b.N; n++ {
				if n%128 == 0 {
					e = e.next()
				}
				t = t.Put(e, rng.IntN(size), n)
			}
		})
	}
}
