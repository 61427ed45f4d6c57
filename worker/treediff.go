package worker

import "iter"

// since walks the entries of t that an older tree does not have as they are, and
// those of the older tree that t does not have: each key once, in order, with both
// values. What the two trees share is passed over in one step, so it costs about
// as much as the changes between them did.
func (t tree[K, V]) since(old tree[K, V]) iter.Seq2[maybe[V], maybe[V]] {
	return func(yield func(was, is maybe[V]) bool) {
		before, now := pile[K, V]{{old.root, true}}, pile[K, V]{{t.root, true}}
		for {
			a, b := before.top(), now.top()
			switch {
			case a.node == nil && b.node == nil:
				return
			case a == b:
				before.drop()
				now.drop()
				continue
			case a.whole && (!b.whole || a.node.len() >= b.node.len()):
				before.open()
				continue
			case b.whole:
				now.open()
				continue
			}
			order := 0
			switch {
			case a.node == nil:
				order = 1
			case b.node == nil:
				order = -1
			default:
				order = t.compare(a.node.key, b.node.key)
			}
			var was, is maybe[V]
			if order <= 0 {
				was = maybe[V]{a.node.value, true}
				before.drop()
			}
			if order >= 0 {
				is = maybe[V]{b.node.value, true}
				now.drop()
			}
			if !yield(was, is) {
				return
			}
		}
	}
}

// maybe is a value that a tree may have.
type maybe[V any] struct {
	value V
	has   bool
}

// pile is what is left of a walk, the next on top: whole subtrees, and nodes whose
// subtrees are dealt with apart.
type pile[K, V any] []piece[K, V]

type piece[K, V any] struct {
	node  *node[K, V]
	whole bool
}

// top is the next piece that is not empty; without a node at the end.
func (p *pile[K, V]) top() piece[K, V] {
	for len(*p) > 0 {
		if next := (*p)[len(*p)-1]; next.node != nil {
			return next
		}
		p.drop()
	}
	return piece[K, V]{}
}

func (p *pile[K, V]) drop() { *p = (*p)[:len(*p)-1] }

// open takes the subtree on top apart.
func (p *pile[K, V]) open() {
	n := (*p)[len(*p)-1].node
	p.drop()
	*p = append(*p, piece[K, V]{n.right, true}, piece[K, V]{n, false}, piece[K, V]{n.left, true})
}
