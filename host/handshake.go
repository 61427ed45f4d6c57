package host

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// protocol is the one version of the protocol that this build speaks.
const protocol = 4

// maxAuthFailures within a minute from one address: further ones are told to
// wait. On the machine itself the right token still opens, so that nobody can
// lock its owner out.
const maxAuthFailures = 10

// meeting is a handshake that went well.
type meeting struct {
	id     string // of the connect request, to be answered
	role   string
	scopes []string
}

// refused is a handshake that did not.
type refused struct {
	err *WireError
	why closing
}

// meet greets a new connection and hears who it is. nil: it was turned away.
func (g *gateway) meet(l *wsLink, peer netip.Addr) *meeting {
	challenge, err := encodeFrame(struct {
		Type    string `json:"type"`
		Event   string `json:"event"`
		Payload any    `json:"payload"`
	}{"event", "connect.challenge", struct {
		Nonce string `json:"nonce"`
		TsMs  int64  `json:"ts"`
	}{randomUUID(), time.Now().UnixMilli()}})
	if err != nil || l.write(challenge, time.Now().Add(g.h.writeTimeout)) != nil {
		l.close(closing{closeNormal, ""})
		return nil
	}
	var late atomic.Bool
	timer := time.AfterFunc(g.handshakeTimeout, func() { late.Store(true); l.finish() })
	defer timer.Stop()
	frame, err := l.next()
	switch {
	case late.Load():
		l.close(closing{closePolicy, "handshake timeout"})
		return nil
	case errors.Is(err, errFrameTooLong):
		l.close(closing{closeTooBig, "preauth payload too large"})
		return nil
	case errors.Is(err, errNotText):
		l.close(closing{closeNotText, "text frames only"})
		return nil
	case err != nil:
		l.close(closing{closeNormal, ""})
		return nil
	}
	req, err := readRequest(frame)
	if err != nil || req.Method != "connect" {
		id := req.ID
		if err != nil {
			id = "" // no request: nobody to answer
		}
		g.turnAway(l, id, refuseHandshake("invalid handshake: first request must be connect"))
		return nil
	}
	p, err := decodeConnect(req.Params)
	if err != nil {
		fault := wireError("connect", err)
		g.turnAway(l, req.ID, refused{fault, closing{closePolicy, cutReason(fault.Message)}})
		return nil
	}
	met, refusal := g.admit(p, peer, time.Now())
	if refusal != nil {
		if g.logged.take(peerKey(peer), time.Now()) == 0 { // whoever goes on fills no disk
			g.h.opts.Log.Warn("connection refused", "url", g.h.URL(), "peer", peer, "client", p.Client.ID, "why", refusal.err.Message)
		}
		g.turnAway(l, req.ID, *refusal)
		return nil
	}
	met.id = req.ID
	return met
}

func refuseHandshake(message string) refused {
	return refused{&WireError{Code: CodeInvalidRequest, Message: message}, closing{closePolicy, cutReason(message)}}
}

// turnAway answers the request id, if there is one, and ends the connection.
func (g *gateway) turnAway(l *wsLink, id string, r refused) {
	if id != "" {
		frame, err := encodeFrame(response{Type: "res", ID: id, Error: r.err})
		if err == nil {
			_ = l.write(frame, time.Now().Add(g.h.writeTimeout)) // whoever is gone hears nothing
		}
	}
	l.close(r.why)
}

