package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Bounds of the gateway, beside those that a connection has on every surface.
const (
	maxPreauthBytes  = 65_536     // of a frame before the handshake is over
	maxPayload       = 26_214_400 // of a frame after it
	maxBufferedBytes = 52_428_800 // that wait for one client
	gatewayQueue     = 4096       // frames that wait for one client
	maxSockets       = 256        // TCP connections, of every kind
	maxHeaderBytes   = 16 << 10

	headerTimeout    = 2 * time.Second
	handshakeTimeout = 15 * time.Second
	pingEvery        = 25 * time.Second // and how long its answer may take
	tickEvery        = 30 * time.Second
)

// GatewayOptions say where and for whom the gateway listens.
type GatewayOptions struct {
	// Listen is an address such as 127.0.0.1:7682; port 0 picks one. Empty = no
	// gateway.
	Listen string
	// AllowRemote permits an address that others can reach. The protocol does
	// not encrypt: it takes a trusted network, or a tunnel.
	AllowRemote bool
	// AllowedHosts are further names under which clients may reach a remote
	// address.
	AllowedHosts []string
	// Token is what clients must present.
	Token string
}

// gateway is the WebSocket surface: one HTTP server that upgrades and does
// nothing else.
type gateway struct {
	h        *Host
	listener net.Listener
	token    [sha256.Size]byte
	names    []string // Host headers that mean us, beside addresses
	anyIP    bool     // any address in a Host header may mean us
	failures *limiter // of authentication, by address
	logged   *limiter // refusals that the log has, by address

	// These are the constants of their names except in tests.
	handshakeTimeout, pingEvery, tickEvery time.Duration

	joined chan struct{} // buffered by one: somebody is there to be told things

	wg    sync.WaitGroup
	mu    sync.Mutex // guards what follows
	conns map[*conn]struct{}
	ended bool
}

// RemoteError refuses an address that others can reach.
type RemoteError struct{ Addr string }

func (e *RemoteError) Error() string {
	return fmt.Sprintf("%s can be reached from other machines, and rota's protocol is not encrypted", e.Addr)
}

// ListenError says that an address cannot be listened on.
type ListenError struct {
	Addr string
	// Rota: another rota answers there. Busy: somebody does.
	Rota, Busy bool
	Err        error
}

func (e *ListenError) Error() string {
	switch {
	case e.Rota:
		return fmt.Sprintf("another rota serves %s", e.Addr)
	case e.Busy:
		return fmt.Sprintf("another program listens on %s", e.Addr)
	}
	return fmt.Sprintf("cannot listen on %s: %v", e.Addr, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

func newGateway(h *Host) (*gateway, error) {
	o := h.opts.Gateway
	if o.Token == "" {
		return nil, errors.New("host: a gateway needs a token")
	}
	addr, err := net.ResolveTCPAddr("tcp", o.Listen)
	if err != nil {
		return nil, &ListenError{Addr: o.Listen, Err: err}
	}
	loopback := addr.IP.IsLoopback()
	if !loopback && !o.AllowRemote {
		return nil, &RemoteError{o.Listen}
	}
	listener, err := net.ListenTCP("tcp", addr)
	if err != nil {
		return nil, whyBusy(addr.String(), err)
	}
	g := &gateway{
		h: h, listener: &boundedListener{Listener: listener}, token: sha256.Sum256([]byte(o.Token)),
		names: []string{"localhost"}, anyIP: !loopback, failures: newLimiter(maxAuthFailures), logged: newLimiter(maxAuthFailures),
		handshakeTimeout: handshakeTimeout, pingEvery: pingEvery, tickEvery: tickEvery,
		joined: make(chan struct{}, 1), conns: map[*conn]struct{}{},
	}
	if !loopback {
		if name, err := os.Hostname(); err == nil {
			g.names = append(g.names, strings.ToLower(name))
		}
		for _, name := range o.AllowedHosts {
			g.names = append(g.names, strings.ToLower(strings.TrimSuffix(name, ".")))
		}
	}
	return g, nil
}

// whyBusy asks the address itself who is there.
func whyBusy(addr string, cause error) error {
	e := &ListenError{Addr: addr, Err: cause}
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + addr + "/")
	if err == nil {
		res.Body.Close()
		e.Busy, e.Rota = true, strings.HasPrefix(res.Header.Get("Server"), "rota")
		return e
	}
	if nc, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		nc.Close()
		e.Busy = true
	}
	return e
}

// run serves until ctx ends; then it tells every client, gives pending answers
// one second, and closes all. A host without a gateway waits.
func (g *gateway) run(ctx context.Context) error {
	if g == nil {
		<-ctx.Done()
		return nil
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	server := &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serveHTTP(serving, w, r) }),
		ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout, WriteTimeout: writeTimeout, IdleTimeout: headerTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(g.h.opts.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context { return context.WithValue(ctx, connKey{}, nc) },
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(g.listener) }()
	telling, silence := context.WithCancel(ctx)
	told := make(chan struct{})
	go func() { defer close(told); g.tell(telling) }()

	var err error
	select {
	case <-ctx.Done():
		server.Close() // upgraded connections are not the server's any more
		<-served
	case err = <-served:
		err = fmt.Errorf("serve %s: %w", g.listener.Addr(), err)
	}
	silence()
	<-told
	g.end()
	done := make(chan struct{})
	go func() { g.wg.Wait(); close(done) }()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		stop()
		<-done
	}
	return err
}

