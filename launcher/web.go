package launcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rota-scheduler/rota/worker"
)

// Bounds of connections.
const (
	connectMs         = 30_000
	handshakeMs       = 10_000
	idleMs            = 15_000
	idlePerHost       = 2
	idleInAll         = 16
	maxResponseHeader = 64 << 10
	maxPolicies       = 8
)

// web is the launcher's way to the network. It follows no redirect, keeps no
// cookie, uses no proxy and verifies certificates.
type web struct {
	agent string // User-Agent
	echo  *Echo  // nil: there is none
	nowMs func() int64
	roots *x509.CertPool // nil: the system's
	dial  dialFunc

	open  context.Context // ends when the launcher does: connections being made are given up
	close context.CancelFunc

	mu      sync.Mutex // guards clients
	clients map[string]*clients
}

// clients make the connections that one policy allows.
type clients struct {
	// fresh uses each connection once: for runs, because a request on a
	// connection that was idle may be sent twice by the transport.
	fresh *http.Transport
	// pooled keeps a few connections: for deliveries, whose receivers know a
	// second sending by its key.
	pooled *http.Transport
}

func newWeb(agent string, echo *Echo, nowMs func() int64) *web {
	w := &web{agent: agent, echo: echo, nowMs: nowMs, dial: dialTCP(nil), clients: make(map[string]*clients)}
	w.open, w.close = context.WithCancel(context.Background())
	return w
}

// end gives up what is being connected and closes what is idle.
func (w *web) end() {
	w.close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget()
}

// forget drops all clients. Who has one goes on with it.
func (w *web) forget() {
	for key, c := range w.clients {
		c.pooled.CloseIdleConnections()
		delete(w.clients, key)
	}
}

// under gives the clients of a policy; nil is the strict one. Policies are
// compared by value, so that a new configuration with the same one keeps its
// connections.
func (w *web) under(policy *worker.NetPolicy) *clients {
	if policy == nil {
		policy = &worker.NetPolicy{}
	}
	key, err := json.Marshal(policy)
	if err != nil { // texts and booleans always encode
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.clients[string(key)]
	if c == nil {
		if len(w.clients) >= maxPolicies {
			w.forget()
		}
		c = &clients{fresh: w.transport(policy), pooled: w.transport(policy)}
		c.fresh.DisableKeepAlives = true
		w.clients[string(key)] = c
	}
	return c
}

func (w *web) transport(policy *worker.NetPolicy) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return w.connect(ctx, network, address, policy)
		},
		TLSClientConfig:        &tls.Config{RootCAs: w.roots},
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
		TLSHandshakeTimeout:    handshakeMs * time.Millisecond,
		MaxIdleConns:           idleInAll,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleMs * time.Millisecond,
		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true, // a body counts as it was sent
	}
}

// connect makes one connection for a URL with this host and port.
func (w *web) connect(ctx context.Context, network, address string, policy *worker.NetPolicy) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, badRequest("the URL names no host and port", "")
	}
	if reason := blockedHost(policy, host); reason != "" {
		return nil, blockedError(host, reason, false)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.open, cancel)()
	return w.dial(ctx, network, address, func(found string) error {
		if w.echo != nil && found == w.echo.address {
			return nil
		}
		at, err := netip.ParseAddrPort(found)
		if err != nil {
			return blockedError(host, fmt.Sprintf("%q is no address", found), false)
		}
		if reason := allowed(policy, host, at.Addr()); reason != "" {
			return blockedError(host, reason, classify(at.Addr()).reach != nowhere)
		}
		return nil
	})
}

func blockedError(host, reason string, openable bool) error {
	e := &Error{Code: "blocked", Op: "connect", Message: reason}
	if openable {
		e.Hint = fmt.Sprintf("if it may be reached, add %q to cron.webhookSsrfPolicy.allowedHostnames in the configuration", plainHost(host))
	}
	return e
}

// dialFunc connects, and asks permit just before each connection with the
// address it has found.
type dialFunc func(ctx context.Context, network, address string, permit func(address string) error) (net.Conn, error)

