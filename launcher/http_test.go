//go:build unix

package launcher

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// requestScript is one block of requests.txt.
type requestScript struct {
	name     string
	receiver string
	payload  job.HTTPPayload
	want     [][2]string
}

func TestHowRequestsEnd(t *testing.T) {
	playRequests(t, func(name string) bool { return !strings.HasPrefix(name, "Case") })
}

func TestCase089CredentialsAreNotInURLsAndHeadersHaveOneLine(t *testing.T) {
	playRequests(t, func(name string) bool { return strings.HasPrefix(name, "Case089:") })
}

func TestCase090ABlockedAddressIsAnErrorWithAReason(t *testing.T) {
	playRequests(t, func(name string) bool { return strings.HasPrefix(name, "Case090:") })
	playCase(t, "Case090")
}

func playRequests(t *testing.T, which func(name string) bool) {
	played := 0
	for _, s := range readRequests(t) {
		if which(s.name) {
			played++
			t.Run(s.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playRequest(t, s) })
			})
		}
	}
	if played == 0 {
		t.Error("requests.txt has no such block")
	}
}

func playRequest(t *testing.T, s requestScript) {
	d := newDesk(t, Options{})
	d.patience = time.Hour
	r := &receiver{script: []string{s.receiver}, start: time.Now()}
	d.launcher.web.dial = r.dial
	s.payload.Headers = append(s.payload.Headers, job.Header{Name: "X-Secret", Value: "canary"})
	d.http(s.payload, nil)
	o := d.outcome()
	took := time.Since(r.start).Round(time.Second).Seconds()
	for _, w := range s.want {
		var got string
		switch w[0] {
		case "took":
			got = fmt.Sprint(took)
		case "started":
			got = map[bool]string{true: "yes", false: "no"}[o.StartedAtMs != 0]
		default:
			got = outcomeField(t, &o, w[0])
		}
		equal(t, w[0], got, w[1])
	}
	if o.Process != nil || o.ReceiptID != "receipt-1" || r.requests() > 1 {
		t.Errorf("%d requests, outcome %+v", r.requests(), o)
	}
	lines, err := os.ReadFile(d.logPath)
	must(t, err)
	equal(t, "lines in the launch log", strings.Count(string(lines), "\n"), 1)
	if all, err := json.Marshal(o); err != nil || bytes.Contains(all, []byte("canary")) || bytes.Contains(lines, []byte("canary")) {
		t.Errorf("a secret is shown: %s, %v", all, err)
	}
	r.lives.Wait()
}

// http orders a run of an http payload.
func (d *desk) http(p job.HTTPPayload, policy *worker.NetPolicy) *worker.Launch {
	d.launches++
	if p.Method == "" {
		p.Method = http.MethodGet
	}
	l := &worker.Launch{ReceiptID: fmt.Sprintf("receipt-%d", d.launches), RunID: fmt.Sprintf("run-%d", d.launches),
		JobID: "job-1", Attempt: 1, Net: policy, Payload: job.Payload{Kind: "http", HTTP: &p}}
	d.order(worker.Order{Launch: l})
	return l
}

func readRequests(t *testing.T) (all []requestScript) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/launcher/requests.txt")
	must(t, err)
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		lines := strings.Split(block, "\n")
		s, expecting := requestScript{name: lines[0], receiver: "200"}, false
		s.payload.URL = "http://hook.example/path?key=canary#canary"
		for _, line := range lines[1:] {
			word, value, _ := strings.Cut(line, " ")
			switch {
			case line == "=>":
				expecting = true
			case expecting:
				s.want = append(s.want, [2]string{word, value})
			default:
				must(t, s.given(word, value))
			}
		}
		all = append(all, s)
	}
	if len(all) < 25 {
		t.Fatalf("only %d requests were read", len(all))
	}
	return all
}

func (s *requestScript) given(word, value string) (err error) {
	switch word {
	case "receiver":
		s.receiver = value
	case "url":
		s.payload.URL = value
	case "method":
		s.payload.Method = unquoted(value)
	case "timeoutMs":
		s.payload.TimeoutMs, err = strconv.ParseInt(value, 10, 64)
	case "ok":
		var r job.StatusRange
		_, err = fmt.Sscanf(value, "%d-%d", &r.From, &r.To)
		s.payload.OKStatus = append(s.payload.OKStatus, r)
	case "header":
		in := json.NewDecoder(strings.NewReader(value))
		var h job.Header
		if strings.HasPrefix(value, `"`) {
			err = in.Decode(&h.Name)
		} else {
			h.Name, value, _ = strings.Cut(value, " ")
			in = json.NewDecoder(strings.NewReader(value))
		}
		if err == nil {
			err = in.Decode(&h.Value)
		}
		s.payload.Headers = append(s.payload.Headers, h)
	default:
		err = fmt.Errorf("%s: unknown word %q", s.name, word)
	}
	return err
}

