package host

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// first is one first frame of the document, and what is to come back.
type first struct {
	line                              int
	frame, response, details, closing string
}

func readFirsts(t testing.TB) []first {
	t.Helper()
	raw, err := os.ReadFile("../testdata/host/handshake.txt")
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("TOKEN", rigToken, "CLI", `"version":"1.0.0","platform":"linux"`)
	var all []first
	lines := strings.Split(string(raw), "\n")
	for i := 0; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) == "" || strings.HasPrefix(lines[i], "#") {
			continue
		}
		if i+3 >= len(lines) {
			t.Fatalf("line %d: three lines are to follow", i+1)
		}
		all = append(all, first{i + 1, fill.Replace(lines[i]), lines[i+1][2:], lines[i+2][2:], lines[i+3][2:]})
		i += 3
	}
	return all
}

func TestHandshake(t *testing.T) {
	r := newGatewayRig(t, func(h *Host) { h.gateway.failures.set(0) })
	for _, c := range readFirsts(t) {
		t.Run(fmt.Sprintf("line %d", c.line), func(t *testing.T) {
			w := r.knock()
			challenge := w.mustFrame()
			payload, _ := challenge["payload"].(map[string]any)
			if nonce, _ := payload["nonce"].(string); challenge["event"] != "connect.challenge" || len(nonce) != 36 || payload["ts"] == nil {
				t.Fatalf("greeted with %v", challenge)
			}
			w.send(c.frame)
			if c.response != "-" {
				c.checkResponse(t, w.mustFrame())
			}
			if c.closing == "-" {
				w.send(`{"type":"req","id":"after","method":"nope"}`)
				if f := w.answer("after"); f["error"].(map[string]any)["message"] != "unknown method: nope" {
					t.Errorf("afterwards: %v", f)
				}
				return
			}
			f, end := w.frame()
			if end == nil {
				t.Fatalf("goes on with %v", f)
			}
			if got := fmt.Sprintf("%d %s", end.Code, end.Reason); !matches(got, c.closing) {
				t.Errorf("closed with %q, want %q", got, c.closing)
			}
		})
	}
}

// matches compares with an expectation that may end in "…".
func matches(got, want string) bool {
	if start, open := strings.CutSuffix(want, "…"); open {
		return strings.HasPrefix(got, start)
	}
	return got == want
}

