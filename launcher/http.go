package launcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// maxResponseBytes is how much of a response is read. What is kept of it is
// bounded like a command's output.
const maxResponseBytes = 16 << 20

// HTTP is the executor of payloads of kind "http": one request, sent once, on a
// connection of its own.
type HTTP struct{}

// Execute sends the request and returns when the answer is there to its end, or
// when there will be none.
func (HTTP) Execute(ctx context.Context, run *Run) worker.Outcome {
	w, payload := run.l.web, run.Launch.Payload.HTTP
	r, err := requestOf(payload, run.Launch.RunID, w)
	if err != nil {
		return notSent("http: ", err)
	}
	if ctx.Err() != nil {
		return cutShort(stopOf(ctx))
	}
	ctx, cancel := within(ctx, payload.TimeoutMs)
	defer cancel()
	e := httpEnding{target: r.target(), ok: payload.OKStatus, timeoutMs: payload.TimeoutMs, output: run.Output}
	e.exchange = w.exchange(ctx, w.under(run.Launch.Net).fresh, r, func(body io.Reader) (err error) {
		e.more, err = run.Output.readFrom(body, maxResponseBytes)
		return err
	})
	if e.writtenAtMs != 0 {
		run.Began(e.writtenAtMs)
	}
	if e.err != nil && ctx.Err() != nil {
		if e.timedOut = timedOut(ctx); !e.timedOut {
			e.stop = stopOf(ctx)
		}
	}
	return e.outcome()
}

// requestOf makes the request of a payload.
func requestOf(p *job.HTTPPayload, runID string, w *web) (*request, error) {
	if p == nil {
		return nil, badRequest("the payload names no request", "give it a URL")
	}
	url := p.URL
	if strings.Contains(url, job.Echo) {
		if w.echo == nil {
			return nil, &Error{Code: "blocked", Op: "request",
				Message: "the URL names " + job.Echo + ", which exists only when a jobs file names it",
				Hint:    "start the daemon with rota serve --jobs FILE, where a job in FILE uses it"}
		}
		url = strings.Replace(url, "http://"+job.Echo, job.Echo, 1) // with or without the scheme
		if strings.HasPrefix(url, job.Echo) {
			url = w.echo.URL() + strings.TrimPrefix(url, job.Echo)
		}
	}
	r, err := newRequest(p.Method, url, p.Headers, p.Body)
	if err != nil {
		return nil, err
	}
	r.setDefault("Idempotency-Key", runID)
	r.setDefault("User-Agent", w.agent)
	return r, nil
}

// notSent is the outcome of a request that was refused before anything of it
// was sent.
func notSent(prefix string, err error) worker.Outcome {
	o := failedToStart(err)
	o.Kind, o.ErrorReason = worker.KindBlocked, "unclassified"
	o.Error = prefix + o.Error
	o.Diagnostics[0].Source = "exec"
	return o
}

// httpEnding is everything the outcome of a request is made from.
type httpEnding struct {
	exchange
	target    string // "POST https://host/path"
	ok        []job.StatusRange
	timeoutMs int64
	stop      *Stop // why it was cut short from outside; nil if it was not
	timedOut  bool
	more      bool // the response goes on behind what is read
	output    *Output
}

// outcome tells how a request ended. It is a function of its argument alone.
func (e *httpEnding) outcome() worker.Outcome {
	var own *Error
	if errors.As(e.err, &own) {
		return notSent("http: "+e.target+" is not allowed: ", own)
	}
	o := worker.Outcome{Status: worker.StatusError, Kind: worker.KindHTTP}
	told := "had no answer"
	answered := e.code != 0 && (e.err == nil || !statusIsOK(e.ok, e.code))
	switch {
	case e.stop != nil:
		o = cutShort(e.stop)
	case e.timedOut:
		o.Kind, o.ErrorReason = worker.KindTimeout, "timeout"
		o.Error = "http: " + e.target + " timed out after " + spanText(e.timeoutMs)
	case answered && statusIsOK(e.ok, e.code):
		o.Status = worker.StatusOK
	case answered:
		o.ErrorReason = statusReason(e.code)
		o.Error = fmt.Sprintf("http: %s answered %s", e.target, codeText(e.code))
	default:
		var why string
		why, o.ErrorReason = e.failure()
		o.Kind = worker.KindNetwork
		o.Error = "http: " + e.target + ": " + why
	}
	if e.code != 0 {
		told = "answered " + codeText(e.code)
	}
	if e.sent {
		counts, text := e.output.result()
		o.Output, o.Summary = &counts, text
	}
	word, severity := "error", "error"
	if o.Status == worker.StatusOK {
		word, severity = "ok", "info"
	}
	if e.more {
		told += fmt.Sprintf("; the response is longer than the %d MiB that are read", maxResponseBytes>>20)
	}
	message, long := bounded("http " + word + ": " + e.target + " " + told)
	o.Diagnostics = []worker.Diagnostic{{Source: "exec", Severity: severity, Message: message,
		Truncated: long || e.more || o.Output != nil && o.Output.DroppedBytes > 0}}
	return o
}

// statusIsOK tells whether an answer counts as a good run.
func statusIsOK(ok []job.StatusRange, code int) bool {
	if len(ok) == 0 {
		return code >= 200 && code <= 299
	}
	for _, r := range ok {
		if r.From <= code && code <= r.To {
			return true
		}
	}
	return false
}

// statusReason is the word of the failure catalogue for an answer that does not
// count as good.
func statusReason(code int) string {
	switch {
	case code == http.StatusTooManyRequests:
		return "rate_limit"
	case code == http.StatusServiceUnavailable || code == 529: // 529 is not registered; several services answer it when overloaded
		return "overloaded"
	case code >= 500 && code <= 599:
		return "server_error"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "auth"
	}
	return "unclassified"
}
