package main

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

// checkAddresses remarks on requests and webhooks that the network policy would
// block. configured says that the policy is the file's own, and not the default
// of a daemon whose configuration is elsewhere.
func (c *checkAnswer) checkAddresses(line int, definition []byte, policy worker.NetPolicy, configured bool) {
	d, err := job.Decode(definition)
	if err != nil {
		c.addError(line, err)
		return
	}
	level := "note"
	if configured {
		level = "warning"
	}
	judge := func(what, address string) {
		u, err := url.Parse(address)
		if err != nil {
			return // Create refuses what is no address
		}
		if reason := blocked(policy, u.Hostname()); reason != "" {
			c.add(line, level, fmt.Sprintf("%s goes to %s, %s, and is blocked", what, u.Hostname(), reason),
				"cron.webhookSsrfPolicy.allowedHostnames in the configuration allows a host")
		}
	}
	if p := d.Payload.HTTP; p != nil && !p.NamesEcho() {
		judge("the request", p.URL)
	}
	if d.Delivery.Mode == "webhook" {
		judge("the webhook", d.Delivery.To)
	}
}

// specialNets are ranges beside those that netip knows by name.
var specialNets = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("240.0.0.0/4"),
}

var benchmarkNet, uniqueLocalNet = netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fc00::/7")

// blocked says why a policy blocks a host, "" when what is written does not
// tell. Only a connection shows the address of a name; a file has its name.
func blocked(policy worker.NetPolicy, host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	address, err := netip.ParseAddr(host)
	if err == nil {
		address = address.Unmap()
		host = address.String()
	}
	private := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if err == nil {
		special := slices.ContainsFunc(specialNets, func(p netip.Prefix) bool { return p.Contains(address) })
		private = special || address.IsPrivate() || address.IsLoopback() || address.IsLinkLocalUnicast() || address.IsUnspecified() ||
			address.IsMulticast() || benchmarkNet.Contains(address)
		allowed := policy.AllowBenchmark && benchmarkNet.Contains(address) || policy.AllowUniqueLocal && uniqueLocalNet.Contains(address)
		private = private && !allowed
	}
	switch {
	case slices.Contains(policy.BlockedHosts, host):
		return "which cron.webhookSsrfPolicy.blockedHostnames names"
	case private && !policy.AllowPrivate && !slices.Contains(policy.AllowedHosts, host):
		return "a private address"
	}
	return ""
}
