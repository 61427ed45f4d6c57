package worker

import "sync"

// lane is an inbox of the worker: many put, one takes. It never blocks either
// side. Messages of one sender keep their order.
type lane[T any] struct {
	limit int           // 0 = bounded by what it carries, see the users
	ready chan struct{} // buffered by one: something was put

	mu    sync.Mutex // guards items
	items []T
}

func newLane[T any](limit int) *lane[T] {
	return &lane[T]{limit: limit, ready: make(chan struct{}, 1)}
}

// put adds one message; false when the lane is full.
func (l *lane[T]) put(v T) bool {
	l.mu.Lock()
	full := l.limit > 0 && len(l.items) >= l.limit
	if !full {
		l.items = append(l.items, v)
	}
	l.mu.Unlock()
	if !full {
		l.signal()
	}
	return !full
}

// take removes up to most messages, all when most is 0.
func (l *lane[T]) take(most int) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if most == 0 || most > len(l.items) {
		most = len(l.items)
	}
	taken := l.items[:most:most]
	l.items = l.items[most:]
	if len(l.items) == 0 {
		l.items = nil
	}
	return taken
}

// giveBack puts messages at the front again, as if they had not been taken.
func (l *lane[T]) giveBack(items []T) {
	if len(items) == 0 {
		return
	}
	l.mu.Lock()
	l.items = append(append([]T(nil), items...), l.items...)
	l.mu.Unlock()
}

func (l *lane[T]) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.items)
}

func (l *lane[T]) signal() {
	select {
	case l.ready <- struct{}{}:
	default:
	}
}
