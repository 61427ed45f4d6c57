package host

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/worker"
)

func TestClientOfTheGateway(t *testing.T) {
	r := newGatewayRig(t)
	c := r.dialURL(ScopeRead)
	var status cronStatus
	if err := c.Call(t.Context(), "cron.status", nil, &status); err != nil || status.StorePath == "" {
		t.Errorf("status: %+v %v", status, err)
	}
	var wire *WireError
	if err := c.Call(t.Context(), "cron.remove", map[string]string{"id": "x"}, nil); !errors.As(err, &wire) || wire.Code != CodeForbidden {
		t.Errorf("beyond its scope: %v", err)
	}
	enough := errors.New("enough")
	var kinds []string
	err := c.Subscribe(t.Context(), 0, func(ev worker.Event) error {
		if kinds = append(kinds, ev.Kind); len(kinds) == 1 {
			r.addJob("seen live")
		}
		if ev.Kind == worker.EventJobAdded {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("subscribe ended with %v after %v", err, kinds)
	}
	r.stop()
	if err := c.Call(t.Context(), "cron.status", nil, nil); err == nil || !strings.Contains(err.Error(), "service restart") {
		t.Errorf("after the stop: %v", err)
	}
}

// What stands in the way of a connection is said by its kind.
func TestDialURLRefusals(t *testing.T) {
	r := newGatewayRig(t)
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "ws://" + silent.Addr().String()
	silent.Close()

	var refusal *WireError
	var none *NoServerError
	var badURL *URLError
	if _, err := DialURL(t.Context(), Remote{URL: r.URL(), Token: "wrong"}); !errors.As(err, &refusal) || refusal.Detail("code") != DetailTokenMismatch {
		t.Errorf("a wrong token: %v", err)
	}
	if _, err := DialURL(t.Context(), Remote{URL: nobody, Token: "x"}); !errors.As(err, &none) || !strings.Contains(err.Error(), "rota serve") {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := DialURL(t.Context(), Remote{URL: "ws" + strings.TrimPrefix(web.URL, "http"), Token: "x"}); !errors.As(err, &none) || !strings.Contains(err.Error(), "404") {
		t.Errorf("a web server: %v", err)
	}
	const secret = "s3cr3t"
	for _, u := range []string{"http://127.0.0.1:1", "127.0.0.1:7682", "ws://u:" + secret + "@127.0.0.1:1", "ws://127.0.0.1:1/?token=" + secret, "ws://", "://" + secret} {
		_, err := DialURL(t.Context(), Remote{URL: u, Token: "x"})
		if !errors.As(err, &badURL) {
			t.Errorf("%q: %v", u, err)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the refusal tells the secret: %v", err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DialURL(gone, r.remote()); err == nil {
		t.Error("a dial that was given up succeeded")
	}
}

func TestCheckURL(t *testing.T) {
	for u, loopback := range map[string]bool{
		"ws://127.0.0.1:7682": true, "ws://localhost:1": true, "ws://[::1]:7682/ws": true, "wss://127.8.9.1": true,
		"ws://rota.example:7682": false, "wss://192.0.2.1": false, "ws://localhost.evil.example": false,
	} {
		if got, err := CheckURL(u); err != nil || got != loopback {
			t.Errorf("%s: loopback %v, %v", u, got, err)
		}
	}
}
