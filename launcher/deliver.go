package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/failpoint"
	"github.com/rota-scheduler/rota/worker/job"
)

// Bounds of a delivery. Times are milliseconds.
const (
	attemptMs       = 10_000
	maxAttempts     = 4
	maxRetryAfterMs = 60_000
)

// retryDelaysMs follow the first, second and third attempt.
var retryDelaysMs = [maxAttempts - 1]int64{5_000, 10_000, 20_000}

// deliver starts the goroutine of one delivery. When the launcher waits no
// longer, it answers that nothing was sent.
func (l *Launcher) deliver(order *worker.Deliver, runs *sync.WaitGroup) {
	ctx, cancel := context.WithCancelCause(context.Background())
	l.mu.Lock()
	known, closed := l.sending[order.ReceiptID] != nil, l.closed
	if !known && !closed {
		l.sending[order.ReceiptID] = cancel
	}
	l.mu.Unlock()
	switch {
	case known:
		l.opt.Log.Error("a delivery was ordered twice; the second order is ignored", "receipt", order.ReceiptID)
		cancel(nil)
		return
	case closed:
		cancel(nil)
		l.reportDelivery(order, worker.DeliveryEnd{Stopped: true, Answered: order.Answered})
		return
	}
	runs.Go(func() {
		end := l.send(ctx, order)
		cancel(nil)
		l.forget(order.ReceiptID)
		l.reportDelivery(order, end)
	})
}

func (l *Launcher) reportDelivery(order *worker.Deliver, end worker.DeliveryEnd) {
	end.EndedAtMs = l.opt.Now()
	l.opt.Port.Report(worker.Outcome{ReceiptID: order.ReceiptID, Delivery: &end})
}

// send makes attempts until one of them, or ctx, decides.
func (l *Launcher) send(ctx context.Context, order *worker.Deliver) worker.DeliveryEnd {
	r, err := deliveryRequest(order, l.web.agent)
	if err != nil {
		return worker.DeliveryEnd{Status: worker.NotDelivered, Answered: order.Answered, Error: "webhook: " + messageOf(err)}
	}
	d := deliveryState{target: r.target(), over: order.Answered}
	if d.over >= maxAttempts { // an earlier daemon made them all
		return d.end(worker.NotDelivered, "was not delivered, and no attempt is left", d.over)
	}
	waitMs := int64(0)
	if d.over > 0 { // when the last one ended is not known here: the wait begins anew
		waitMs = retryDelaysMs[d.over-1]
	}
	for {
		if stop := pause(ctx, waitMs); stop != nil {
			return d.stoppedBetween(stop)
		}
		var end *worker.DeliveryEnd
		if waitMs, end = d.next(l.attempt(ctx, order, r, d.over+1)); end != nil {
			return *end
		}
	}
}

// deliveryRequest is the request of every attempt.
func deliveryRequest(order *worker.Deliver, agent string) (*request, error) {
	headers := []job.Header{{Name: "Content-Type", Value: "application/json"},
		{Name: "Idempotency-Key", Value: order.RunID}, {Name: "User-Agent", Value: agent}}
	if order.Token != "" {
		headers = append(headers, job.Header{Name: "Authorization", Value: "Bearer " + string(order.Token)})
	}
	return newRequest(http.MethodPost, order.To, headers, string(order.Body))
}

// attempt announces one attempt and makes it.
func (l *Launcher) attempt(ctx context.Context, order *worker.Deliver, r *request, number int) (a attempt) {
	if err := l.log.announceSend(order.ReceiptID, number); err != nil {
		return attempt{unannounced: err}
	}
	failpoint.Hit("send-logged")
	ctx, cancel := within(ctx, attemptMs)
	defer cancel()
	a.exchange = l.web.exchange(ctx, l.web.under(order.Net).pooled, r, readReceipt)
	if a.err != nil && ctx.Err() != nil {
		if a.timedOut = timedOut(ctx); !a.timedOut {
			a.stop = stopOf(ctx)
		}
	}
	failpoint.Hit("send-ended")
	return a
}

// readReceipt leaves the body of an answer alone: its status says whether the
// receiver has the result, and nothing that follows can take that back. Where a
// body is under way the connection is not used again.
func readReceipt(io.Reader) error { return nil }

