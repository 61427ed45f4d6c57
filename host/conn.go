package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection: a reader, a writer, and a goroutine for each request
// in flight. The reader stops reading while 32 requests are in flight; the
// writer gives each frame its deadline, and a client that lets it pass is
// closed. Replies may leave in another order than their requests came.
type conn struct {
	h  *Host
	nc net.Conn
	// out is what waits to be written. Senders wait for room, each in its own
	// goroutine, never the worker.
	out      chan []byte
	inFlight chan struct{}
	// unsent are bytes that wait to be written; room signals that some were.
	unsent atomic.Int64
	room   chan struct{} // buffered by one
	// gone ends every wait of this connection.
	gone   context.Context
	leave  context.CancelFunc
	feeds  sync.WaitGroup
	feed   context.CancelFunc // of the one subscription; nil before there is one
	handle sync.WaitGroup
}

func newConn(h *Host, nc net.Conn) *conn {
	c := &conn{h: h, nc: nc, out: make(chan []byte, maxQueuedFrames), inFlight: make(chan struct{}, maxInFlight), room: make(chan struct{}, 1)}
	c.gone, c.leave = context.WithCancel(context.Background())
	return c
}

// serve answers requests until the client ends its side, the connection
// breaks, or ctx ends; then it lets pending replies out.
func (c *conn) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	defer c.leave()
	written := make(chan struct{})
	go func() { defer close(written); c.write() }()

	c.read(ctx)

	if c.feed != nil {
		c.feed()
	}
	c.feeds.Wait()
	c.handle.Wait()
	close(c.out)
	<-written
	c.nc.Close()
}

// finish stops reading; what is pending is still answered.
func (c *conn) finish() { _ = c.nc.SetReadDeadline(time.Unix(1, 0)) }

// close ends the connection now.
func (c *conn) close() {
	c.leave()
	c.nc.Close()
}

// refuse answers a connection that cannot be served. It runs in the accepting
// goroutine, so it waits for nobody: the frame fits an empty socket buffer.
func (c *conn) refuse(err *WireError) {
	defer c.close()
	if frame, encErr := encodeFrame(response{Type: "res", ID: connErrorID, Error: err}); encErr == nil {
		_ = c.nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.nc.Write(frame)
	}
}

// write sends what is queued. After a failure it only drains, so that no
// sender is left waiting.
func (c *conn) write() {
	for frame := range c.out {
		c.unsent.Add(-int64(len(frame)))
		select {
		case c.room <- struct{}{}:
		default:
		}
		if c.gone.Err() != nil {
			continue
		}
		err := c.nc.SetWriteDeadline(time.Now().Add(c.h.writeTimeout))
		if err == nil {
			_, err = c.nc.Write(frame)
		}
		if err != nil {
			c.close()
		}
	}
}

// send queues a frame; false means that the connection is gone.
func (c *conn) send(frame any) bool {
	line, err := encodeFrame(frame)
	if err != nil {
		c.h.opts.Log.Error("frame cannot be encoded", "err", err)
		res, ok := frame.(response)
		if !ok {
			return true
		}
		line, err = encodeFrame(response{Type: "res", ID: res.ID, Error: &WireError{Code: CodeUnavailable, Message: "Error: the answer cannot be encoded"}})
		if err != nil {
			return false
		}
	}
	c.unsent.Add(int64(len(line)))
	select {
	case c.out <- line:
		return true
	case <-c.gone.Done():
		return false
	}
}

// hasRoom waits until the client has taken enough of what it asked for; false
// when the connection is gone first.
func (c *conn) hasRoom() bool {
	for c.unsent.Load() > maxUnsentBytes {
		select {
		case <-c.room:
		case <-c.gone.Done():
			return false
		}
	}
	return true
}

func (c *conn) sendError(id string, err *WireError) {
	c.send(response{Type: "res", ID: id, Error: err})
}

// read takes request lines until there are no more.
func (c *conn) read(ctx context.Context) {
	lines := newLineReader(c.nc, maxRequestBytes)
	_ = c.nc.SetReadDeadline(time.Now().Add(firstRequestTimeout)) // a broken connection says so at the read
	for first := true; ; first = false {
		line, err := lines.next()
		if first && err == nil {
			_ = c.nc.SetReadDeadline(time.Time{})
		}
		if errors.Is(err, errLineTooLong) {
			c.sendError(connErrorID, frameFault(fmt.Sprintf("a line may have at most %d bytes", maxRequestBytes)))
			return
		}
		if len(line) > 0 {
			if !c.take(ctx, line) {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// take starts one request; false ends the connection.
func (c *conn) take(ctx context.Context, line []byte) bool {
	req, err := readRequest(line)
	var fault *WireError
	switch {
	case errors.As(err, &fault):
		id := req.ID
		if id == "" {
			id = connErrorID
		}
		c.sendError(id, fault)
		return id != connErrorID
	case err != nil:
		c.sendError(connErrorID, frameFault(err.Error()))
		return false
	}
	if !c.hasRoom() {
		return false
	}
	select {
	case c.inFlight <- struct{}{}:
	case <-c.gone.Done():
		return false
	}
	if req.Method == "rota.subscribe" {
		c.subscribe(ctx, req)
		<-c.inFlight
		return true
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

var errLineTooLong = errors.New("line too long")

// lineReader reads newline-delimited lines of a bounded length.
type lineReader struct {
	r     *bufio.Reader
	limit int
	long  []byte
}

func newLineReader(nc net.Conn, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(nc, 64<<10), limit: limit}
}

// next gives the next line without its newline, valid until the next call. The
// last line may lack its newline: it comes with the error.
func (l *lineReader) next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if len(l.long)+len(part) > l.limit+1 {
			return nil, errLineTooLong
		}
		if err == nil && len(l.long) == 0 {
			return part[:len(part)-1], nil
		}
		l.long = append(l.long, part...)
		switch {
		case err == nil:
			return l.long[:len(l.long)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return l.long, err
		}
	}
}
