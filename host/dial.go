package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/coder/websocket"
)

const (
	dialTimeout = 5 * time.Second
	// silenceTimeout is how long a gateway may say nothing: it ticks twice as often.
	silenceTimeout = 2 * tickEvery
)

// NoServerError: nobody answers there.
type NoServerError struct {
	Where string // a socket path or a URL
	Err   error
}

// Error says what to type.
func (e *NoServerError) Error() string {
	return fmt.Sprintf("no rota daemon answers at %s: %v. %s", e.Where, e.Err, e.Hint())
}

// Hint says what to type next.
func (e *NoServerError) Hint() string {
	if strings.Contains(e.Where, "://") {
		return "start it with `rota serve`, or give its url: the ready line and `rota serve --ready-file` say it"
	}
	return "start one with `rota serve`, or name its --state-dir"
}

// Unwrap gives the cause.
func (e *NoServerError) Unwrap() error { return e.Err }

// Dial connects to the daemon that listens on socketPath.
func Dial(socketPath string) (*Client, error) {
	nc, err := net.DialTimeout("unix", socketPath, dialTimeout)
	if err == nil {
		if err = checkPeer(nc); err != nil {
			nc.Close()
		}
	}
	if err != nil {
		return nil, &NoServerError{Where: socketPath, Err: shortDialError(err)}
	}
	return newClient(newLineLink(nc, maxReplyBytes, 0)), nil
}

// shortDialError leaves out the address and the word "dial", which are said already.
func shortDialError(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Remote is a gateway as a client sees it.
type Remote struct {
	URL     string // ws:// or wss://
	Token   string
	Scopes  []string // what the client asks for; the least that does
	Version string   // of the program that asks
}

// URLError refuses a URL before anything is tried.
type URLError struct{ URL, Message string }

func (e *URLError) Error() string { return fmt.Sprintf("%s: %s", e.URL, e.Message) }

// CheckURL refuses what is no URL of a gateway; loopback says whether it leads
// to this machine.
func CheckURL(text string) (loopback bool, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return false, &URLError{"the url", "is not one"} // it may hold a secret
	case u.Scheme != "ws" && u.Scheme != "wss":
		return false, &URLError{u.Redacted(), "must begin with ws:// or wss://"}
	case u.User != nil, u.RawQuery != "":
		return false, &URLError{u.Scheme + "://" + u.Host, "must hold no credentials and no query: a token goes into --token or ROTA_TOKEN"}
	case u.Hostname() == "":
		return false, &URLError{u.Redacted(), "names no host"}
	}
	if u.Hostname() == "localhost" {
		return true, nil
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && addr.Unmap().IsLoopback(), nil
}

// DialURL connects to a gateway and makes itself known. A refusal is a
// *WireError.
func DialURL(ctx context.Context, r Remote) (*Client, error) {
	if _, err := CheckURL(r.URL); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var under net.Conn
	dialer := net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := dialer.DialContext(ctx, network, addr)
		under = nc
		return nc, err
	}} // no proxy: the token is for that host alone
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ws, answer, err := websocket.Dial(ctx, r.URL, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport, CheckRedirect: refuse}})
	if err != nil {
		if answer != nil && answer.StatusCode != 0 {
			err = fmt.Errorf("it answers HTTP %s, and not as a gateway", answer.Status)
		}
		return nil, &NoServerError{Where: r.URL, Err: shortDialError(err)}
	}
	l := newWSLink(ws, under, maxReplyBytes, silenceTimeout)
	stop := context.AfterFunc(ctx, l.abort)
	err = r.introduce(l)
	if !stop() { // the time was up
		err = errors.Join(ctx.Err(), err)
	}
	var refusal *WireError
	switch {
	case errors.As(err, &refusal):
		l.close(closing{code: closeNormal})
		return nil, refusal
	case err != nil:
		l.abort()
		return nil, &NoServerError{Where: r.URL, Err: err}
	}
	return newClient(l), nil
}

// introduce waits for the challenge, sends connect, and takes its answer.
func (r Remote) introduce(l *wsLink) error {
	challenge, err := nextReply(l)
	if err != nil {
		return fmt.Errorf("no challenge: %w", err)
	}
	if challenge.Event != "connect.challenge" {
		return errors.New("it does not greet as a gateway does")
	}
	const id = "connect"
	frame, err := encodeFrame(struct {
		Type   string `json:"type"`
		ID     string `json:"id"`
		Method string `json:"method"`
		Params any    `json:"params"`
	}{"req", id, "connect", r.params()})
	if err != nil {
		return err
	}
	if err := l.write(frame, time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	for {
		answer, err := nextReply(l)
		switch {
		case err != nil:
			return err
		case answer.Type != "res" || answer.ID != id:
			continue
		case answer.Error != nil:
			return answer.Error
		case !answer.OK:
			return errors.New("refused without a reason")
		}
		return nil
	}
}

func nextReply(l *wsLink) (r reply, err error) {
	frame, err := l.next()
	if err == nil {
		err = json.Unmarshal(frame, &r)
	}
	return r, err
}

type introduction struct {
	MinProtocol int `json:"minProtocol"`
	MaxProtocol int `json:"maxProtocol"`
	Client      struct {
		ID         string `json:"id"`
		Version    string `json:"version"`
		Platform   string `json:"platform"`
		Mode       string `json:"mode"`
		InstanceID string `json:"instanceId"`
	} `json:"client"`
	Caps []string `json:"caps"`
	Auth struct {
		Token string `json:"token"`
	} `json:"auth"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes"`
}

// params are what the command line of this protocol says of itself.
func (r Remote) params() introduction {
	p := introduction{MinProtocol: protocol, MaxProtocol: protocol, Caps: []string{}, Role: "operator", Scopes: append([]string{}, r.Scopes...)}
	p.Client.ID, p.Client.Mode, p.Client.InstanceID = "cli", "cli", randomUUID()
	p.Client.Version, p.Client.Platform = r.Version, runtime.GOOS
	if p.Client.Platform == "windows" {
		p.Client.Platform = "win32" // as the protocol spells it
	}
	if p.Client.Version == "" {
		p.Client.Version = "unknown"
	}
	p.Auth.Token = r.Token
	return p
}
