package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

// closeWait is how long a WebSocket's end may wait for the other side's.
const closeWait = time.Second

// wsLink is a WebSocket's link: each frame is a text message. A goroutine of
// its own reads, so that control frames are answered and next can be told to
// end without breaking what is still to be written.
type wsLink struct {
	ws *websocket.Conn
	nc net.Conn // under ws: closing it ends every call of ws at once
	// limit bounds a message; the handshake has a smaller one than what follows.
	limit atomic.Int64
	// silence ends a connection on which no message comes for so long; 0 = never.
	silence time.Duration
	// handing is set while the reader waits for its message to be taken. It
	// then reads no pong either, which is not the other side's fault.
	handing atomic.Bool

	frames   chan wsFrame // unbuffered
	finished chan struct{}
	finOnce  sync.Once
	gone     context.Context
	leave    context.CancelFunc
}

type wsFrame struct {
	data []byte
	err  error
}

func newWSLink(ws *websocket.Conn, nc net.Conn, limit int64, silence time.Duration) *wsLink {
	ws.SetReadLimit(-1) // ours is told with our own reason
	l := &wsLink{ws: ws, nc: nc, silence: silence, frames: make(chan wsFrame), finished: make(chan struct{})}
	l.limit.Store(limit)
	l.gone, l.leave = context.WithCancel(context.Background())
	go l.pump()
	return l
}

// pump reads until something goes wrong and hands that over last.
func (l *wsLink) pump() {
	for {
		data, err := l.read()
		l.handing.Store(true)
		select {
		case l.frames <- wsFrame{data, err}:
		case <-l.finished:
		case <-l.gone.Done():
			return
		}
		l.handing.Store(false)
		if err != nil {
			return
		}
	}
}

// read reads one message. The limit is the one that holds when the message
// begins.
func (l *wsLink) read() ([]byte, error) {
	ctx := l.gone
	if l.silence > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.silence)
		defer cancel()
	}
	kind, r, err := l.ws.Reader(ctx)
	if err != nil {
		return nil, wsEnd(err)
	}
	if kind != websocket.MessageText {
		return nil, errNotText
	}
	limit := l.limit.Load()
	var b bytes.Buffer
	if _, err := b.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return nil, wsEnd(err)
	}
	if int64(b.Len()) > limit {
		return nil, errFrameTooLong
	}
	return b.Bytes(), nil
}

// wsEnd words the end of a connection as people read it.
func wsEnd(err error) error {
	var end websocket.CloseError
	switch {
	case errors.As(err, &end) && end.Code == websocket.StatusNormalClosure, errors.As(err, &end) && end.Code == websocket.StatusNoStatusRcvd:
		return io.EOF
	case errors.As(err, &end):
		return &ClosedError{Code: int(end.Code), Reason: end.Reason}
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("nothing was heard for too long")
	}
	return err
}

// ClosedError says that the other side ended the connection, and why.
type ClosedError struct {
	Code   int
	Reason string
}

// Error gives the reason and the code.
func (e *ClosedError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("closed with code %d", e.Code)
	}
	return fmt.Sprintf("%s (close code %d)", e.Reason, e.Code)
}

func (l *wsLink) next() ([]byte, error) {
	select {
	case <-l.finished: // wins over a frame that waits too
		return nil, errFinished
	default:
	}
	select {
	case f := <-l.frames:
		return f.data, f.err
	case <-l.finished:
		return nil, errFinished
	case <-l.gone.Done():
		return nil, net.ErrClosed
	}
}

func (l *wsLink) write(frame []byte, deadline time.Time) error {
	ctx, cancel := context.WithDeadline(l.gone, deadline)
	defer cancel()
	return l.ws.Write(ctx, websocket.MessageText, bytes.TrimSuffix(frame, []byte("\n")))
}

// keepAlive asks for a sign of life every so often, and ends the connection
// when none comes.
func (l *wsLink) keepAlive(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-l.gone.Done():
			return
		case <-tick.C:
		}
		if l.handing.Load() {
			continue
		}
		ctx, cancel := context.WithTimeout(l.gone, every)
		err := l.ws.Ping(ctx)
		cancel()
		if err != nil && !l.handing.Load() {
			l.abort()
			return
		}
	}
}

func (l *wsLink) finish() { l.finOnce.Do(func() { close(l.finished) }) }

func (l *wsLink) close(why closing) {
	l.finish()
	late := time.AfterFunc(closeWait, func() { l.nc.Close() })
	defer late.Stop()
	defer l.abort()
	_ = l.ws.Close(websocket.StatusCode(why.code), why.reason) // whoever is gone hears nothing
}

func (l *wsLink) abort() {
	l.leave()
	l.nc.Close()
}