// pause waits; stop tells that it ended early, and why.
func pause(ctx context.Context, ms int64) (stop *Stop) {
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return stopOf(ctx)
	}
}

// attempt is what became of one attempt.
type attempt struct {
	exchange
	unannounced error // it was not in the launch log, and so it was not made
	stop        *Stop // it was cut short from outside
	timedOut    bool
}

// why completes "POST https://host/path …".
func (a *attempt) why() (text string, permanent bool) {
	var own *Error
	switch {
	case a.unannounced != nil:
		return "was not sent: " + messageOf(a.unannounced), false
	case a.code != 0:
		return "answered " + codeText(a.code), !isTransient(a.code)
	case errors.As(a.err, &own):
		return "is not allowed: " + own.Message, true
	case a.timedOut:
		return "did not answer within " + spanText(attemptMs), false
	}
	text, reason := a.failure()
	return "failed: " + text, reason == "tls_certificate"
}

// isTransient tells answers that may be others a little later.
func isTransient(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return code >= 500 && code <= 599
}

// deliveryState is a delivery between two attempts. Its functions decide and do
// nothing.
type deliveryState struct {
	target  string
	over    int    // attempts that have ended
	code    int    // of the last answer
	unknown string // why the last attempt may have arrived and had no answer; empty if it had one
}

// next takes the end of an attempt: wait so long for the next one, or end.
func (d *deliveryState) next(a attempt) (waitMs int64, end *worker.DeliveryEnd) {
	number := d.over + 1
	if a.code != 0 {
		d.code = a.code
	}
	ended := func(status worker.DeliveryStatus, why string) (int64, *worker.DeliveryEnd) {
		e := d.end(status, why, number)
		return 0, &e
	}
	if a.stop != nil && a.code == 0 {
		if a.sent {
			return ended(worker.DeliveryUnknown, "was cut short and may have arrived: "+a.stop.Message)
		}
		d.over, d.unknown = number, ""
		e := d.stoppedBetween(a.stop)
		return 0, &e
	}
	d.over, d.unknown = number, ""
	if statusIsOK(nil, a.code) {
		return ended(worker.Delivered, "")
	}
	why, permanent := a.why()
	if a.code == 0 && a.sent {
		d.unknown = why
	}
	switch {
	case permanent:
		return ended(worker.NotDelivered, why)
	case d.over < maxAttempts:
		return max(retryDelaysMs[d.over-1], min(a.retryAfterMs, maxRetryAfterMs)), nil
	case d.unknown != "":
		return ended(worker.DeliveryUnknown, why+", and it may have arrived")
	}
	return ended(worker.NotDelivered, why)
}

// stoppedBetween is the end of a delivery that is stopped while nothing is in
// flight.
func (d *deliveryState) stoppedBetween(stop *Stop) worker.DeliveryEnd {
	switch {
	case stop.Kind == worker.KindShutdown && d.over < maxAttempts:
		return worker.DeliveryEnd{Stopped: true, Answered: d.over, HTTPCode: d.code}
	case d.unknown != "":
		return d.end(worker.DeliveryUnknown, d.unknown+", and it may have arrived; then: "+stop.Message, d.over)
	case stop.Kind == worker.KindShutdown:
		return d.end(worker.NotDelivered, "was not sent: "+stop.Message, d.over)
	}
	return worker.DeliveryEnd{Status: worker.NotDelivered, Answered: d.over, HTTPCode: d.code, Error: stop.Message}
}

// end is the end that attempt number decided.
func (d *deliveryState) end(status worker.DeliveryStatus, why string, number int) worker.DeliveryEnd {
	e := worker.DeliveryEnd{Status: status, Answered: d.over, HTTPCode: d.code}
	if status != worker.Delivered {
		e.Error = fmt.Sprintf("webhook: %s %s (attempt %d of %d)", d.target, why, number, maxAttempts)
	}
	return e
}

// messageOf is an own refusal's sentence with its cause, for an end that has
// no place for a hint.
func messageOf(err error) string {
	var own *Error
	if !errors.As(err, &own) {
		return err.Error()
	}
	if own.Err != nil {
		return own.Message + ": " + own.Err.Error()
	}
	return own.Message
}
