package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// Bounds of the socket. A request line over maxRequestBytes closes its
// connection, and parameters over it are refused on every surface; a connection
// beyond maxConns is told so and closed.
const (
	maxRequestBytes = 1 << 20
	maxConns        = 64
	maxInFlight     = 32
	maxQueuedFrames = 32
	// maxUnsentBytes stops the reading of further requests of a connection.
	maxUnsentBytes = 8 << 20
	// firstRequestTimeout ends a connection that asks for nothing: there are few.
	firstRequestTimeout = 10 * time.Second

	writeTimeout = 10 * time.Second // for one frame to be taken by the client
	stopGrace    = time.Second      // for pending replies when the host stops
)

// Options say what a host serves. Worker, SocketPath, DBPath, InstanceID and
// NewID are needed; the rest may be left out.
type Options struct {
	Worker *worker.Worker
	// SocketPath is where to listen. A socket at which nobody answers is stale
	// and replaced.
	SocketPath string
	// DBPath is the open database; its real path is shown.
	DBPath string
	// InstanceID is this process's id, a uuid.
	InstanceID string
	Version    string
	// Durability is shown by status and info: "full" or "normal".
	Durability string
	// NewID makes job ids and request keys.
	NewID func() string
	// LiveOutput is the output of an active run so far. Nil = nothing is ever live.
	LiveOutput func(runID string) (text string, running bool)
	// Gateway is the network surface; without an address there is none.
	Gateway GatewayOptions
	// RateLimit is how many calls of one writing method a client on the network
	// may make in a minute; 0 = any number. The socket has no limit.
	RateLimit int
	// Log takes what no caller can be told. Nil = slog.Default().
	Log *slog.Logger
}

// Host serves the method table on one socket, and on one address if it has a
// gateway.
type Host struct {
	opts     Options
	methods  map[string]method
	listener net.Listener
	gateway  *gateway // nil = none
	limits   *limiter // of writing calls on the network
	// config is what rota.info says of the configuration; nil = nobody said.
	config    atomic.Pointer[ConfigState]
	startedAt time.Time
	listing   listing

	// writeTimeout is writeTimeout except in tests of slow readers.
	writeTimeout time.Duration

	mu    sync.Mutex
	conns map[*conn]struct{}
}

// New listens; the socket exists and queues callers when it returns. Run
// serves them.
func New(opts Options) (*Host, error) {
	if opts.Worker == nil || opts.NewID == nil || opts.SocketPath == "" || opts.InstanceID == "" {
		return nil, errors.New("host: Worker, NewID, SocketPath and InstanceID are needed")
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if real, err := filepath.EvalSymlinks(opts.DBPath); err == nil {
		opts.DBPath = real
	}
	if abs, err := filepath.Abs(opts.DBPath); err == nil && opts.DBPath != "" {
		opts.DBPath = abs
	}
	listener, err := listen(opts.SocketPath)
	if err != nil {
		return nil, err
	}
	h := &Host{opts: opts, listener: listener, limits: newLimiter(opts.RateLimit), startedAt: time.Now(),
		writeTimeout: writeTimeout, conns: map[*conn]struct{}{}}
	h.methods = methodTable()
	if opts.Gateway.Listen == "" {
		return h, nil
	}
	if h.gateway, err = newGateway(h); err != nil {
		listener.Close()
		return nil, err
	}
	return h, nil
}

// URL is where the gateway listens; "" without one.
func (h *Host) URL() string {
	if h.gateway == nil {
		return ""
	}
	return "ws://" + h.gateway.listener.Addr().String()
}

// SetRateLimit changes Options.RateLimit from now on.
func (h *Host) SetRateLimit(callsPerMinute int) { h.limits.set(callsPerMinute) }

// SetConfigState tells what rota.info says of the configuration.
func (h *Host) SetConfigState(s ConfigState) { h.config.Store(&s) }

// Run serves until ctx ends or a listener fails, then stops accepting, gives
// pending replies one second, closes every connection and unlinks the socket.
func (h *Host) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gate := make(chan error, 1)
	go func() {
		defer cancel() // one surface does not go on without the other
		gate <- h.gateway.run(ctx)
	}()
	err := h.serveSocket(ctx)
	cancel()
	return errors.Join(err, <-gate)
}

func (h *Host) serveSocket(ctx context.Context) error {
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	accepted := make(chan error, 1)
	go func() { accepted <- h.accept(serving, &wg) }()

	var err error
	select {
	case <-ctx.Done():
		h.listener.Close() // unlinks the socket too
		<-accepted
	case err = <-accepted:
		h.listener.Close()
	}
	h.each((*conn).finish)
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		stop()
		h.each((*conn).close)
		<-done
	}
	return err
}

// accept takes connections until the listener closes. An error of one accept
// (out of descriptors, a peer already gone) is not the end of the listener.
func (h *Host) accept(ctx context.Context, wg *sync.WaitGroup) error {
	for failures := 0; ; {
		nc, err := h.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			failures++
			if failures >= 20 {
				return fmt.Errorf("accept on %s: %w", h.opts.SocketPath, err)
			}
			h.opts.Log.Warn("accept failed", "socket", h.opts.SocketPath, "err", err)
			pause := time.NewTimer(time.Duration(failures) * 50 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
			}
			continue
		}
		failures = 0
		if err := checkPeer(nc); err != nil {
			h.opts.Log.Warn("connection refused", "socket", h.opts.SocketPath, "err", err)
			nc.Close()
			continue
		}
		c := newConn(h, newLineLink(nc, maxRequestBytes, firstRequestTimeout), grant{scopes: []string{ScopeAdmin}, local: true}, maxQueuedFrames)
		if !h.register(c) {
			c.refuse(&WireError{Code: CodeUnavailable, Message: fmt.Sprintf("all %d connections of this socket are in use", maxConns),
				Retryable: true, RetryAfterMs: retryAfterMs})
			continue
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer h.unregister(c)
			c.serve(ctx, func() {})
		}()
	}
}

func (h *Host) register(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.conns) >= maxConns {
		return false
	}
	h.conns[c] = struct{}{}
	return true
}

func (h *Host) unregister(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

func (h *Host) each(f func(*conn)) {
	h.mu.Lock()
	open := make([]*conn, 0, len(h.conns))
	for c := range h.conns {
		open = append(open, c)
	}
	h.mu.Unlock()
	for _, c := range open {
		f(c)
	}
}

// Handle runs one method for an already trusted caller. A panic of a handler
// is told to the caller and logged, and costs nobody else anything.
func (h *Host) Handle(ctx context.Context, name string, params json.RawMessage) (payload any, werr *WireError) {
	m, ok := h.methods[name]
	if !ok {
		return nil, &WireError{Code: CodeInvalidRequest, Message: "unknown method: " + name}
	}
	defer func() {
		if fault := recover(); fault != nil {
			h.opts.Log.Error("method panicked", "method", name, "panic", fault, "stack", string(debug.Stack()))
			payload, werr = nil, &WireError{Code: CodeUnavailable, Message: fmt.Sprintf("Error: %v", fault)}
		}
	}()
	decoded, err := readParams(name, params)
	if err != nil {
		return nil, wireError(name, err)
	}
	payload, err = m.Handle(h, ctx, decoded)
	if err != nil {
		return nil, wireError(name, err)
	}
	return payload, nil
}
