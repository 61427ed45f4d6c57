package host

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/worker"
)

// Bounds of what a document may hold about webhooks.
const (
	maxConfigHosts = 1000
	maxHostBytes   = 253
	maxTokenBytes  = 4096
)

// hosts takes at least low names or addresses of hosts: names in lower case
// without a final dot, addresses in their canonical spelling without brackets.
func hosts(low int, put func(*Config, []string)) taker {
	return func(c *Config, _ string, raw json.RawMessage) string {
		list, ok := textsOf(raw)
		if !ok || len(list) < low || len(list) > maxConfigHosts {
			return fmt.Sprintf("must be an array of %d to %d host names or addresses", low, maxConfigHosts)
		}
		canonical := make([]string, len(list))
		for i, text := range list {
			if canonical[i], ok = hostName(text); !ok {
				return fmt.Sprintf("holds %q: write the name or address of a host alone, without a scheme, a port, a path or a *, and another script as xn--…", bounded(text))
			}
		}
		slices.Sort(canonical)
		put(c, slices.Compact(canonical))
		return ""
	}
}

// hostName gives the canonical spelling of a host.
func hostName(text string) (string, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	literal := text
	if inner, bracketed := strings.CutPrefix(text, "["); bracketed {
		if literal, bracketed = strings.CutSuffix(inner, "]"); !bracketed {
			return "", false
		}
	}
	if address, err := netip.ParseAddr(literal); err == nil {
		return address.Unmap().String(), address.Zone() == ""
	}
	name := strings.TrimSuffix(text, ".")
	if name == "" || len(name) > maxHostBytes {
		return "", false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool { return !hostLetter(r) }) {
			return "", false
		}
	}
	return name, true
}

// hostLetter: what may stand in a label. A name in another script has many
// spellings, and connections are made to its xn-- one: only that can be compared.
func hostLetter(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_'
}

func bounded(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// token takes the webhooks' bearer token. What is wrong with one is said
// without repeating it.
func token(c *Config, _ string, raw json.RawMessage) string {
	text, ok := textOf(raw)
	switch {
	case !ok:
		return "must be a string"
	case text == "" || len(text) > maxTokenBytes:
		return fmt.Sprintf("must have 1 to %d characters", maxTokenBytes)
	case strings.Contains(text, "${"):
		return "must be the token itself: nothing is put in for ${…}"
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "must be made of visible ASCII characters, without a space"
	}
	c.Worker.WebhookToken = worker.Secret(text)
	return ""
}

// configWarnings says what a whole document allows.
func configWarnings(c *Config) []string {
	var warnings []string
	w := &c.Worker
	if w.WebhookToken != "" && len(w.WebhookTokenHosts) == 0 {
		warnings = append(warnings, "cron.webhookToken goes to every webhook that a job names; cron.webhookTokenHosts names the hosts that may have it")
	}
	if w.WebhookToken == "" && len(w.WebhookTokenHosts) > 0 {
		warnings = append(warnings, "cron.webhookTokenHosts does nothing without cron.webhookToken")
	}
	if w.Net.AllowPrivate {
		warnings = append(warnings, "cron.webhookSsrfPolicy.dangerouslyAllowPrivateNetwork lets every job send requests to this machine and its network; allowedHostnames allows single hosts")
	}
	for _, host := range w.Net.AllowedHosts {
		if slices.Contains(w.Net.BlockedHosts, host) {
			warnings = append(warnings, fmt.Sprintf("cron.webhookSsrfPolicy allows and blocks %s: it is blocked", host))
		}
	}
	return warnings
}
