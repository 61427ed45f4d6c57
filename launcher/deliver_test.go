//go:build unix

package launcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// deliveryScript is one block of deliveries.txt.
type deliveryScript struct {
	name             string
	receiver         []string
	answered         int
	cancelAt, stopAt int // seconds; 0 = not
	want             [][2]string
}

func TestHowDeliveriesEnd(t *testing.T) {
	playAll(t, func(name string) bool { return !strings.HasPrefix(name, "Case") })
}

// The numbered faults of deliveries are blocks of the same document.
func TestCase056DeliveredOnlyForAWholeAnswerOf2xx(t *testing.T) { playCase(t, "Case056") }
func TestCase060ADeliveryGoesOnWhereItWas(t *testing.T)         { playCase(t, "Case060") }
func TestCase120TheFirstRetryWaitsTheFirstDelay(t *testing.T)   { playCase(t, "Case120") }
func TestCase132AStopDoesNotWaitForAReceiver(t *testing.T)      { playCase(t, "Case132") }

func playCase(t *testing.T, number string) {
	playAll(t, func(name string) bool { return strings.HasPrefix(name, number+":") })
}

func playAll(t *testing.T, which func(name string) bool) {
	played := 0
	for _, s := range readDeliveries(t) {
		if which(s.name) {
			played++
			t.Run(s.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { playDelivery(t, s) })
			})
		}
	}
	if played == 0 {
		t.Error("deliveries.txt has no such block")
	}
}

func playDelivery(t *testing.T, s deliveryScript) {
	d := newDesk(t, Options{ShutdownGraceMs: 2_000})
	d.patience = time.Hour // of the bubble's time
	r := &receiver{script: s.receiver, start: time.Now(), ends: t.Context()}
	d.launcher.web.dial = r.dial
	order := d.deliver("http://hook.example/path?key=canary", s.answered)
	if s.cancelAt > 0 {
		d.after(s.cancelAt, func() {
			d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: order.ReceiptID, Reason: worker.KindStopped, Message: "stopped by an operator"}})
		})
	}
	if s.stopAt > 0 {
		d.after(s.stopAt, d.stop)
	}
	o := d.outcome()
	ended := time.Since(r.start).Round(time.Second).Seconds()
	equal(t, "receipt", o.ReceiptID, order.ReceiptID)
	if o.Delivery == nil {
		t.Fatalf("no delivery in %+v", o)
	}
	for _, w := range s.want {
		got := ""
		switch w[0] {
		case "attempts":
			got = r.attempts()
		case "answered":
			got = strconv.Itoa(o.Delivery.Answered)
		case "code":
			got = strconv.Itoa(o.Delivery.HTTPCode)
		case "error":
			got = o.Delivery.Error
		case "ended":
			got = fmt.Sprint(ended)
		case "sends":
			got = strconv.Itoa(sendsIn(t, d.logPath, order.ReceiptID))
		case "stopped":
			equal(t, "stopped", o.Delivery.Stopped, true)
		default:
			equal(t, "stopped", o.Delivery.Stopped, false)
			equal(t, "status", string(o.Delivery.Status), w[0])
		}
		equal(t, w[0], got, w[1])
	}
	equal(t, "error of a delivery", o.Delivery.Error == "", o.Delivery.Stopped || o.Delivery.Status == worker.Delivered)
	if all, err := json.Marshal(o); err != nil || bytes.Contains(all, []byte("canary")) {
		t.Errorf("the query is shown: %s, %v", all, err)
	}
	r.lives.Wait()
}

func sendsIn(t *testing.T, path, receipt string) int {
	t.Helper()
	logged, err := ReadLog(path, "boot-1")
	must(t, err)
	for _, l := range logged {
		if l.ReceiptID == receipt {
			return l.Sends
		}
	}
	return 0
}

// finishedEvent is longer than what is written at once.
var finishedEvent = `{"action":"finished","summary":"` + strings.Repeat("x", 10_000) + `"}`

// deliver orders a delivery.
func (d *desk) deliver(to string, answered int) *worker.Deliver {
	d.launches++
	order := &worker.Deliver{
		ReceiptID: fmt.Sprintf("receipt-%d", d.launches), RunID: fmt.Sprintf("run-%d", d.launches), JobID: "job-1",
		To: to, Body: json.RawMessage(finishedEvent), Token: "canary-token", Answered: answered,
	}
	d.order(worker.Order{Deliver: order})
	return order
}

