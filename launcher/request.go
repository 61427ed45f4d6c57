package launcher

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/rota-scheduler/rota/worker/job"
)

// request is one HTTP request that was checked and may be sent, any number of
// times. Nothing it says of itself shows a query, a header or its body.
type request struct {
	method string
	url    *url.URL
	header http.Header
	host   string // Host header; empty = the URL's
	body   string
}

// maxTargetRunes bounds what a sentence says of a URL.
const maxTargetRunes = 200

// newRequest checks method, URL and headers. Names of headers that Go's
// transport writes itself (Content-Length, Transfer-Encoding, Trailer) have no
// effect.
func newRequest(method, rawURL string, headers []job.Header, body string) (*request, error) {
	u, err := checkURL(rawURL)
	if err != nil {
		return nil, err
	}
	if !isToken(method) || method == http.MethodConnect {
		return nil, badRequest("the method is none that can be sent", "set one like GET or POST")
	}
	r := &request{method: method, url: u, header: make(http.Header, len(headers)+3), body: body}
	for _, h := range headers {
		if !isToken(h.Name) {
			return nil, badRequest("a header has a name that cannot be sent", "use letters, digits and hyphens")
		}
		if !isHeaderValue(h.Value) {
			return nil, badRequest(fmt.Sprintf("the value of the header %s has a line break or control character", h.Name),
				"put the value on one line")
		}
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			r.host = h.Value
			continue
		}
		r.header.Set(h.Name, h.Value)
	}
	return r, nil
}

// setDefault sets a header that the job did not set.
func (r *request) setDefault(name, value string) {
	if _, set := r.header[http.CanonicalHeaderKey(name)]; !set {
		r.header.Set(name, value)
	}
}

// once gives the request for one sending.
func (r *request) once(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), strings.NewReader(r.body))
	if err != nil { // it was checked: what net/http says may show the query
		return nil, badRequest("the request cannot be made", "")
	}
	req.Header = r.header.Clone()
	if r.host != "" {
		req.Host = r.host
	}
	return req, nil
}

// target says what is asked of whom, without query and fragment.
func (r *request) target() string {
	text := r.method + " " + r.url.Scheme + "://" + r.url.Host + r.url.EscapedPath()
	if runes := []rune(text); len(runes) > maxTargetRunes {
		text = string(runes[:maxTargetRunes-1]) + "…"
	}
	return text
}

// checkURL refuses what is not to be asked. Its errors do not show the URL: it
// may carry what must not be shown.
func checkURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, badRequest("the URL is none", "write it as https://HOST/PATH, without spaces or line breaks")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, badRequest("the URL is neither http nor https", "write it as https://HOST/PATH")
	case u.User != nil:
		return nil, badRequest("the URL carries a user name or password", "put credentials into a header")
	case u.Hostname() == "":
		return nil, badRequest("the URL names no host", "write it as https://HOST/PATH")
	case isOddAddress(u.Hostname()):
		return nil, badRequest("the URL names its host by a number that is no plain address", "write an address as 192.0.2.1 or [2001:db8::1]")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, badRequest("the URL names a port that is none", "use a port from 1 to 65535")
		}
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// isOddAddress tells hosts that end in a number and are no address. Some
// systems read them as one all the same: decimal, hexadecimal, octal or short.
func isOddAddress(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	host = plainHost(host)
	last := host[strings.LastIndexByte(host, '.')+1:]
	digits := "0123456789"
	if hex, found := strings.CutPrefix(last, "0x"); found {
		last, digits = "0"+hex, "0123456789abcdef"
	}
	return last != "" && strings.Trim(last, digits) == ""
}

func badRequest(message, hint string) error {
	return &Error{Code: "bad-request", Op: "request", Message: message, Hint: hint}
}

// isToken reports whether s may be a method or the name of a header.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"(),/:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return s != ""
}

// isHeaderValue reports whether s can be sent on one header line.
func isHeaderValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// codeText writes a status code as people know it. The receiver's own phrase
// is not shown.
func codeText(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}