func TestWhatARequestCarries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		r := &receiver{script: []string{"200", "200"}, start: time.Now()}
		d.launcher.web.dial = r.dial
		launch := d.http(job.HTTPPayload{Method: "PUT", URL: "http://hook.example/a%20b?c=d", Body: "text",
			Headers: []job.Header{{Name: "x-one", Value: "1"}, {Name: "Host", Value: "other.example"}}}, nil)
		equal(t, "status", d.outcome().Status, worker.StatusOK)
		got := r.asked[0]
		equal(t, "line", got.Method+" "+got.RequestURI, "PUT /a%20b?c=d")
		equal(t, "host", got.Host, "other.example")
		equal(t, "body", r.body, "text")
		equal(t, "header", got.Header.Get("X-One"), "1")
		equal(t, "key", got.Header.Get("Idempotency-Key"), launch.RunID)
		equal(t, "agent", got.Header.Get("User-Agent"), "rota/devel")
		equal(t, "encodings", got.Header.Get("Accept-Encoding"), "")

		d.http(job.HTTPPayload{URL: "http://hook.example/", Headers: []job.Header{
			{Name: "idempotency-key", Value: "own"}, {Name: "user-agent", Value: "own"}}}, nil)
		equal(t, "status", d.outcome().Status, worker.StatusOK)
		equal(t, "own key", strings.Join(r.asked[1].Header["Idempotency-Key"], ","), "own")
		equal(t, "own agent", strings.Join(r.asked[1].Header["User-Agent"], ","), "own")
	})
}

func TestAStopOrderEndsARequestWithItsSentence(t *testing.T) {
	for _, word := range []string{"hang", "mute", "trickle"} {
		synctest.Test(t, func(t *testing.T) {
			d := newDesk(t, Options{})
			r := &receiver{script: []string{word}, start: time.Now()}
			d.launcher.web.dial = r.dial
			launch := d.http(job.HTTPPayload{URL: "http://hook.example/"}, nil)
			synctest.Wait()
			d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: launch.ReceiptID, Reason: worker.KindRemoved, Message: "the job was removed"}})
			o := d.outcome()
			equal(t, "kind", o.Kind, worker.KindRemoved)
			equal(t, "error", o.Error, "the job was removed")
			equal(t, "started", o.StartedAtMs != 0, word != "mute")
			equal(t, "output", o.Output != nil, word != "mute")
			equal(t, "took", time.Since(r.start), 0)
			r.lives.Wait()
		})
	}
}

func TestShutdownCutsARequestAfterTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{ShutdownGraceMs: 3_000})
		r := &receiver{script: []string{"hang"}, start: time.Now()}
		d.launcher.web.dial = r.dial
		d.http(job.HTTPPayload{URL: "http://hook.example/"}, nil)
		synctest.Wait()
		d.stop()
		o := d.outcome()
		equal(t, "kind", o.Kind, worker.KindShutdown)
		equal(t, "interrupted", o.Interrupted, "shutdown")
		equal(t, "took", time.Since(r.start), 3*time.Second)
	})
}

