package host

import (
	"errors"
	"time"
)

// A link carries the frames of one connection, each of them whole: lines on the
// socket, text messages on a WebSocket. One goroutine reads and one writes;
// finish, close and abort may be called by any.
type link interface {
	// next waits for a frame and gives it, valid until the next call. The last
	// one may come with the error that ends the connection.
	next() ([]byte, error)
	// write sends one frame, or fails and leaves the connection of no use.
	write(frame []byte, deadline time.Time) error
	// finish makes next end, also one that waits: no more frames are wanted.
	finish()
	// close says why, where the link can say it, and ends the connection. It
	// waits a moment for the other side, never long.
	close(why closing)
	// abort ends the connection now.
	abort()
}

var (
	errFrameTooLong = errors.New("frame too long")
	errFinished     = errors.New("no more frames are wanted")
	errNotText      = errors.New("a frame that is not text")
)

// closing is why a connection ends: the code of a WebSocket's close and its
// reason. The socket has no place for it.
type closing struct {
	code   int
	reason string
}

// The close codes that the gateway uses.
const (
	closeNormal   = 1000
	closeProtocol = 1002 // no version of the protocol in common
	closeNotText  = 1003
	closePolicy   = 1008 // handshake, credentials, a reader that is too slow
	closeTooBig   = 1009
	closeRestart  = 1012 // this daemon stops
	closeBusy     = 1013 // all connections are in use
)
