package launcher

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rota-scheduler/rota/worker"
)

// What is kept of each stream, in bytes.
const (
	defaultOutputBytes = 128 << 10
	maxOutputBytes     = 16 << 20
)

// Output is what a run has printed: of each stream the head and the tail, and
// the count of everything. Its zero value keeps the default amount. It may be
// written and read at once.
type Output struct {
	mu             sync.Mutex
	stdout, stderr stream
	lastAt         time.Time // monotonic; when something was printed last
}

// keep sets how many bytes of each stream are kept, before the first write.
// What is out of bounds is clamped.
func (o *Output) keep(maxBytes int64) {
	if maxBytes <= 0 {
		maxBytes = defaultOutputBytes
	}
	o.stdout.max = int(min(maxBytes, maxOutputBytes))
	o.stderr.max = o.stdout.max
}

// write adds what a stream of this output has printed.
func (o *Output) write(s *stream, p []byte) {
	o.mu.Lock()
	s.add(p)
	o.lastAt = time.Now()
	o.mu.Unlock()
}

// readFrom reads a response to its end, or until max bytes were read: then
// more tells that it goes on.
func (o *Output) readFrom(r io.Reader, max int64) (more bool, err error) {
	buf := make([]byte, 32<<10)
	for left := max; ; {
		n, err := r.Read(buf)
		if int64(n) > left {
			n, more = int(left), true
		}
		if n > 0 {
			o.write(&o.stdout, buf[:n])
		}
		switch left -= int64(n); {
		case more:
			return true, nil
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		}
	}
}

// silentSince is when something was printed last; start if never.
func (o *Output) silentSince(start time.Time) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lastAt.IsZero() {
		return start
	}
	return o.lastAt
}

// Summary is the output as people read it: stdout if there is any, else
// stderr, and both under their names if both printed.
func (o *Output) Summary() string {
	_, text := o.result()
	return text
}

// result gives the counts, and the text.
func (o *Output) result() (worker.Output, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stdout, droppedOut := o.stdout.text()
	stderr, droppedErr := o.stderr.text()
	counts := worker.Output{StdoutBytes: o.stdout.total, StderrBytes: o.stderr.total, DroppedBytes: droppedOut + droppedErr}
	stdout, stderr = trimmed(stdout), trimmed(stderr)
	switch {
	case stdout == "":
		return counts, stderr
	case stderr == "":
		return counts, stdout
	}
	return counts, "stdout:\n" + stdout + "\n\nstderr:\n" + stderr
}

// trimmed drops the blank lines around a text. The first line keeps its
// indentation, so that tables stay aligned.
func trimmed(s string) string {
	s = strings.TrimRightFunc(s, unicode.IsSpace)
	for {
		line, rest, found := strings.Cut(s, "\n")
		if !found || strings.TrimSpace(line) != "" {
			return s
		}
		s = rest
	}
}

// stream keeps the first half and the last half of what passes through it.
// Memory grows with what is printed, up to max.
type stream struct {
	max   int    // head and tail together; 0 is the default
	total int64  // bytes seen
	head  []byte // the first max/2 bytes
	ring  []byte // what followed; full, it is a ring that begins at next
	next  int    // where the ring's oldest byte lies
}

func (s *stream) add(p []byte) {
	if s.max == 0 {
		s.max = defaultOutputBytes
	}
	s.total += int64(len(p))
	if room := s.max/2 - len(s.head); room > 0 {
		n := min(room, len(p))
		s.head = append(s.head, p[:n]...)
		p = p[n:]
	}
	size := s.max - s.max/2
	if len(p) > size {
		p = p[len(p)-size:] // the rest would be overwritten at once
	}
	if room := size - len(s.ring); room > 0 {
		n := min(room, len(p))
		s.ring = append(s.ring, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(s.ring[s.next:], p)
		s.next = (s.next + n) % size
		p = p[n:]
	}
}

// text gives what was kept as valid UTF-8, with a marker where bytes are
// missing, and how many are. Each invalid byte becomes U+FFFD, which is three
// bytes long: where that would exceed the cap, more is dropped from the middle.
func (s *stream) text() (text string, dropped int64) {
	if s.total == 0 {
		return "", 0
	}
	tail := make([]byte, 0, len(s.ring))
	tail = append(append(tail, s.ring[s.next:]...), s.ring[:s.next]...)
	head := s.head
	if s.total == int64(len(head)+len(tail)) { // nothing is missing yet
		whole := append(head[:len(head):len(head)], tail...)
		if front, used := validFront(whole, s.max); used == len(whole) {
			return front, 0
		}
		head, tail = whole, whole
	} else {
		head, tail = withoutCutEnd(head), withoutCutStart(tail)
	}
	front, usedFront := validFront(head, s.max/2)
	back, usedBack := validBack(tail, s.max-s.max/2)
	dropped = s.total - int64(usedFront+usedBack)
	if front != "" && !strings.HasSuffix(front, "\n") {
		front += "\n"
	}
	if back != "" && !strings.HasPrefix(back, "\n") {
		back = "\n" + back
	}
	return fmt.Sprintf("%s[… %d bytes dropped …]%s", front, dropped, back), dropped
}

// withoutCutEnd leaves out a character whose last bytes were not kept.
func withoutCutEnd(b []byte) []byte {
	for i := len(b) - 1; i >= 0 && i >= len(b)-utf8.UTFMax; i-- {
		if utf8.RuneStart(b[i]) {
			if !utf8.FullRune(b[i:]) {
				return b[:i]
			}
			break
		}
	}
	return b
}

// withoutCutStart leaves out a character whose first bytes were not kept.
func withoutCutStart(b []byte) []byte {
	n := 0
	for n < len(b) && n < utf8.UTFMax-1 && !utf8.RuneStart(b[n]) {
		n++
	}
	return b[n:]
}

// validFront decodes from the front until the text would exceed max bytes.
func validFront(b []byte, max int) (text string, used int) {
	var out strings.Builder
	out.Grow(min(len(b), max))
	for used < len(b) {
		r, n := utf8.DecodeRune(b[used:])
		if out.Len()+utf8.RuneLen(r) > max {
			break
		}
		out.WriteRune(r)
		used += n
	}
	return out.String(), used
}

// validBack decodes from the back until the text would exceed max bytes.
func validBack(b []byte, max int) (text string, used int) {
	size := 0
	for used < len(b) {
		r, n := utf8.DecodeLastRune(b[:len(b)-used])
		if size+utf8.RuneLen(r) > max {
			break
		}
		size += utf8.RuneLen(r)
		used += n
	}
	var out strings.Builder
	out.Grow(size)
	for rest := b[len(b)-used:]; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		out.WriteRune(r)
		rest = rest[n:]
	}
	return out.String(), used
}