// Case 090 on real sockets: the ways to a server on loopback, with a resolver
// to whom every name is this machine.
func TestCase090NothingReachesALoopbackServerUnlessItIsAllowed(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	must(t, err)
	d := newDesk(t, Options{})
	d.launcher.web.dial = dialTCP(loopbackNames())
	allow := func(host string) *worker.NetPolicy { return &worker.NetPolicy{AllowedHosts: []string{host}} }
	for _, c := range []struct {
		host   string
		policy *worker.NetPolicy
		want   string // kind
	}{
		{"127.0.0.1", nil, worker.KindBlocked},
		{"[::ffff:127.0.0.1]", nil, worker.KindBlocked},
		{"[::1]", nil, worker.KindBlocked},
		{"2130706433", nil, worker.KindBlocked},
		{"0x7f000001", nil, worker.KindBlocked},
		{"0177.0.0.1", nil, worker.KindBlocked},
		{"0.0.0.0", nil, worker.KindBlocked},
		{"0.0.0.0", allow("0.0.0.0"), worker.KindBlocked},
		{"rebind.example", nil, worker.KindBlocked},
		{"rebind.example", allow("other.example"), worker.KindBlocked},
		{"rebind.example", allow("127.0.0.1"), worker.KindBlocked},
		{"[::1]", allow("127.0.0.1"), worker.KindBlocked},
		{"127.0.0.1", &worker.NetPolicy{AllowPrivate: true, BlockedHosts: []string{"127.0.0.1"}}, worker.KindBlocked},
		{"rebind.example", &worker.NetPolicy{AllowPrivate: true, BlockedHosts: []string{"127.0.0.1"}}, worker.KindBlocked},
		{"127.0.0.1", allow("127.0.0.1"), worker.KindHTTP},
		{"rebind.example", allow("rebind.example"), worker.KindHTTP},
		{"rebind.example", &worker.NetPolicy{AllowPrivate: true}, worker.KindHTTP},
	} {
		before := asked.Load()
		url := "http://" + c.host + ":" + port + "/"
		d.http(job.HTTPPayload{URL: url}, c.policy)
		o := d.outcome()
		d.order(worker.Order{Deliver: &worker.Deliver{ReceiptID: "delivery", RunID: "run", To: url, Body: json.RawMessage(`{}`), Net: c.policy}})
		end := d.outcome().Delivery
		name := fmt.Sprintf("%s under %+v", url, c.policy)
		equal(t, name, o.Kind, c.want)
		equal(t, name, end.Status, worker.NotDelivered) // the answer is 302, and it is not followed
		if o.Error == "" || end.Error == "" {
			t.Errorf("%s: no reason is given", name)
		}
		if c.want == worker.KindBlocked {
			equal(t, name+": requests", asked.Load()-before, 0)
		} else {
			equal(t, name+": requests", asked.Load()-before, 2)
			equal(t, name+": code", end.HTTPCode, 302)
		}
	}
}

// A name may lead elsewhere at its second look-up: each connection is asked for.
func TestCase090ANameIsJudgedAtEachConnection(t *testing.T) {
	w := newWeb("rota/test", nil, func() int64 { return 0 })
	defer w.end()
	addresses := []string{"93.184.216.34:80", "127.0.0.1:80"}
	w.dial = func(_ context.Context, _, _ string, permit func(string) error) (net.Conn, error) {
		found := addresses[0]
		addresses = addresses[1:]
		if err := permit(found); err != nil {
			return nil, err
		}
		ours, theirs := net.Pipe()
		theirs.Close()
		return ours, nil
	}
	conn, err := w.connect(t.Context(), "tcp", "rebind.example:80", &worker.NetPolicy{})
	must(t, err)
	conn.Close()
	if _, err = w.connect(t.Context(), "tcp", "rebind.example:80", &worker.NetPolicy{}); err == nil || !strings.Contains(err.Error(), "127.0.0.1 is a loopback address") {
		t.Errorf("the second connection: %v", err)
	}
}

func TestProxiesOfTheEnvironmentAreNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	w := newWeb("rota/test", nil, func() int64 { return 0 })
	defer w.end()
	if c := w.under(nil); c.fresh.Proxy != nil || c.pooled.Proxy != nil {
		t.Error("a proxy is used")
	}
}

