package host

import (
	"fmt"
	"sync"
	"time"
)

// DefaultRateLimit is how many calls of one writing method a client on the
// network may make within a minute.
const DefaultRateLimit = 30

const (
	limitWindow = time.Minute
	// maxLimited bounds how many clients are counted at once; beyond it the
	// longest known one is forgotten.
	maxLimited = 4096
)

// limiter counts calls by a key in windows of a minute, each of which begins
// with its first call. Forgetting a key early lets its client call more often;
// it needs as many addresses as there is room for.
type limiter struct {
	mu      sync.Mutex
	limit   int // calls in a window; 0 = any number
	windows map[string]callWindow
}

type callWindow struct {
	began time.Time
	calls int
}

func newLimiter(limit int) *limiter { return &limiter{limit: limit, windows: map[string]callWindow{}} }

// take counts one call; above the limit it says how long to wait.
func (l *limiter) take(key string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.limit == 0 {
		return 0
	}
	w := l.open(key, now)
	if w.calls >= l.limit {
		return limitWindow - now.Sub(w.began)
	}
	w.calls++
	l.windows[key] = w
	return 0
}

// full says how long to wait, without counting.
func (l *limiter) full(key string, now time.Time) (wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w, ok := l.windows[key]; ok && l.limit > 0 && w.calls >= l.limit {
		return max(0, limitWindow-now.Sub(w.began))
	}
	return 0
}

// open is the window of a key that holds at now.
func (l *limiter) open(key string, now time.Time) callWindow {
	w, known := l.windows[key]
	if known && now.Sub(w.began) < limitWindow {
		return w
	}
	if !known && len(l.windows) >= maxLimited {
		l.makeRoom(now)
	}
	return callWindow{began: now}
}

func (l *limiter) makeRoom(now time.Time) {
	oldest, first := "", now
	for key, w := range l.windows {
		switch {
		case now.Sub(w.began) >= limitWindow:
			delete(l.windows, key)
		case oldest == "" || w.began.Before(first):
			oldest, first = key, w.began
		}
	}
	if len(l.windows) >= maxLimited {
		delete(l.windows, oldest)
	}
}

func (l *limiter) most() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limit
}

func (l *limiter) set(limit int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
}

// rateLimited is the refusal of a call above the limit.
func rateLimited(method string, limit int, wait time.Duration) *WireError {
	waitMs := max(1, wait.Milliseconds())
	return &WireError{
		Code:    CodeUnavailable,
		Message: fmt.Sprintf("rate limit exceeded for %s; retry after %ds", method, (waitMs+999)/1000),
		Details: object("method", method, "limit", fmt.Sprintf("%d per 60s", limit)), Retryable: true, RetryAfterMs: waitMs,
	}
}