// end announces the shutdown and lets every connection finish.
func (g *gateway) end() {
	frame, err := encodeEvent("shutdown", struct {
		Reason string `json:"reason"`
	}{"rota is stopping"})
	if err != nil {
		g.h.opts.Log.Error("event cannot be encoded", "err", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
	for c := range g.conns {
		if err == nil {
			c.offer(frame)
		}
		c.finish()
	}
}

// connKey finds the TCP connection of a request.
type connKey struct{}

// serveHTTP upgrades what is a WebSocket of somebody who may try, and refuses
// everything else.
func (g *gateway) serveHTTP(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Server", "rota")
	if refusal := g.judge(r); refusal != nil {
		for key, value := range refusal.headers {
			w.Header().Set(key, value)
		}
		w.Header().Set("Connection", "close")
		http.Error(w, refusal.text, refusal.status)
		return
	}
	g.mu.Lock()
	if g.ended {
		g.mu.Unlock()
		http.Error(w, "rota is stopping", http.StatusServiceUnavailable)
		return
	}
	g.wg.Add(1)
	g.mu.Unlock()
	defer g.wg.Done()

	nc, _ := r.Context().Value(connKey{}).(net.Conn)
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // judge has refused every Origin
	if err != nil {
		return // answered by Accept
	}
	l := newWSLink(ws, nc, maxPreauthBytes, 0)
	defer l.abort()
	stop := context.AfterFunc(ctx, l.abort)
	defer stop()
	peer := peerOf(r.RemoteAddr)
	met := g.meet(l, peer)
	if met == nil {
		return
	}
	l.limit.Store(maxPayload)
	go l.keepAlive(g.pingEvery)
	c := newConn(g.h, l, grant{scopes: met.scopes, limits: g.h.limits, client: peer.String(), maxUnsent: maxBufferedBytes, framed: true}, gatewayQueue)
	if refusal := g.register(c, response{Type: "res", ID: met.id, OK: true, Payload: g.hello(met)}); refusal != nil {
		g.turnAway(l, met.id, *refusal)
		return
	}
	if bounded, ok := nc.(*boundedConn); ok {
		bounded.keep()
	}
	c.serve(ctx, func() { g.unregister(c) })
}

// register adds a connection to those that are told things; the first of them
// is its hello.
func (g *gateway) register(c *conn, hello response) *refused {
	g.mu.Lock()
	defer g.mu.Unlock()
	later := &WireError{Code: CodeUnavailable, Message: "rota is stopping", Retryable: true, RetryAfterMs: retryAfterMs}
	switch {
	case g.ended:
		return &refused{later, closing{closeRestart, "service restart"}}
	case len(g.conns) >= maxConns:
		later.Message = fmt.Sprintf("all %d connections of the gateway are in use", maxConns)
		return &refused{later, closing{closeBusy, "no connection is free"}}
	}
	c.send(hello) // its queue is empty: this waits for nobody
	g.conns[c] = struct{}{}
	select {
	case g.joined <- struct{}{}:
	default: // it is told already
	}
	return nil
}

// unregister takes a connection from those that are told things: nothing is
// queued for it after this.
func (g *gateway) unregister(c *conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, c)
}

// peerOf is the address at the other end, without its port.
func peerOf(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap()
}

// boundedListener holds at most maxSockets connections. When they are all
// taken, a new one takes the place of one that has not said who it is: the
// oldest of the address that has most of those. So a flood presses out itself,
// and who does its handshake at once gets in.
type boundedListener struct {
	net.Listener
	mu    sync.Mutex // guards what follows
	open  int
	fresh []*boundedConn // have not said who they are; oldest first
}

func (l *boundedListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &boundedConn{Conn: nc, of: l, from: peerKey(peerOf(nc.RemoteAddr().String()))}
	l.mu.Lock()
	var victim *boundedConn
	if l.open >= maxSockets { // those who are known are fewer: see maxConns
		victim = l.leastMissed()
	}
	l.open++
	l.fresh = append(l.fresh, c)
	l.mu.Unlock()
	if victim != nil {
		victim.Close()
	}
	return c, nil
}

func (l *boundedListener) leastMissed() (victim *boundedConn) {
	count, most := map[string]int{}, 0
	for _, c := range l.fresh {
		count[c.from]++
		most = max(most, count[c.from])
	}
	for _, c := range l.fresh {
		if count[c.from] == most {
			return c
		}
	}
	return nil
}

type boundedConn struct {
	net.Conn
	of     *boundedListener
	from   string // peerKey
	closed bool   // guarded by of.mu
}

// keep is for a connection that has said who it is.
func (c *boundedConn) keep() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.of.fresh = slices.DeleteFunc(c.of.fresh, func(o *boundedConn) bool { return o == c })
}

func (c *boundedConn) Close() error {
	c.keep()
	c.of.mu.Lock()
	if !c.closed {
		c.closed = true
		c.of.open--
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// meansUs reports whether a Host header is one of our names.
func (g *gateway) meansUs(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if addr, err := netip.ParseAddr(name); err == nil {
		return g.anyIP || addr.Unmap().IsLoopback()
	}
	return slices.Contains(g.names, name)
}
