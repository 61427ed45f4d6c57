//go:build unix

package launcher

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// receiver is a webhook's other end, without a network: it behaves at each
// connection as the next word of its script says.
type receiver struct {
	script []string
	start  time.Time
	ends   context.Context // when a deaf one lets go

	mu    sync.Mutex
	came  []string // when connections were asked for, in seconds
	asked []*http.Request
	body  string // of the last request
	lives sync.WaitGroup
}

// dial stands in the place of the network.
func (r *receiver) dial(ctx context.Context, _, _ string, permit func(string) error) (net.Conn, error) {
	r.mu.Lock()
	word := "refused"
	if len(r.came) < len(r.script) {
		word = r.script[len(r.came)]
	}
	r.came = append(r.came, fmt.Sprint(time.Since(r.start).Round(time.Second).Seconds()))
	r.mu.Unlock()
	found := "93.184.216.34:80"
	if word == "private" {
		found = "10.0.0.5:80"
	}
	if err := permit(found); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	switch word {
	case "refused":
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case "mute":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	if word == "deaf" {
		context.AfterFunc(r.ends, func() { theirs.Close() })
		return ours, nil
	}
	r.lives.Go(func() { r.serve(theirs, word) })
	return ours, nil
}

// serve takes one request and behaves.
func (r *receiver) serve(conn net.Conn, word string) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	body, _ := io.ReadAll(req.Body)
	r.mu.Lock()
	r.asked, r.body = append(r.asked, req), string(body)
	r.mu.Unlock()
	code, retryAfter, _ := strings.Cut(word, "+")
	switch word {
	case "close":
		return
	case "cut":
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
		return
	case "hang":
		_, _ = io.Copy(io.Discard, conn) // until the other side gives up
		return
	case "noise":
		_, _ = io.WriteString(conn, "canary "+req.Header.Get("X-Secret")+"\r\n\r\n")
		return
	case "trickle": // the answer begins
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nslowly")
		_, _ = io.Copy(io.Discard, conn)
		return
	case "large":
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 1_000_000))
		return
	case "endless":
		_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
		for block := strings.Repeat("x", 64<<10); err == nil; {
			_, err = io.WriteString(conn, block)
		}
		return
	case "slow":
		timer := time.NewTimer(time.Minute)
		defer timer.Stop()
		<-timer.C
		code = "200"
	}
	status, err := strconv.Atoi(code)
	if err != nil {
		panic("no such behaviour: " + word)
	}
	answer := fmt.Sprintf("HTTP/1.1 %d Own phrase\r\nConnection: close\r\nLocation: http://hook.example/path\r\n", status)
	if retryAfter != "" {
		answer += "Retry-After: " + retryAfter + "\r\n"
	}
	if status != 204 {
		answer += "Content-Length: 2\r\n\r\nok"
	}
	_, _ = io.WriteString(conn, answer+"\r\n")
}

func (r *receiver) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func (r *receiver) attempts() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.came, " ")
}

// loopbackNames is a resolver to whom every name is 127.0.0.1.
func loopbackNames() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe() // no packets: questions and answers have their length before them
		go func() {
			defer theirs.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(theirs, size[:]); err != nil {
					return
				}
				question := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(theirs, question); err != nil {
					return
				}
				answer := nameAnswer(question)
				if _, err := theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}}
}

// nameAnswer answers a question for A with 127.0.0.1, and any other with
// nothing.
func nameAnswer(question []byte) []byte {
	end := 12 // of the header
	for question[end] != 0 {
		end += 1 + int(question[end])
	}
	kind := binary.BigEndian.Uint16(question[end+1:])
	answer := append([]byte(nil), question[:end+5]...)
	answer[2], answer[3] = 0x84, 0 // an answer, with authority
	copy(answer[4:12], []byte{0, 1, 0, 0, 0, 0, 0, 0})
	if kind == 1 {
		answer[7] = 1
		answer = append(answer, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1)
	}
	return answer
}
