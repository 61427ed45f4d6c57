package worker

import "iter"

// tree is an ordered map that never changes: Put and Delete give a new one and
// share everything off the path they touched. A turn stages its memory in
// trees, so rolling a savepoint back is forgetting a value, and a snapshot of
// 100,000 jobs costs one pointer.
//
// It is a weight-balanced tree; both operations are O(log n) and allocate one
// node a level, about 17 for 100,000 entries. A mutable heap would allocate
// nothing, and would have to be undone by hand when a commit fails.
type tree[K, V any] struct {
	root    *node[K, V]
	compare func(a, b K) int
}

type node[K, V any] struct {
	left, right *node[K, V]
	size        int
	key         K
	value       V
}

func newTree[K, V any](compare func(a, b K) int) tree[K, V] { return tree[K, V]{compare: compare} }

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

// Put is the tree with key set to value.
func (t tree[K, V]) Put(key K, value V) tree[K, V] {
	t.root = t.put(t.root, key, value)
	return t
}

// Delete is the tree without key.
func (t tree[K, V]) Delete(key K) tree[K, V] {
	t.root = t.delete(t.root, key)
	return t
}

// All walks the entries in order.
func (t tree[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.walk(yield) }
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

func (t *tree[K, V]) put(n *node[K, V], key K, value V) *node[K, V] {
	if n == nil {
		return &node[K, V]{size: 1, key: key, value: value}
	}
	switch c := t.compare(key, n.key); {
	case c < 0:
		return balance(n, t.put(n.left, key, value), n.right)
	case c > 0:
		return balance(n, n.left, t.put(n.right, key, value))
	}
	return &node[K, V]{left: n.left, right: n.right, size: n.size, key: key, value: value}
}

func (t *tree[K, V]) delete(n *node[K, V], key K) *node[K, V] {
	if n == nil {
		return nil
	}
	switch c := t.compare(key, n.key); {
	case c < 0:
		return balance(n, t.delete(n.left, key), n.right)
	case c > 0:
		return balance(n, n.left, t.delete(n.right, key))
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
	return balance(next, n.left, t.delete(n.right, next.key))
}

// balance joins two subtrees under the entry of n, rotating when one side has
// become more than three times as heavy as the other (Adams' weights 3 and 2).
func balance[K, V any](n, left, right *node[K, V]) *node[K, V] {
	l, r := left.len(), right.len()
	switch {
	case l+r < 2:
	case r > 3*l:
		if right.left.len() < 2*right.right.len() {
			return join(right, join(n, left, right.left), right.right)
		}
		mid := right.left
		return join(mid, join(n, left, mid.left), join(right, mid.right, right.right))
	case l > 3*r:
		if left.right.len() < 2*left.left.len() {
			return join(left, left.left, join(n, left.right, right))
		}
		mid := left.right
		return join(mid, join(left, left.left, mid.left), join(n, mid.right, right))
	}
	return join(n, left, right)
}

// join is a new node with the entry of n over two subtrees.
func join[K, V any](n, left, right *node[K, V]) *node[K, V] {
	return &node[K, V]{left: left, right: right, size: left.len() + right.len() + 1, key: n.key, value: n.value}
}
