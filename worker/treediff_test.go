package worker

import (
	"cmp"
	"math/rand/v2"
	"testing"
)

// What since tells of two trees is what comparing all their entries tells, and no
// more, whatever was done to one to make the other.
func TestTreeSinceIsTheDifference(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 7))
		was := newTree[int, *int](cmp.Compare[int])
		e := new(edit)
		for range rng.IntN(200) {
			was = was.Put(e, rng.IntN(300), new(int))
		}
		e = e.next()
		is := was
		for range rng.IntN(40) {
			if key := rng.IntN(300); rng.IntN(3) == 0 {
				is = is.Delete(e, key)
			} else {
				is = is.Put(e, key, new(int))
			}
			if rng.IntN(5) == 0 {
				e = e.next()
			}
		}
		if rng.IntN(10) == 0 {
			was = newTree[int, *int](cmp.Compare[int])
		}
		type change struct{ was, is *int }
		got := map[change]bool{}
		for a, b := range is.since(was) {
			if a.has != (a.value != nil) || b.has != (b.value != nil) {
				t.Fatalf("seed %d: a value without an entry", seed)
			}
			if a.value == b.value {
				continue // copied with its neighbours
			}
			if got[change{a.value, b.value}] {
				t.Fatalf("seed %d: told twice", seed)
			}
			got[change{a.value, b.value}] = true
		}
		for key := range 300 {
			a, _ := was.Get(key)
			b, _ := is.Get(key)
			if a != b && !got[change{a, b}] {
				t.Fatalf("seed %d: the change of %d is not told", seed, key)
			}
			delete(got, change{a, b})
		}
		if len(got) > 0 {
			t.Fatalf("seed %d: %d changes that are none", seed, len(got))
		}
	}
}

// Of two large trees only what was changed is looked at.
func TestTreeSinceLooksAtChangesAlone(t *testing.T) {
	const entries, changes = 100_000, 10
	was := newTree[int, *int](cmp.Compare[int])
	e := new(edit)
	for i := range entries {
		was = was.Put(e, i, new(int))
	}
	e = e.next()
	is := was
	for i := range changes {
		is = is.Put(e, i*entries/changes, new(int))
	}
	told := 0
	for range is.since(was) {
		told++
	}
	if told < changes || told > changes*40 { // with the nodes on the way to each
		t.Fatalf("%d entries told for %d changes", told, changes)
	}
}