// after does something so many seconds later.
func (d *desk) after(seconds int, do func()) {
	timer := time.AfterFunc(time.Duration(seconds)*time.Second, do)
	d.t.Cleanup(func() { timer.Stop() })
}

func readDeliveries(t *testing.T) (all []deliveryScript) {
	t.Helper()
	raw, err := os.ReadFile("../testdata/launcher/deliveries.txt")
	must(t, err)
	for block := range strings.SplitSeq(strings.TrimSpace(string(raw)), "\n\n") {
		if strings.HasPrefix(block, "#") {
			continue
		}
		lines := strings.Split(block, "\n")
		s, expecting := deliveryScript{name: lines[0]}, false
		for _, line := range lines[1:] {
			word, value, _ := strings.Cut(line, " ")
			var err error
			switch {
			case line == "=>":
				expecting = true
			case expecting:
				s.want = append(s.want, [2]string{word, value})
			case word == "receiver":
				s.receiver = strings.Fields(value)
			case word == "answered":
				s.answered, err = strconv.Atoi(value)
			case word == "cancel":
				s.cancelAt, err = strconv.Atoi(value)
			case word == "stop":
				s.stopAt, err = strconv.Atoi(value)
			default:
				err = fmt.Errorf("unknown word %q", word)
			}
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		all = append(all, s)
	}
	if len(all) < 20 {
		t.Fatalf("only %d deliveries were read", len(all))
	}
	return all
}

// What a receiver gets, at every attempt the same.
func TestCase089TheTokenIsInItsHeaderAndNowhereElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		d := newDesk(t, Options{Version: "1.2.3", Log: slog.New(slog.NewJSONHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		d.patience = time.Hour
		r := &receiver{script: []string{"500", "close", "private"}, start: time.Now()}
		d.launcher.web.dial = r.dial
		order := d.deliver("http://hook.example/path?key=canary", 0)
		o := d.outcome()
		for _, req := range r.asked {
			equal(t, "method", req.Method, "POST")
			equal(t, "uri", req.URL.RequestURI(), "/path?key=canary")
			equal(t, "host", req.Host, "hook.example")
			equal(t, "authorization", req.Header.Get("Authorization"), "Bearer canary-token")
			equal(t, "key", req.Header.Get("Idempotency-Key"), order.RunID)
			equal(t, "type", req.Header.Get("Content-Type"), "application/json")
			equal(t, "agent", req.Header.Get("User-Agent"), "rota/1.2.3")
			equal(t, "body", r.body, finishedEvent)
		}
		equal(t, "requests", len(r.asked), 2)
		lines, err := os.ReadFile(d.logPath)
		must(t, err)
		all, err := json.Marshal(o)
		must(t, err)
		for _, text := range []string{string(lines), string(all), fmt.Sprintf("%+v", *o.Delivery), said.String()} {
			if strings.Contains(text, "canary") {
				t.Errorf("a secret is shown: %s", text)
			}
		}

		plain := &worker.Deliver{ReceiptID: "plain", RunID: "run", To: "http://other.example/", Body: json.RawMessage(`{}`)}
		r.script = append(r.script, "200")
		d.order(worker.Order{Deliver: plain})
		equal(t, "without a token", d.outcome().Delivery.Status, worker.Delivered)
		if _, sent := r.asked[2].Header["Authorization"]; sent {
			t.Error("a token was sent to a destination that gets none")
		}
	})
}

func TestCase089DestinationsAndTokensThatAreRefused(t *testing.T) {
	d := newDesk(t, Options{})
	for _, c := range []struct{ to, token, want string }{
		{"http://user:canary@hook.example/", "", "webhook: the URL carries a user name or password"},
		{"http://hook.example/\r\nX: canary", "", "webhook: the URL is none"},
		{"file:///canary", "", "webhook: the URL is neither http nor https"},
		{"http://hook.example/", "canary\r\nX: y", "webhook: the value of the header Authorization has a line break or control character"},
	} {
		d.order(worker.Order{Deliver: &worker.Deliver{ReceiptID: "r", RunID: "run", To: c.to, Token: worker.Secret(c.token), Body: json.RawMessage(`{}`)}})
		end := d.outcome().Delivery
		equal(t, c.to, end.Status, worker.NotDelivered)
		equal(t, c.to, end.Error, c.want)
		equal(t, "sends", sendsIn(t, d.logPath, "r"), 0)
	}
}

// Case 057: the run had ended before; its delivery says nothing of the run.
func TestCase057AFailedDeliveryIsNotAFailedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		d.patience = time.Hour
		d.launcher.web.dial = (&receiver{start: time.Now()}).dial
		d.deliver("http://hook.example/", 0)
		o := d.outcome()
		o.Delivery = nil
		if got := fmt.Sprintf("%+v", o); got != fmt.Sprintf("%+v", worker.Outcome{ReceiptID: "receipt-1"}) {
			t.Errorf("the outcome says of the run: %s", got)
		}
	})
}

