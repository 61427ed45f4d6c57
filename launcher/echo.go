package launcher

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/rota-scheduler/rota/worker/job"
)

const (
	maxEchoBytes = 1 << 20
	echoReadMs   = 30_000
)

// Echo answers every request with what it was asked, as JSON: method, path,
// headers and body. It listens on loopback, for trying http payloads out, and
// is the one private address that needs no permission.
//
// Make one with NewEcho and give it to a launcher, which serves it for as long
// as it has runs.
type Echo struct {
	address string // host and port
	listen  net.Listener
	server  *http.Server
}

// NewEcho listens on a free port. The launcher that gets it closes it; without
// one, Close does.
func NewEcho() (*Echo, error) {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, &Error{Code: "echo", Op: "listen", Message: "the echo listener has no port on 127.0.0.1",
			Hint: "take " + job.Echo + " out of the jobs file", Err: err}
	}
	e := &Echo{address: listen.Addr().String(), listen: listen}
	e.server = &http.Server{Handler: http.HandlerFunc(answerEcho), ReadTimeout: echoReadMs * time.Millisecond,
		WriteTimeout: echoReadMs * time.Millisecond}
	return e, nil
}

// URL is what ${ROTA_ECHO} stands for: scheme, host and port.
func (e *Echo) URL() string { return "http://" + e.address }

// serve answers until Close.
func (e *Echo) serve() error {
	if err := e.server.Serve(e.listen); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close stops listening and ends open connections.
func (e *Echo) Close() error {
	return errors.Join(e.server.Close(), ignoreClosed(e.listen.Close()))
}

// ignoreClosed passes over that the server has closed its listener itself.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// echoed is the answer.
type echoed struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"` // with the query
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

func answerEcho(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxEchoBytes))
	if err != nil {
		http.Error(w, "the body is longer than 1 MiB, or did not come whole", http.StatusRequestEntityTooLarge)
		return
	}
	answer := echoed{Method: r.Method, Path: r.URL.RequestURI(), Headers: make(map[string]string), Body: string(body)}
	for name, values := range r.Header {
		answer.Headers[name] = strings.Join(values, ", ")
	}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(answer) // who does not read the answer gets none
}