func (c first) checkResponse(t *testing.T, f map[string]any) {
	t.Helper()
	if c.response == "hello" {
		if f["ok"] != true {
			t.Fatalf("not let in: %v", f)
		}
		return
	}
	fault, _ := f["error"].(map[string]any)
	if f["type"] != "res" || f["ok"] != false {
		t.Fatalf("answered %v", f)
	}
	if got := fmt.Sprintf("%v %v", fault["code"], fault["message"]); !matches(got, c.response) {
		t.Errorf("answered %q, want %q", got, c.response)
	}
	var want map[string]any
	switch c.details {
	case "…":
		return
	case "-":
	default:
		if err := json.Unmarshal([]byte(c.details), &want); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := fault["details"].(map[string]any); !reflect.DeepEqual(got, want) {
		t.Errorf("details %v, want %v", got, want)
	}
}

func TestHello(t *testing.T) {
	r := newGatewayRig(t)
	w := r.knock()
	w.mustFrame()
	w.send(connectFrame(rigToken, "operator.read", "operator.admin", "operator.read", "operator.root"))
	f := w.mustFrame()
	raw, err := json.Marshal(f["payload"])
	if err != nil {
		t.Fatal(err)
	}
	var hello helloOK
	if err := json.Unmarshal(raw, &hello); err != nil {
		t.Fatal(err)
	}
	if f["id"] != "2:c0ffee" || hello.Type != "hello-ok" || hello.Protocol != 4 || hello.Server.Version != "test" || hello.Server.ConnID == "" {
		t.Errorf("hello is %s", raw)
	}
	if want := []string{"operator.read", "operator.admin"}; !slices.Equal(hello.Auth.Scopes, want) || hello.Auth.Role != "operator" {
		t.Errorf("auth is %+v, want %v", hello.Auth, want)
	}
	for _, m := range []string{"cron.list", "cron.get", "cron.status", "cron.add", "cron.update", "cron.remove", "cron.run", "cron.runs"} {
		if !slices.Contains(hello.Features.Methods, m) {
			t.Errorf("%s is not offered", m)
		}
	}
	for _, e := range []string{"cron", "tick", "shutdown"} {
		if !slices.Contains(hello.Features.Events, e) {
			t.Errorf("%s is not offered", e)
		}
	}
	if hello.Policy != (helloPolicy{26_214_400, 52_428_800, 30_000}) {
		t.Errorf("policy is %+v", hello.Policy)
	}
	for _, member := range []string{`"presence":[]`, `"health":{}`, `"stateVersion":{"health":0,"presence":0}`, `"uptimeMs":`} {
		if !strings.Contains(string(raw), member) {
			t.Errorf("the snapshot has no %s: %s", member, raw)
		}
	}
}

// What a connection may is what it asked for; who asked for nothing may nothing.
func TestScopes(t *testing.T) {
	r := newGatewayRig(t)
	for _, c := range []struct {
		scopes   []string
		may, not []string
	}{
		{nil, nil, []string{"cron.status", "cron.add", subscribeMethod}},
		{[]string{"operator.talk"}, nil, []string{"cron.status"}},
		{[]string{ScopeRead}, []string{"cron.status", "cron.list", "rota.events"}, []string{"cron.add", "cron.remove", "rota.stop"}},
		{[]string{ScopeWrite}, []string{"cron.status"}, []string{"cron.add"}},
		{[]string{ScopeAdmin}, []string{"cron.status", "cron.list", subscribeMethod}, nil},
	} {
		t.Run(strings.Join(c.scopes, " "), func(t *testing.T) {
			w := r.enter(c.scopes...)
			for _, m := range c.not {
				w.send(`{"type":"req","id":"` + m + `","method":"` + m + `","params":{}}`)
				fault, _ := w.answer(m)["error"].(map[string]any)
				details, _ := fault["details"].(map[string]any)
				need := ScopeOf(m)
				if fault["code"] != CodeForbidden || fault["message"] != "missing scope: "+need || details["code"] != DetailMissingScope ||
					details["missingScope"] != need || !reflect.DeepEqual(details["requiredScopes"], []any{need}) {
					t.Errorf("%s: %v", m, fault)
				}
			}
			for _, m := range c.may {
				w.send(`{"type":"req","id":"` + m + `","method":"` + m + `","params":{}}`)
				if f := w.answer(m); f["ok"] != true {
					t.Errorf("%s: %v", m, f)
				}
			}
		})
	}
}

// Who says nothing is not waited for, and a long first frame is not read.
func TestHandshakeIsBounded(t *testing.T) {
	r := newGatewayRig(t, func(h *Host) { h.gateway.handshakeTimeout = 50 * time.Millisecond })
	w := r.knock()
	w.mustFrame()
	w.closes(closePolicy, "handshake timeout")

	r = newGatewayRig(t)
	w = r.knock()
	w.mustFrame()
	go func() { _ = w.ws.Write(w.ctx, websocket.MessageText, []byte(strings.Repeat("x", maxPreauthBytes+1))) }()
	w.closes(closeTooBig, "preauth payload too large")

	w = r.knock()
	w.mustFrame()
	long := strings.Replace(connectFrame(rigToken), `"caps":[]`, `"caps":["`+strings.Repeat("c", 60_000)+`"]`, 1)
	w.send(long)
	if f := w.mustFrame(); f["ok"] != true {
		t.Errorf("60,000 bytes are too many: %v", f)
	}
}

// Wrong tokens are counted by address: on the machine itself the right one
// still opens, from elsewhere it has to wait.
func TestFailedAuthenticationIsLimited(t *testing.T) {
	r := newGatewayRig(t)
	refusal := func(token string) map[string]any {
		w := r.knock()
		w.mustFrame()
		w.send(connectFrame(token))
		fault, _ := w.mustFrame()["error"].(map[string]any)
		return fault
	}
	for i := range maxAuthFailures {
		if got := detail(refusal("wrong")); got != DetailTokenMismatch {
			t.Fatalf("failure %d: %s", i+1, got)
		}
	}
	fault := refusal("wrong")
	if detail(fault) != DetailAuthLimited || fault["retryable"] != true || fault["retryAfterMs"] == nil {
		t.Errorf("one more: %v", fault)
	}
	if fault := refusal(rigToken); fault != nil {
		t.Errorf("the owner is locked out: %v", fault)
	}

	away, now := netip.MustParseAddr("192.0.2.7"), time.Now()
	var p connectParams
	p.MinProtocol, p.MaxProtocol = 4, 4
	p.Auth.Token = "wrong"
	for range maxAuthFailures {
		r.gateway.admit(p, away, now)
	}
	p.Auth.Token = rigToken
	if _, refusal := r.gateway.admit(p, away, now); refusal == nil || refusal.err.Detail("code") != DetailAuthLimited {
		t.Errorf("from elsewhere: %v", refusal)
	}
	if _, refusal := r.gateway.admit(p, away, now.Add(limitWindow)); refusal != nil {
		t.Errorf("a minute later: %v", refusal.err)
	}
	if _, refusal := r.gateway.admit(p, netip.MustParseAddr("192.0.2.8"), now); refusal != nil {
		t.Errorf("somebody else: %v", refusal.err)
	}
}

// Whoever is refused again and again does not fill the log.
func TestRefusalsInTheLogAreBounded(t *testing.T) {
	var log strings.Builder // its handler has a lock, and the last answer comes after the last line
	r := newGatewayRig(t, func(h *Host) { h.opts.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for range 3 * maxAuthFailures {
		w := r.knock()
		w.mustFrame()
		w.send(connectFrame(""))
		w.mustFrame()
	}
	if n := strings.Count(log.String(), "connection refused"); n != maxAuthFailures {
		t.Errorf("%d lines for %d refusals", n, 3*maxAuthFailures)
	}
}

func detail(fault map[string]any) string {
	details, _ := fault["details"].(map[string]any)
	code, _ := details["code"].(string)
	return code
}