func TestADeliveryThatComesTooLateIsLeftToTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{ShutdownGraceMs: 1_000})
		d.patience = time.Hour
		r := &receiver{start: time.Now(), script: []string{"hang", "200"}}
		d.launcher.web.dial = r.dial
		d.deliver("http://hook.example/", 0)
		synctest.Wait()
		d.stop()
		synctest.Wait()
		late := &worker.Deliver{ReceiptID: "late", RunID: "run", To: "http://hook.example/", Body: json.RawMessage(`{}`), Answered: 1}
		d.mu.Lock()
		d.orders = append(d.orders, worker.Order{Deliver: late}) // committed, and taken at the very end
		d.mu.Unlock()
		first, second := d.outcome(), d.outcome()
		equal(t, "in flight", first.Delivery.Status, worker.DeliveryUnknown)
		equal(t, "late", second.ReceiptID, "late")
		equal(t, "late stopped", second.Delivery.Stopped, true)
		equal(t, "late answered", second.Delivery.Answered, 1)
		equal(t, "attempts", r.attempts(), "0")
	})
}

// A run that ended as the stop came may have said that all is idle, just when
// its delivery was ordered.
func TestTheGraceHoldsForADeliveryThatCameWithTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{ShutdownGraceMs: 2_000})
		r := &receiver{start: time.Now(), script: []string{"500", "200"}}
		d.launcher.web.dial = r.dial
		d.deliver("http://hook.example/", 0)
		synctest.Wait()
		d.stop()
		synctest.Wait()
		d.launcher.idle <- struct{}{}
		end := d.outcome().Delivery
		equal(t, "stopped", end.Stopped, true)
		equal(t, "took", time.Since(r.start), 2*time.Second)
	})
}

// The worker may order the delivery of a run while the run's end is still being
// reported. What the launcher knows of it then is the delivery alone.
func TestADeliveryOrderedAtOnceCanBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{Executors: map[string]Executor{"noop": Noop{}}})
		d.patience = time.Hour
		r := &receiver{start: time.Now(), script: []string{"hang"}}
		d.launcher.web.dial = r.dial
		d.answer = func(o worker.Outcome) {
			if o.Delivery == nil {
				d.order(worker.Order{Deliver: &worker.Deliver{ReceiptID: o.ReceiptID, RunID: "run", To: "http://hook.example/", Body: json.RawMessage(`{}`)}})
				synctest.Wait() // until it is under way
			}
		}
		d.order(worker.Order{Launch: &worker.Launch{ReceiptID: "a", Payload: job.Payload{Kind: "noop"}}})
		equal(t, "the run", d.outcome().Delivery == nil, true)
		d.order(worker.Order{Cancel: &worker.Cancel{ReceiptID: "a", Reason: worker.KindStopped, Message: "stopped by an operator"}})
		equal(t, "the delivery", d.outcome().Delivery.Status, worker.DeliveryUnknown)
		equal(t, "attempts", r.attempts(), "0")
		equal(t, "took", time.Since(r.start), 0)
	})
}

