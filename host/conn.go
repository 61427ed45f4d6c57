package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection, whatever link carries it: a reader, a writer, and a
// goroutine for each request in flight. The reader stops reading while 32
// requests are in flight; the writer gives each frame its deadline, and a client
// that lets it pass is closed. Replies may leave in another order than their
// requests came.
type conn struct {
	h    *Host
	link link
	may  grant
	// out is what waits to be written. Senders wait for room, each in its own
	// goroutine, never the worker.
	out      chan outgoing
	inFlight chan struct{}
	// unsent are bytes that wait to be written; room signals that some were.
	unsent atomic.Int64
	room   chan struct{} // buffered by one
	// dropped are events that were not queued; the numbering shows them as a gap.
	dropped atomic.Int64
	// deaf is set when the connection no longer hears what is told to all.
	deaf atomic.Bool
	// bye is what the reader leaves behind as the reason for the end.
	bye closing
	// gone ends every wait of this connection.
	gone  context.Context
	leave context.CancelFunc
	// asking ends earlier, when the other end has no more to say.
	asking context.Context
	silent context.CancelFunc
	feeds  sync.WaitGroup
	feed   context.CancelFunc // of the one subscription; nil before there is one
	handle sync.WaitGroup
}

// grant is what the other end may do. The socket grants everything: the
// operating system says that it is the owner of the daemon.
type grant struct {
	scopes []string
	// local says that it is on this machine, as the user of the daemon.
	local bool
	// limits and client are for calls that are limited; nil = none are.
	limits *limiter
	client string
	// maxUnsent closes a connection that lets more than so many bytes wait; 0 =
	// its requests wait instead.
	maxUnsent int64
	// framed says that a message that is no request spoils no other.
	framed bool
}

// outgoing is one frame. An event lacks its number and its end, which the
// writer adds.
type outgoing struct {
	bytes []byte
	event bool
}

func newConn(h *Host, l link, may grant, queue int) *conn {
	c := &conn{h: h, link: l, may: may, out: make(chan outgoing, queue), inFlight: make(chan struct{}, maxInFlight),
		room: make(chan struct{}, 1), bye: closing{code: closeNormal}}
	c.gone, c.leave = context.WithCancel(context.Background())
	c.asking, c.silent = context.WithCancel(c.gone)
	return c
}

// serve answers requests until the client ends its side, the connection
// breaks, or ctx ends; then it lets pending replies out. silenced is called when
// nothing more may be queued.
func (c *conn) serve(ctx context.Context, silenced func()) {
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	defer c.leave()
	written := make(chan struct{})
	go func() { defer close(written); c.write() }()

	c.read(ctx)

	c.silent()
	if c.feed != nil {
		c.feed()
	}
	c.feeds.Wait()
	c.handle.Wait()
	silenced()
	close(c.out)
	<-written
	c.link.close(c.bye)
}

// finish stops reading; what is pending is still answered.
func (c *conn) finish() { c.link.finish() }

// close ends the connection now.
func (c *conn) close() {
	c.leave()
	c.link.abort()
}

// refuse answers a connection that cannot be served. It runs in the accepting
// goroutine, so it waits for nobody: the frame fits an empty socket buffer.
func (c *conn) refuse(err *WireError) {
	defer c.close()
	if frame, encErr := encodeFrame(response{Type: "res", ID: connErrorID, Error: err}); encErr == nil {
		_ = c.link.write(frame, time.Now().Add(100*time.Millisecond))
	}
}

// write sends what is queued. After a failure it only drains, so that no
// sender is left waiting.
func (c *conn) write() {
	var event []byte
	var seq int64
	for o := range c.out {
		c.unsent.Add(-int64(len(o.bytes)))
		select {
		case c.room <- struct{}{}:
		default:
		}
		if c.gone.Err() != nil {
			continue
		}
		frame := o.bytes
		if o.event {
			seq += 1 + c.dropped.Swap(0)
			event = append(append(event[:0], o.bytes...), `,"seq":`...)
			event = append(strconv.AppendInt(event, seq, 10), "}\n"...)
			frame = event
		}
		if err := c.link.write(frame, time.Now().Add(c.h.writeTimeout)); err != nil {
			c.close()
		}
	}
}

// send queues a response; false means that the connection is gone.
func (c *conn) send(res response) bool {
	line, err := encodeResponse(res)
	if err != nil {
		c.h.opts.Log.Error("frame cannot be encoded", "err", err)
		line, err = encodeFrame(response{Type: "res", ID: res.ID, Error: &WireError{Code: CodeUnavailable, Message: "Error: the answer cannot be encoded"}})
		if err != nil {
			return false
		}
	}
	if c.may.framed && len(line) > maxPayload { // its client would close the connection
		return c.send(response{Type: "res", ID: res.ID, Error: &WireError{Code: CodeUnavailable,
			Message: fmt.Sprintf("Error: the answer has %d bytes, and %d is the most: ask for fewer with limit", len(line), maxPayload)}})
	}
	if most := c.may.maxUnsent; most > 0 && c.unsent.Load()+int64(len(line)) > most {
		c.h.opts.Log.Warn("a client does not read its answers and is closed", "client", c.may.client)
		c.close()
		return false
	}
	return c.queue(outgoing{bytes: line})
}

