package host

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

const upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"

// ask sends raw HTTP and reads the head of the answer.
func (r *rig) askHTTP(request string) *http.Response {
	r.t.Helper()
	nc, err := net.Dial("tcp", r.hostPort())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { nc.Close() })
	if err := nc.SetDeadline(time.Now().Add(deadline)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(nc, request); err != nil {
		r.t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// What a web page in the user's browser can send gets nothing, whatever name
// leads it here.
func TestWebPagesAreRefused(t *testing.T) {
	r := newGatewayRig(t)
	own := "Host: " + r.hostPort() + "\r\n"
	for _, c := range []struct {
		name, request string
		status        int
	}{
		{"a program", "GET / HTTP/1.1\r\n" + own + upgrade, http.StatusSwitchingProtocols},
		{"at the other path", "GET /ws HTTP/1.1\r\nHost: localhost:1\r\n" + upgrade, http.StatusSwitchingProtocols},
		{"by IPv6", "GET / HTTP/1.1\r\nHost: [::1]:7682\r\n" + upgrade, http.StatusSwitchingProtocols},
		{"typed by a person", "GET / HTTP/1.1\r\n" + own + "Sec-Fetch-Site: none\r\n" + upgrade, http.StatusSwitchingProtocols},
		{"a rebound name", "GET / HTTP/1.1\r\nHost: evil.example:7682\r\n" + upgrade, http.StatusMisdirectedRequest},
		{"a name that begins like ours", "GET / HTTP/1.1\r\nHost: localhost.evil.example\r\n" + upgrade, http.StatusMisdirectedRequest},
		{"the address of all", "GET / HTTP/1.1\r\nHost: 0.0.0.0:7682\r\n" + upgrade, http.StatusMisdirectedRequest},
		{"another address", "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n" + upgrade, http.StatusMisdirectedRequest},
		{"no host", "GET / HTTP/1.0\r\n" + upgrade, http.StatusMisdirectedRequest},
		{"a page's WebSocket", "GET / HTTP/1.1\r\n" + own + "Origin: https://evil.example\r\n" + upgrade, http.StatusForbidden},
		{"an origin that looks like ours", "GET / HTTP/1.1\r\n" + own + "Origin: http://" + r.hostPort() + "\r\n" + upgrade, http.StatusForbidden},
		{"a sandboxed page", "GET / HTTP/1.1\r\n" + own + "Origin: null\r\n" + upgrade, http.StatusForbidden},
		{"an empty origin", "GET / HTTP/1.1\r\n" + own + "Origin:\r\n" + upgrade, http.StatusForbidden},
		{"a fetch from elsewhere", "GET / HTTP/1.1\r\n" + own + "Sec-Fetch-Site: cross-site\r\n\r\n", http.StatusForbidden},
		{"a fetch from a sister site", "GET / HTTP/1.1\r\n" + own + "Sec-Fetch-Site: same-site\r\n" + upgrade, http.StatusForbidden},
		{"an image", "GET / HTTP/1.1\r\n" + own + "\r\n", http.StatusUpgradeRequired},
		{"a form", "POST / HTTP/1.1\r\n" + own + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", http.StatusMethodNotAllowed},
		{"a form that upgrades", "POST / HTTP/1.1\r\n" + own + "Content-Length: 0\r\n" + upgrade, http.StatusMethodNotAllowed},
		{"a preflight", "OPTIONS / HTTP/1.1\r\n" + own + "\r\n", http.StatusMethodNotAllowed},
		{"another path", "GET /rpc HTTP/1.1\r\n" + own + upgrade, http.StatusNotFound},
		{"a token in the url", "GET /?token=" + rigToken + " HTTP/1.1\r\n" + own + upgrade, http.StatusBadRequest},
		{"a token by another name", "GET /?Access_Token=x HTTP/1.1\r\n" + own + upgrade, http.StatusBadRequest},
		{"an old version", "GET / HTTP/1.1\r\n" + own + strings.Replace(upgrade, "13", "8", 1), http.StatusBadRequest},
		{"long headers", "GET / HTTP/1.1\r\n" + own + "X: " + strings.Repeat("x", 2*maxHeaderBytes) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			request := c.request
			if !strings.Contains(request, "\r\n\r\n") {
				request += "\r\n"
			}
			res := r.askHTTP(request)
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
			for header := range res.Header {
				if strings.HasPrefix(header, "Access-Control-") {
					t.Errorf("a page is told %s", header)
				}
			}
			if ext := res.Header.Get("Sec-Websocket-Extensions"); ext != "" {
				t.Errorf("extensions %q", ext)
			}
		})
	}
}

// On an address that others reach, addresses and the machine's names are ours.
func TestRemoteHostNames(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{names: []string{"localhost", strings.ToLower(name), "rota.example"}, anyIP: true}
	for host, want := range map[string]bool{
		"192.0.2.1:7682": true, "[2001:db8::1]:7682": true, strings.ToUpper(name): true, "rota.example.": true, "ROTA.example:1": true,
		"evil.example": false, "rota.example.evil": false, "": false,
	} {
		if g.meansUs(host) != want {
			t.Errorf("%q: %v, want %v", host, !want, want)
		}
	}
}

// A client that sends its headers byte by byte is not waited for.
func TestSlowHeadersAreCutOff(t *testing.T) {
	r := newGatewayRig(t)
	nc, err := net.Dial("tcp", r.hostPort())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "GET / HTTP/1.1\r\nHo"); err != nil {
		t.Fatal(err)
	}
	if err := nc.SetReadDeadline(time.Now().Add(deadline)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, err = io.Copy(io.Discard, nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("it is waited for")
	}
	if d := time.Since(began); d > headerTimeout+5*time.Second {
		t.Errorf("cut off after %v", d)
	}
}

// Only addresses of the machine itself are listened on without being asked to.
func TestListenAddresses(t *testing.T) {
	r := newGatewayRig(t)
	listen := func(addr string, remote bool) error {
		o := r.opts
		o.SocketPath += "2"
		o.Gateway.Listen, o.Gateway.AllowRemote = addr, remote
		h, err := New(o)
		if err == nil {
			h.listener.Close()
			h.gateway.listener.Close()
		}
		return err
	}
	var remote *RemoteError
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0"} {
		if err := listen(addr, false); !errors.As(err, &remote) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	if err := listen("0.0.0.0:0", true); err != nil {
		t.Errorf("a remote address that is allowed: %v", err)
	}
	var held *ListenError
	if err := listen(r.hostPort(), false); !errors.As(err, &held) || !held.Rota || !held.Busy {
		t.Errorf("another rota's address: %v", err)
	}
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go func() { // hangs up on everybody
		for {
			nc, err := other.Accept()
			if err != nil {
				return
			}
			nc.Close()
		}
	}()
	if err := listen(other.Addr().String(), false); !errors.As(err, &held) || held.Rota || !held.Busy {
		t.Errorf("another program's address: %v", err)
	}
	if err := listen("127.0.0.1:no-such-port", false); !errors.As(err, &held) || held.Busy {
		t.Errorf("no address: %v", err)
	}
	if _, err := os.Lstat(r.sock + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a socket is left: %v", err)
	}
	if got := fmt.Sprint(&RemoteError{"0.0.0.0:1"}); !strings.Contains(got, "not encrypted") {
		t.Errorf("the refusal says %q", got)
	}
}
