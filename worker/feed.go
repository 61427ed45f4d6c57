package worker

import "sync"

// feed hands committed events to whoever listens. It never waits: a listener
// whose buffer is full is told that it lost some and pages them by sequence.
type feed struct {
	mu     sync.Mutex // guards what follows
	subs   map[*Subscription]bool
	closed bool
}

// Subscription receives committed events in order.
type Subscription struct {
	C    <-chan Event // closed by Close and when the worker ends
	c    chan Event
	feed *feed
	lost bool
}

// Subscribe listens to events from now on. A slow listener loses events, never
// the worker its time: see Lost.
func (w *Worker) Subscribe(buffer int) *Subscription {
	s := &Subscription{c: make(chan Event, max(1, buffer)), feed: &w.feed}
	s.C = s.c
	w.feed.mu.Lock()
	defer w.feed.mu.Unlock()
	if w.feed.closed {
		close(s.c)
		return s
	}
	if w.feed.subs == nil {
		w.feed.subs = map[*Subscription]bool{}
	}
	w.feed.subs[s] = true
	return s
}

// Lost reports, once, that events were dropped since the last call.
func (s *Subscription) Lost() bool {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	was := s.lost
	s.lost = false
	return was
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.feed.subs[s] {
		delete(s.feed.subs, s)
		close(s.c)
	}
}

func (f *feed) publish(events []Event) {
	if len(events) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		for _, e := range events {
			select {
			case s.c <- e:
			default:
				s.lost = true
			}
		}
	}
}

func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for s := range f.subs {
		delete(f.subs, s)
		close(s.c)
	}
}