// dialTCP looks the host up, nil = as the system does, and connects. Control
// sees each address that is tried, just before the connection: also one that a
// second look-up gives.
func dialTCP(names *net.Resolver) dialFunc {
	return func(ctx context.Context, network, address string, permit func(string) error) (net.Conn, error) {
		d := net.Dialer{Timeout: connectMs * time.Millisecond, Resolver: names,
			Control: func(_, found string, _ syscall.RawConn) error { return permit(found) }}
		return d.DialContext(ctx, network, address)
	}
}

// exchange is what became of one request.
type exchange struct {
	code         int   // of the answer; 0 = there was none
	retryAfterMs int64 // as the answer asks; 0 = it does not
	// sent says that the receiver may have the request. It does from the moment
	// there is a connection: how much of the request was written when it broke is
	// known only later, or never.
	sent        bool
	writtenAtMs int64 // wall time just after the request was written; 0 = it was not
	err         error // why the answer is missing or not complete; nil if it is complete
}

// exchange sends a request once and has read take the body of the answer. It
// ends when ctx does.
func (w *web) exchange(ctx context.Context, by *http.Transport, r *request, read func(io.Reader) error) (x exchange) {
	var connected atomic.Bool
	var writtenAtMs atomic.Int64
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }, // the next thing is to write
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				writtenAtMs.CompareAndSwap(0, w.nowMs())
			}
		},
	})
	req, err := r.once(ctx)
	if err != nil {
		return exchange{err: err}
	}
	resp, err := by.RoundTrip(req) // not a client's Do: no redirects, no cookies, and no URL in errors
	x.sent, x.writtenAtMs = connected.Load(), writtenAtMs.Load()
	if err != nil {
		x.err = err
		return x
	}
	defer resp.Body.Close()
	x.code, x.sent = resp.StatusCode, true
	if x.writtenAtMs == 0 { // the answer came before the end of the request
		x.writtenAtMs = w.nowMs()
	}
	x.retryAfterMs = retryAfter(resp.Header.Get("Retry-After"), w.nowMs())
	if x.code != http.StatusSwitchingProtocols { // then there is no body, and what follows has no end
		x.err = read(resp.Body)
	}
	return x
}

// retryAfter reads the header of that name: seconds, or a date. 0 = none that
// can be read.
func retryAfter(value string, nowMs int64) int64 {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil {
		return max(0, seconds*1000)
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.UnixMilli()-nowMs)
	}
	return 0
}

// failure tells why an exchange had no answer: one clause, and the word of the
// failure catalogue. It shows no text of the other side and no URL.
func (x *exchange) failure() (text, reason string) {
	var (
		own     *Error
		cert    *tls.CertificateVerificationError
		garbled tls.RecordHeaderError
		lookup  *net.DNSError
		dialing *net.OpError
		code    syscall.Errno
		slow    interface{ Timeout() bool }
	)
	err := x.err
	switch {
	case errors.As(err, &own):
		return own.Message, "unclassified"
	case errors.As(err, &cert):
		return "its certificate is not accepted: " + certificateText(cert), "tls_certificate"
	case errors.As(err, &garbled):
		return "it does not speak https on that port", "network"
	case errors.As(err, &lookup) && lookup.IsNotFound:
		return "the name has no address", "network"
	case errors.As(err, &lookup):
		return "the name could not be looked up", "network"
	case errors.As(err, &slow) && slow.Timeout():
		return "no connection came about in time", "network"
	case errors.As(err, &dialing) && dialing.Op == "dial" && errors.As(err, &code):
		return code.Error(), "network"
	case x.sent:
		return "no complete answer came back", "network"
	}
	return "the connection broke off before the request was sent", "network"
}

// certificateText is what the verification says of the certificate.
func certificateText(cert *tls.CertificateVerificationError) string {
	if cert.Err == nil {
		return "it was not verified"
	}
	text, _ := bounded(cert.Err.Error())
	return text
}

// errTimedOut is the cause of a context whose time is over.
var errTimedOut = errors.New("the time for the request is over")

// within bounds ctx; 0 = no bound. Its time is monotonic.
func within(ctx context.Context, ms int64) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, time.Duration(ms)*time.Millisecond, errTimedOut)
}

func timedOut(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errTimedOut) }
