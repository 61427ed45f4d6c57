package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

const rigToken = "the-token-of-the-rig"

// newGatewayRig is a rig that listens on the network too, without a limit of
// calls.
func newGatewayRig(t *testing.T, tune ...func(*Host)) *rig {
	t.Helper()
	return newRigWith(t, nil, withGateway, tune...)
}

func withGateway(o *Options) {
	o.Gateway = GatewayOptions{Listen: "127.0.0.1:0", Token: rigToken}
}

// wsWire is a raw WebSocket: what other programs than our own client send.
type wsWire struct {
	t   *testing.T
	ws  *websocket.Conn
	ctx context.Context
}

// knock opens a WebSocket and says nothing.
func (r *rig) knock() *wsWire {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*deadline) // a whole conversation, and on a slow machine
	ws, _, err := websocket.Dial(ctx, r.URL(), nil)
	if err != nil {
		cancel()
		r.t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	r.t.Cleanup(func() { ws.CloseNow(); cancel() })
	return &wsWire{t: r.t, ws: ws, ctx: ctx}
}

// enter opens a WebSocket and does the handshake as the protocol's command
// line does.
func (r *rig) enter(scopes ...string) *wsWire {
	r.t.Helper()
	w := r.knock()
	if f := w.mustFrame(); f["event"] != "connect.challenge" {
		r.t.Fatalf("greeted with %v", f)
	}
	w.send(connectFrame(rigToken, scopes...))
	if f := w.mustFrame(); f["ok"] != true {
		r.t.Fatalf("not let in: %v", f)
	}
	return w
}

func connectFrame(token string, scopes ...string) string {
	asked, err := json.Marshal(append([]string{}, scopes...))
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"type":"req","id":"2:c0ffee","method":"connect","params":{"minProtocol":4,"maxProtocol":4,`+
		`"client":{"id":"cli","version":"2026.9.6","platform":"linux","deviceFamily":"Linux","mode":"cli","instanceId":"59289c70-0000-4000-8000-000000000000"},`+
		`"caps":[],"auth":{"token":%q},"role":"operator","scopes":%s}}`, token, asked)
}

func (w *wsWire) send(frame string) {
	w.t.Helper()
	if err := w.ws.Write(w.ctx, websocket.MessageText, []byte(frame)); err != nil {
		w.t.Fatal(err)
	}
}

// frame reads the next frame; at the end it gives why the other side closed.
func (w *wsWire) frame() (f map[string]any, end *websocket.CloseError) {
	w.t.Helper()
	_, data, err := w.ws.Read(w.ctx)
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		return nil, &closed
	case err != nil:
		w.t.Fatalf("read: %v", err)
	}
	if err := json.Unmarshal(data, &f); err != nil {
		w.t.Fatalf("%v in %q", err, data)
	}
	return f, nil
}

func (w *wsWire) mustFrame() map[string]any {
	w.t.Helper()
	f, end := w.frame()
	if end != nil {
		w.t.Fatalf("closed: %v", end)
	}
	return f
}

// answer reads up to the response to a request.
func (w *wsWire) answer(id string) map[string]any {
	w.t.Helper()
	for {
		if f := w.mustFrame(); f["type"] == "res" && f["id"] == id {
			return f
		}
	}
}

// event reads up to the next event of a name.
func (w *wsWire) event(name string) map[string]any {
	w.t.Helper()
	for {
		if f := w.mustFrame(); f["event"] == name {
			return f
		}
	}
}

// closes reads up to the end and checks its code and reason.
func (w *wsWire) closes(code int, reason string) {
	w.t.Helper()
	for {
		_, end := w.frame()
		if end == nil {
			continue
		}
		if int(end.Code) != code || end.Reason != reason {
			w.t.Errorf("closed with %d %q, want %d %q", end.Code, end.Reason, code, reason)
		}
		return
	}
}

// remote is the rig's gateway as our own client dials it.
func (r *rig) remote(scopes ...string) Remote {
	return Remote{URL: r.URL(), Token: rigToken, Scopes: scopes, Version: "test"}
}

func (r *rig) dialURL(scopes ...string) *Client {
	r.t.Helper()
	c, err := DialURL(r.t.Context(), r.remote(scopes...))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	return c
}

func (r *rig) hostPort() string { return strings.TrimPrefix(r.URL(), "ws://") }

// pipe is a connection of which nobody reads the far end until told to.
func pipe(t *testing.T) (near, far net.Conn) {
	t.Helper()
	near, far = net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}