// cutReason keeps a close reason within what a close frame can hold.
func cutReason(s string) string {
	const most = 120
	if len(s) <= most {
		return s
	}
	cut := most - len("…")
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// admit decides about well-formed parameters of connect.
func (g *gateway) admit(p connectParams, peer netip.Addr, now time.Time) (*meeting, *refused) {
	if p.MinProtocol > protocol || p.MaxProtocol < protocol {
		return nil, &refused{&WireError{Code: CodeInvalidRequest, Message: "protocol mismatch",
			Details: json.RawMessage(fmt.Sprintf(`{"code":%q,"clientMinProtocol":%d,"clientMaxProtocol":%d,"expectedProtocol":%d,"minimumProbeProtocol":3}`,
				DetailProtocolMismatch, p.MinProtocol, p.MaxProtocol, protocol))}, closing{closeProtocol, "protocol mismatch"}}
	}
	if p.Role != "" && p.Role != "operator" {
		r := refuseHandshake("invalid role")
		return nil, &r
	}
	key := peerKey(peer)
	wait := g.failures.full(key, now)
	if wait > 0 && !peer.IsLoopback() {
		return nil, authLimited(wait)
	}
	if p.Auth.Token == "" {
		return nil, p.withoutToken()
	}
	sum := sha256.Sum256([]byte(p.Auth.Token))
	if subtle.ConstantTimeCompare(sum[:], g.token[:]) != 1 {
		if wait > 0 || g.failures.take(key, now) > 0 {
			return nil, authLimited(max(wait, time.Second))
		}
		return nil, unauthorized(DetailTokenMismatch, "token_mismatch", "update_auth_credentials",
			"unauthorized: gateway token mismatch (provide gateway auth token)")
	}
	return &meeting{role: "operator", scopes: grantable(p.Scopes)}, nil
}

// withoutToken refuses who has none: who shows nothing at all, and who shows
// something else.
func (p connectParams) withoutToken() *refused {
	if p.Device == nil && p.Auth.Password == "" && p.Auth.DeviceToken == "" && p.Auth.BootstrapToken == "" {
		return &refused{&WireError{Code: CodeNotPaired, Message: "device identity required",
			Details: object("code", DetailNoIdentity)}, closing{closePolicy, "device identity required"}}
	}
	return unauthorized(DetailTokenMissing, "token_missing", "update_auth_configuration",
		"unauthorized: gateway token missing (provide gateway auth token)")
}

func unauthorized(code, reason, next, message string) *refused {
	return &refused{&WireError{Code: CodeInvalidRequest, Message: message, Details: authDetails(code, reason, next)}, closing{closePolicy, message}}
}

func authLimited(wait time.Duration) *refused {
	const message = "unauthorized: too many failed authentication attempts (retry later)"
	return &refused{&WireError{Code: CodeUnavailable, Message: message, Details: authDetails(DetailAuthLimited, "rate_limited", "wait_then_retry"),
		Retryable: true, RetryAfterMs: max(1, wait.Milliseconds())}, closing{closePolicy, message}}
}

func authDetails(code, reason, next string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"code":%q,"authReason":%q,"canRetryWithDeviceToken":false,"recommendedNextStep":%q}`, code, reason, next))
}

// grantable keeps what was asked for of the scopes there are. Who asks for
// nothing gets nothing.
func grantable(asked []string) []string {
	kept := []string{}
	for _, scope := range asked {
		if slices.Contains([]string{ScopeRead, ScopeWrite, ScopeAdmin}, scope) && !slices.Contains(kept, scope) {
			kept = append(kept, scope)
		}
	}
	return kept
}

// peerKey counts an address; of IPv6 a whole network, which one host may have.
func peerKey(peer netip.Addr) string {
	if peer.Is6() && !peer.IsLoopback() {
		if prefix, err := peer.WithZone("").Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return peer.String()
}

// randomUUID is a version 4 UUID.
func randomUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

type helloOK struct {
	Type     string        `json:"type"` // "hello-ok"
	Protocol int           `json:"protocol"`
	Server   helloServer   `json:"server"`
	Features helloFeatures `json:"features"`
	Snapshot helloSnapshot `json:"snapshot"`
	Auth     helloAuth     `json:"auth"`
	Policy   helloPolicy   `json:"policy"`
}

type helloServer struct {
	Version string `json:"version"`
	ConnID  string `json:"connId"`
	BootID  string `json:"bootId"`
}

type helloFeatures struct {
	Methods []string `json:"methods"`
	Events  []string `json:"events"`
}

// helloSnapshot has what clients look for; presence and health are of agents,
// and there are none.
type helloSnapshot struct {
	Presence     []struct{} `json:"presence"`
	Health       struct{}   `json:"health"`
	StateVersion struct {
		Presence int64 `json:"presence"`
		Health   int64 `json:"health"`
	} `json:"stateVersion"`
	UptimeMs int64  `json:"uptimeMs"`
	AuthMode string `json:"authMode,omitempty"` // for admins
}

type helloAuth struct {
	Role   string   `json:"role"`
	Scopes []string `json:"scopes"`
}

type helloPolicy struct {
	MaxPayload       int64 `json:"maxPayload"`
	MaxBufferedBytes int64 `json:"maxBufferedBytes"`
	TickIntervalMs   int64 `json:"tickIntervalMs"`
}

// hello answers a connect that went well.
func (g *gateway) hello(met *meeting) helloOK {
	hello := helloOK{
		Type: "hello-ok", Protocol: protocol,
		Server:   helloServer{Version: g.h.opts.Version, ConnID: randomUUID(), BootID: g.h.opts.InstanceID},
		Features: helloFeatures{Events: []string{"connect.challenge", "cron", "tick", "shutdown"}},
		Snapshot: helloSnapshot{Presence: []struct{}{}, UptimeMs: time.Since(g.h.startedAt).Milliseconds()},
		Auth:     helloAuth{Role: met.role, Scopes: met.scopes},
		Policy:   helloPolicy{MaxPayload: maxPayload, MaxBufferedBytes: maxBufferedBytes, TickIntervalMs: tickEvery.Milliseconds()},
	}
	for _, m := range methodRows() {
		if !m.Local {
			hello.Features.Methods = append(hello.Features.Methods, m.Name)
		}
	}
	hello.Features.Methods = append(hello.Features.Methods, subscribeMethod)
	if covers(met.scopes, ScopeAdmin) {
		hello.Snapshot.AuthMode = "token"
	}
	return hello
}
