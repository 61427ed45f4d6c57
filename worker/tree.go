package worker

import "iter"

// tree is an ordered map whose values can be kept: Put and Delete give a new
// tree and leave every kept one as it was. A turn stages its memory in trees, so
// taking it back is forgetting a value, and a snapshot of 100,000 jobs costs one
// pointer.
//
// It is a weight-balanced tree, and both operations are O(log n). They copy the
// nodes on their path, but for those that the same edit has made: nobody else has
// seen these, so they are changed where they are. A turn is one edit, and what it
// does to a tree of 100,000 costs a few new nodes an entry, not the seventeen of
// each path.
//
// Whoever keeps a tree that an edit has worked on, to come back to it or to walk
// it while it changes, begins a new edit first.
type tree[K, V any] struct {
	root    *node[K, V]
	compare func(a, b K) int
}

// edit owns the nodes it makes, until the next one begins.
type edit struct {
	changes int64 // how many times a tree was changed, over all edits of a turn
}

// next begins a new edit: what was made so far does not change any more.
func (e *edit) next() *edit { return &edit{e.changes} }

type node[K, V any] struct {
	left, right *node[K, V]
	owner       *edit
	size        int
	value       V // before the key: a value without size costs nothing here
	key         K
}

func newTree[K, V any](compare func(a, b K) int) tree[K, V] { return tree[K, V]{compare: compare} }

// treeOf is the tree of entries that are in order: one node each, where Put
// would leave log n of them behind.
func treeOf[K, V any](compare func(a, b K) int, keys []K, value func(i int) V) tree[K, V] {
	var grow func(from, to int) *node[K, V]
	grow = func(from, to int) *node[K, V] {
		if from == to {
			return nil
		}
		mid := (from + to) / 2
		return &node[K, V]{left: grow(from, mid), right: grow(mid+1, to), size: to - from, key: keys[mid], value: value(mid)}
	}
	return tree[K, V]{grow(0, len(keys)), compare}
}

// Len is the number of entries.
func (t tree[K, V]) Len() int { return t.root.len() }

// Get finds one entry.
func (t tree[K, V]) Get(key K) (V, bool) {
	for n := t.root; n != nil; {
		switch c := t.compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	var zero V
	return zero, false
}

// Min is the first entry.
func (t tree[K, V]) Min() (key K, value V, ok bool) {
	n := t.root
	if n == nil {
		return key, value, false
	}
	for n.left != nil {
		n = n.left
	}
	return n.key, n.value, true
}

// Nth is the key of the entry that i others come before.
func (t tree[K, V]) Nth(i int) (key K, ok bool) {
	for n := t.root; n != nil; {
		switch l := n.left.len(); {
		case i < l:
			n = n.left
		case i == l:
			return n.key, true
		default:
			n, i = n.right, i-l-1
		}
	}
	return key, false
}

// Put is the tree with key set to value.
func (t tree[K, V]) Put(e *edit, key K, value V) tree[K, V] {
	e.changes++
	t.root = t.put(e, t.root, key, value)
	return t
}

// Delete is the tree without key.
func (t tree[K, V]) Delete(e *edit, key K) tree[K, V] {
	if _, ok := t.Get(key); ok {
		e.changes++
		t.root = t.delete(e, t.root, key)
	}
	return t
}

// All walks the entries in order.
func (t tree[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.walk(yield) }
}

// From walks the entries at or after a key, in order.
func (t tree[K, V]) From(key K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.walkFrom(t.root, key, yield) }
}

func (t tree[K, V]) walkFrom(n *node[K, V], key K, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if t.compare(n.key, key) < 0 {
		return t.walkFrom(n.right, key, yield)
	}
	return t.walkFrom(n.left, key, yield) && yield(n.key, n.value) && n.right.walk(yield)
}

// Values walks the values in key order.
func (t tree[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		t.root.walk(func(_ K, v V) bool { return yield(v) })
	}
}

func (n *node[K, V]) walk(yield func(K, V) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.key, n.value) && n.right.walk(yield)
}

func (n *node[K, V]) len() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (t *tree[K, V]) put(e *edit, n *node[K, V], key K, value V) *node[K, V] {
	if n == nil {
		return &node[K, V]{owner: e, size: 1, key: key, value: value}
	}
	switch c := t.compare(key, n.key); {
	case c < 0:
		return balance(e, n, t.put(e, n.left, key, value), n.right)
	case c > 0:
		return balance(e, n, n.left, t.put(e, n.right, key, value))
	}
	n = join(e, n, n.left, n.right)
	n.key, n.value = key, value
	return n
}

func (t *tree[K, V]) delete(e *edit, n *node[K, V], key K) *node[K, V] {
	if n == nil {
		return nil
	}
	switch c := t.compare(key, n.key); {
	case c < 0:
		return balance(e, n, t.delete(e, n.left, key), n.right)
	case c > 0:
		return balance(e, n, n.left, t.delete(e, n.right, key))
	}
	if n.left == nil {
		return n.right
	}
	if n.right == nil {
		return n.left
	}
	next := n.right
	for next.left != nil {
		next = next.left
	}
	return balance(e, next, n.left, t.delete(e, n.right, next.key))
}

// balance joins two subtrees under the entry of n, rotating when one side has
// become more than three times as heavy as the other (Adams' weights 3 and 2).
func balance[K, V any](e *edit, n, left, right *node[K, V]) *node[K, V] {
	l, r := left.len(), right.len()
	switch {
	case l+r < 2:
	case r > 3*l:
		if right.left.len() < 2*right.right.len() {
			return join(e, right, join(e, n, left, right.left), right.right)
		}
		mid := right.left
		return join(e, mid, join(e, n, left, mid.left), join(e, right, mid.right, right.right))
	case l > 3*r:
		if left.right.len() < 2*left.left.len() {
			return join(e, left, left.left, join(e, n, left.right, right))
		}
		mid := left.right
		return join(e, mid, join(e, left, left.left, mid.left), join(e, n, mid.right, right))
	}
	return join(e, n, left, right)
}

// join puts the entry of n over two subtrees.
func join[K, V any](e *edit, n, left, right *node[K, V]) *node[K, V] {
	size := left.len() + right.len() + 1
	if n.owner == e {
		n.left, n.right, n.size = left, right, size
		return n
	}
	return &node[K, V]{owner: e, left: left, right: right, size: size, key: n.key, value: n.value}
}
