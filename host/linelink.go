package host

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"time"
)

// lineLink is the socket's link: each frame is a line.
type lineLink struct {
	nc    net.Conn
	lines *lineReader

	mu       sync.Mutex // guards what follows, and the read deadline with it
	heard    bool
	finished bool
}

// newLineLink reads lines of at most limit bytes. A peer that says nothing
// within patience is given up; 0 waits for ever.
func newLineLink(nc net.Conn, limit int, patience time.Duration) *lineLink {
	l := &lineLink{nc: nc, lines: newLineReader(nc, limit)}
	if patience > 0 {
		_ = nc.SetReadDeadline(time.Now().Add(patience)) // a broken connection says so at the read
	}
	return l
}

func (l *lineLink) next() ([]byte, error) {
	line, err := l.lines.next()
	if err == nil {
		l.mu.Lock()
		if !l.heard && !l.finished {
			_ = l.nc.SetReadDeadline(time.Time{})
		}
		l.heard = true
		l.mu.Unlock()
	}
	return line, err
}

func (l *lineLink) write(frame []byte, deadline time.Time) error {
	err := l.nc.SetWriteDeadline(deadline)
	if err == nil {
		_, err = l.nc.Write(frame)
	}
	return err
}

func (l *lineLink) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = true
	_ = l.nc.SetReadDeadline(time.Unix(1, 0))
}

func (l *lineLink) close(closing) { l.nc.Close() }

func (l *lineLink) abort() { l.nc.Close() }

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
			return nil, errFrameTooLong
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