func TestOverTLSWithHTTP2AndOnlyWithAGoodCertificate(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	server.StartTLS()
	defer server.Close()
	d := newDesk(t, Options{})
	policy := &worker.NetPolicy{AllowedHosts: []string{"127.0.0.1"}}
	d.http(job.HTTPPayload{URL: server.URL}, policy)
	o := d.outcome()
	equal(t, "kind", o.Kind, worker.KindNetwork)
	equal(t, "reason", o.ErrorReason, "tls_certificate")
	if !strings.Contains(o.Error, "its certificate is not accepted: ") || o.StartedAtMs != 0 {
		t.Errorf("%+v", o)
	}
	d.order(worker.Order{Deliver: &worker.Deliver{ReceiptID: "r", RunID: "run", To: server.URL, Body: json.RawMessage(`{}`), Net: policy}})
	equal(t, "delivery", d.outcome().Delivery.Status, worker.NotDelivered) // at once: it would not be better in a minute

	trusting := newDesk(t, Options{})
	trusting.launcher.web.roots = x509.NewCertPool()
	trusting.launcher.web.roots.AddCert(server.Certificate())
	trusting.http(job.HTTPPayload{URL: server.URL}, policy)
	o = trusting.outcome()
	equal(t, "status", o.Status, worker.StatusOK)
	equal(t, "protocol", o.Summary, "HTTP/2.0")
	equal(t, "started", o.StartedAtMs != 0, true)
	trusting.order(worker.Order{Deliver: &worker.Deliver{ReceiptID: "r", RunID: "run", To: server.URL, Body: json.RawMessage(`{}`), Net: policy}})
	equal(t, "delivery", trusting.outcome().Delivery.Status, worker.Delivered)

	d.http(job.HTTPPayload{URL: "https" + strings.TrimPrefix(plainServer(t), "http")}, policy)
	o = d.outcome()
	equal(t, "kind", o.Kind, worker.KindNetwork)
	if !strings.Contains(o.Error, "it does not speak https on that port") {
		t.Error(o.Error)
	}
}

func plainServer(t *testing.T) string {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	return server.URL
}

// Deliveries to one receiver share connections, runs do not; a new policy of
// the same content keeps them, and many policies do not pile up.
func TestDeliveriesReuseConnections(t *testing.T) {
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	d := newDesk(t, Options{})
	policy := func() *worker.NetPolicy { return &worker.NetPolicy{AllowedHosts: []string{"127.0.0.1"}} }
	for range 10 {
		d.order(worker.Order{Deliver: &worker.Deliver{ReceiptID: "r", RunID: "run", To: server.URL, Body: json.RawMessage(`{}`), Net: policy()}})
		equal(t, "status", d.outcome().Delivery.Status, worker.Delivered)
	}
	equal(t, "connections of deliveries", opened.Load(), 1)
	for range 10 {
		d.http(job.HTTPPayload{URL: server.URL}, policy())
		equal(t, "status", d.outcome().Status, worker.StatusOK)
	}
	equal(t, "connections of all", opened.Load(), 11)
	for i := range 3 * maxPolicies {
		d.launcher.web.under(&worker.NetPolicy{AllowedHosts: []string{strconv.Itoa(i)}})
	}
	if n := len(d.launcher.web.clients); n > maxPolicies {
		t.Errorf("%d policies are kept", n)
	}
}

func TestTheEchoListenerAnswersWhatItWasAsked(t *testing.T) {
	echo, err := NewEcho()
	must(t, err)
	d := newDesk(t, Options{Echo: echo})
	for _, url := range []string{"${ROTA_ECHO}/a/b?c=d", "http://${ROTA_ECHO}/a/b?c=d"} {
		launch := d.http(job.HTTPPayload{Method: "POST", URL: url, Headers: []job.Header{{Name: "X-One", Value: "1"}}, Body: "<text>"}, nil)
		o := d.outcome()
		equal(t, "error", o.Error, "")
		var got echoed
		must(t, json.Unmarshal([]byte(o.Summary), &got))
		equal(t, "method", got.Method, "POST")
		equal(t, "path", got.Path, "/a/b?c=d")
		equal(t, "body", got.Body, "<text>")
		equal(t, "header", got.Headers["X-One"], "1")
		equal(t, "key", got.Headers["Idempotency-Key"], launch.RunID)
	}
	d.http(job.HTTPPayload{Method: "POST", URL: "${ROTA_ECHO}", Body: strings.Repeat("x", maxEchoBytes+1)}, nil)
	equal(t, "too long", d.outcome().Kind, worker.KindHTTP)
	// Its own address is open, another port beside it is not, and the
	// configuration may block it.
	d.http(job.HTTPPayload{URL: plainServer(t)}, nil)
	equal(t, "another port", d.outcome().Kind, worker.KindBlocked)
	d.http(job.HTTPPayload{URL: "${ROTA_ECHO}/"}, &worker.NetPolicy{BlockedHosts: []string{"127.0.0.1"}})
	equal(t, "blocked", d.outcome().Kind, worker.KindBlocked)
	// What stands elsewhere in a URL is text.
	d.http(job.HTTPPayload{URL: "http://10.0.0.1/?to=${ROTA_ECHO}"}, nil)
	equal(t, "elsewhere", d.outcome().Kind, worker.KindBlocked)
	must(t, echo.Close()) // the launcher closes it too
}
