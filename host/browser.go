package host

import (
	"net/http"
	"net/url"
	"strings"
)

// httpRefusal is an HTTP answer other than the upgrade.
type httpRefusal struct {
	status  int
	text    string
	headers map[string]string
}

// secretWords are query parameters that hold a secret in a place that is
// logged and remembered.
var secretWords = []string{"token", "access_token", "auth", "password", "secret"}

// judge refuses what is no WebSocket of a program: above all what a web page
// in the user's browser can make it send. nil lets the request through.
func (g *gateway) judge(r *http.Request) *httpRefusal {
	site := r.Header.Values("Sec-Fetch-Site")
	_, hasOrigin := r.Header["Origin"]
	switch {
	case !g.meansUs(r.Host): // a name of somebody else's that leads here
		return &httpRefusal{status: http.StatusMisdirectedRequest, text: "this is not the host that the request names"}
	case hasOrigin, len(site) > 1, len(site) == 1 && site[0] != "none" && site[0] != "same-origin":
		return &httpRefusal{status: http.StatusForbidden, text: "web pages are not served"}
	case holdsSecret(r):
		return &httpRefusal{status: http.StatusBadRequest, text: "a token does not belong into a URL: it goes into the connect request"}
	case r.URL.Path != "/" && r.URL.Path != "/ws":
		return &httpRefusal{status: http.StatusNotFound, text: "there is nothing here; the WebSocket is at /"}
	case r.Method != http.MethodGet:
		return &httpRefusal{status: http.StatusMethodNotAllowed, text: "this is a WebSocket", headers: map[string]string{"Allow": http.MethodGet}}
	case !hasWord(r.Header, "Connection", "upgrade"), !hasWord(r.Header, "Upgrade", "websocket"):
		return &httpRefusal{status: http.StatusUpgradeRequired, text: "this is a WebSocket",
			headers: map[string]string{"Upgrade": "websocket"}}
	}
	return nil
}

func holdsSecret(r *http.Request) bool {
	pairs, _ := url.ParseQuery(strings.ReplaceAll(r.URL.RawQuery, ";", "&")) // what cannot be read is no key
	for key := range pairs {
		for _, word := range secretWords {
			if strings.EqualFold(key, word) {
				return true
			}
		}
	}
	return false
}

// hasWord looks for a word in a header that is a list.
func hasWord(h http.Header, key, word string) bool {
	for _, value := range h.Values(key) {
		for part := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(part), word) {
				return true
			}
		}
	}
	return false
}