// queue waits for room.
func (c *conn) queue(o outgoing) bool {
	c.unsent.Add(int64(len(o.bytes)))
	select {
	case c.out <- o:
		return true
	case <-c.gone.Done():
		return false
	}
}

// offer queues an event that a slow client can do without, and never waits.
func (c *conn) offer(event []byte) {
	if c.unsent.Load()+int64(len(event)) > maxUnsentBytes {
		c.dropped.Add(1)
		return
	}
	c.unsent.Add(int64(len(event)))
	select {
	case c.out <- outgoing{bytes: event, event: true}:
	default:
		c.unsent.Add(-int64(len(event)))
		c.dropped.Add(1)
	}
}

// hasRoom waits until the client has taken enough of what it asked for; false
// when the connection is gone first. The reader and the feed may both wait: who
// is woken passes it on.
func (c *conn) hasRoom() bool {
	for c.unsent.Load() > maxUnsentBytes {
		select {
		case <-c.room:
		case <-c.gone.Done():
			return false
		}
	}
	select {
	case c.room <- struct{}{}:
	default:
	}
	return true
}

func (c *conn) sendError(id string, err *WireError) {
	c.send(response{Type: "res", ID: id, Error: err})
}

// read takes requests until there are no more.
func (c *conn) read(ctx context.Context) {
	for {
		frame, err := c.link.next()
		switch {
		case errors.Is(err, errFrameTooLong) && c.may.framed:
			c.bye = closing{closeTooBig, "payload too large"}
			return
		case errors.Is(err, errFrameTooLong):
			c.sendError(connErrorID, frameFault(fmt.Sprintf("a line may have at most %d bytes", maxRequestBytes)))
			return
		case errors.Is(err, errNotText):
			c.bye = closing{closeNotText, "text frames only"}
			return
		case errors.Is(err, errFinished):
			c.bye = closing{closeRestart, "service restart"}
			return
		}
		if len(frame) > 0 && !c.take(ctx, frame) {
			return
		}
		if err != nil {
			return
		}
	}
}

// take starts one request; false ends the connection.
func (c *conn) take(ctx context.Context, frame []byte) bool {
	req, err := readRequest(frame)
	var fault *WireError
	switch {
	case errors.As(err, &fault):
		id := req.ID
		if id == "" {
			id = connErrorID
		}
		c.sendError(id, fault)
		return id != connErrorID || c.may.framed
	case err != nil:
		c.sendError(connErrorID, frameFault(err.Error()))
		return c.may.framed
	}
	if !c.hasRoom() {
		return false
	}
	select {
	case c.inFlight <- struct{}{}:
	case <-c.gone.Done():
		return false
	}
	if werr := c.barred(req.Method); werr != nil {
		c.sendError(req.ID, werr)
		<-c.inFlight
		return true
	}
	if req.Method == subscribeMethod {
		c.subscribe(ctx, req)
		<-c.inFlight
		return true
	}
	if c.h.methods[req.Method].Local {
		ctx = c.asking
	}
	c.handle.Add(1)
	go func() {
		defer c.handle.Done()
		defer func() { <-c.inFlight }()
		payload, werr := c.h.Handle(ctx, req.Method, req.Params)
		if werr != nil {
			c.sendError(req.ID, werr)
			return
		}
		c.send(response{Type: "res", ID: req.ID, OK: true, Payload: payload})
	}()
	return true
}

// barred refuses a method that the other end may not call, or not now. One
// that does not exist is left to the table.
func (c *conn) barred(name string) *WireError {
	scope := ScopeOf(name)
	if scope == "" {
		return nil
	}
	if !covers(c.may.scopes, scope) {
		return &WireError{Code: CodeForbidden, Message: "missing scope: " + scope, Details: missingScope(scope)}
	}
	if c.h.methods[name].Local && !c.may.local {
		return &WireError{Code: CodeForbidden, Message: name + " is offered on the socket alone: it acts on the machine of the daemon",
			Details: object("reason", "local_only", "hint", "run it there, as the user of the daemon, without --url")}
	}
	if c.may.limits == nil || !c.h.methods[name].Write {
		return nil
	}
	if wait := c.may.limits.take(name+" "+c.may.client, time.Now()); wait > 0 {
		return rateLimited(name, c.may.limits.most(), wait)
	}
	return nil
}

// covers reports whether scopes allow what needs one of them.
func covers(scopes []string, need string) bool {
	return slices.Contains(scopes, need) || slices.Contains(scopes, ScopeAdmin) ||
		need == ScopeRead && slices.Contains(scopes, ScopeWrite)
}