// A launch forgets what an earlier daemon left, but not what is still to be
// delivered, in whatever order the two come.
func TestALaunchDoesNotForgetWhatIsToBeDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := t.TempDir() + "/launch.log"
		earlier := logAt(t, path)
		must(t, earlier.announce("a"))
		must(t, earlier.announceSend("a", 1))
		must(t, earlier.announce("b"))
		d := newDesk(t, Options{LogPath: path, Executors: map[string]Executor{"noop": Noop{}}})
		d.launcher.web.dial = (&receiver{start: time.Now(), script: []string{"204"}}).dial
		d.order(worker.Order{Launch: &worker.Launch{ReceiptID: "c", Payload: job.Payload{Kind: "noop"}}},
			worker.Order{Deliver: &worker.Deliver{ReceiptID: "a", RunID: "run", To: "http://hook.example/", Body: json.RawMessage(`{}`), Answered: 1}})
		equal(t, "the launch", d.outcome().ReceiptID, "c")
		d.launcher.log.mu.Lock()
		kept, forgotten := len(d.launcher.log.open["a"]), len(d.launcher.log.open["b"])
		d.launcher.log.mu.Unlock()
		if kept == 0 || forgotten != 0 {
			t.Errorf("%d bytes of the delivery are kept, %d of what is over", kept, forgotten)
		}
		equal(t, "the delivery", d.outcome().Delivery.Status, worker.Delivered)
	})
}

func TestTheSameDeliveryIsNotMadeTwiceAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, Options{})
		d.patience = time.Hour
		r := &receiver{start: time.Now(), script: []string{"500", "200"}}
		d.launcher.web.dial = r.dial
		order := d.deliver("http://hook.example/", 0)
		d.order(worker.Order{Deliver: order})
		equal(t, "status", d.outcome().Delivery.Status, worker.Delivered)
		equal(t, "attempts", r.attempts(), "0 5")
		equal(t, "further outcomes", len(d.outcomes), 0)
	})
}

// An attempt that the launch log does not know is not made.
func TestWithoutALineInTheLaunchLogNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skipf("this system has no /dev/full to play the full disk: %v", err)
		}
		d := newDesk(t, Options{})
		d.patience = time.Hour
		d.launcher.log.mu.Lock()
		d.launcher.log.file.Close()
		d.launcher.log.file = full
		d.launcher.log.mu.Unlock()
		r := &receiver{start: time.Now(), script: []string{"200"}}
		d.launcher.web.dial = r.dial
		d.deliver("http://hook.example/", 0)
		end := d.outcome().Delivery
		equal(t, "status", end.Status, worker.NotDelivered)
		if !strings.Contains(end.Error, "launch log") || !strings.Contains(end.Error, "no space left") {
			t.Errorf("error: %s", end.Error)
		}
		equal(t, "attempts", r.attempts(), "")
	})
}

func TestRetryAfterIsReadAsSecondsOrDate(t *testing.T) {
	const nowMs = 1_795_964_600_000
	for value, want := range map[string]int64{"": 0, "7": 7_000, "-1": 0, "soon": 0, "99999999999999": 0,
		time.UnixMilli(nowMs + 9_000).UTC().Format(time.RFC1123): 0, // no zone name that HTTP knows
		"Sat, 01 Jan 2000 00:00:00 GMT":                          0} {
		equal(t, value, retryAfter(value, nowMs), want)
	}
	later := time.UnixMilli(nowMs + 9_000).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	equal(t, later, retryAfter(later, nowMs), 9_000)
}

func TestAttemptsAreNumberedOverDaemonsAndKeptUntilSettled(t *testing.T) {
	path := t.TempDir() + "/launch.log"
	g := logAt(t, path)
	must(t, g.announce("a"))
	must(t, g.announceSend("a", 1))
	must(t, g.announceSend("a", 2))
	must(t, g.announce("b"))
	equal(t, "sends", sendsIn(t, path, "a"), 2)
	equal(t, "sends of another", sendsIn(t, path, "b"), 0)

	next, err := openLaunchLog(path, "boot-2")
	must(t, err)
	next.inherit("a")
	must(t, next.announce("c")) // from here on b is forgotten; a is being delivered
	must(t, next.announceSend("a", 3))
	for i := range 4000 {
		id := fmt.Sprintf("run-%d-%s", i, strings.Repeat("x", 100))
		must(t, next.announce(id))
		must(t, next.announceSend(id, 1))
		must(t, next.settle(id))
	}
	if next.size > trimAboveBytes {
		t.Fatal("it was not trimmed")
	}
	equal(t, "sends after a trim", sendsIn(t, path, "a"), 3)
	logged, err := ReadLog(path, "boot-2")
	must(t, err)
	if len(logged) > 1000 {
		t.Errorf("%d runs are left", len(logged))
	}
	for _, l := range logged {
		equal(t, "boot of "+l.ReceiptID, l.BootID, "boot-2")
		if l.ReceiptID == "b" {
			t.Error("b is still there")
		}
	}
	must(t, next.settle("a"))
	must(t, next.close())
}
