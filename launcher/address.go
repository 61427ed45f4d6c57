package launcher

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/rota-scheduler/rota/worker"
)

// Where a request may go is decided by the address that a connection is about
// to be made to, and by the host as the URL writes it. Names are not looked at:
// a name leads wherever its owner says at that moment.

// reach is who may open an address.
type reach uint8

const (
	public      reach = iota // open
	private                  // closed; opened with the private addresses, or for an allowed host
	benchmark                // as private, and on its own
	uniqueLocal              // as private, and on its own
	nowhere                  // nobody serves there, or this machine answers under a name that is not its own
)

// addressRange is one range of special addresses.
type addressRange struct {
	prefix netip.Prefix
	reach  reach
	what   string // completes "1.2.3.4 is …"
	// inner is the byte at which an IPv4 address begins that packets are passed
	// on to; 0 = there is none. That address decides.
	inner int
}

func special(prefix string, r reach, what string) addressRange {
	return addressRange{prefix: netip.MustParsePrefix(prefix), reach: r, what: what}
}

func carrier(prefix string, inner int) addressRange {
	return addressRange{prefix: netip.MustParsePrefix(prefix), inner: inner}
}

// addressRanges follow the registries of special-purpose addresses. The first
// that contains an address counts.
var addressRanges = []addressRange{
	special("0.0.0.0/8", nowhere, "an address of this network"),
	special("10.0.0.0/8", private, "a private address"),
	special("100.64.0.0/10", private, "a shared address of a carrier"),
	special("127.0.0.0/8", private, "a loopback address"),
	special("169.254.0.0/16", private, "a link-local address"),
	special("172.16.0.0/12", private, "a private address"),
	special("192.0.0.0/24", nowhere, "a reserved address"),
	special("192.0.2.0/24", nowhere, "a documentation address"),
	special("192.88.99.0/24", nowhere, "a reserved address"),
	special("192.168.0.0/16", private, "a private address"),
	special("198.18.0.0/15", benchmark, "a benchmark address"),
	special("198.51.100.0/24", nowhere, "a documentation address"),
	special("203.0.113.0/24", nowhere, "a documentation address"),
	special("224.0.0.0/4", nowhere, "a multicast address"),
	special("240.0.0.0/4", nowhere, "a reserved address"),
	special("0.0.0.0/0", public, ""),

	special("::/128", nowhere, "the unspecified address"),
	special("::1/128", private, "a loopback address"),
	carrier("::/96", 12),
	carrier("64:ff9b::/96", 12),
	special("64:ff9b:1::/48", private, "an address of a local translator"),
	special("2001::/32", nowhere, "a tunnel address"),
	special("2001:2::/48", benchmark, "a benchmark address"),
	special("2001:db8::/32", nowhere, "a documentation address"),
	special("2001::/23", nowhere, "a reserved address"),
	carrier("2002::/16", 2),
	special("3fff::/20", nowhere, "a documentation address"),
	special("2000::/3", public, ""),
	special("fc00::/7", uniqueLocal, "a unique local address"),
	special("fe80::/10", private, "a link-local address"),
	special("fec0::/10", private, "a site-local address"),
	special("ff00::/8", nowhere, "a multicast address"),
	special("::/0", nowhere, "a reserved address"),
}

// classify gives the range of an address; what it says of an inner address
// names that.
func classify(addr netip.Addr) addressRange {
	addr = addr.WithZone("").Unmap()
	for _, r := range addressRanges {
		if !r.prefix.Contains(addr) {
			continue
		}
		inner := r.inner
		if inner == 0 && r.reach == public && addr.Is6() && isTunnelInterface(addr) {
			inner = 12
		}
		if inner == 0 {
			return r
		}
		bytes := addr.As16()
		v4 := netip.AddrFrom4([4]byte(bytes[inner : inner+4]))
		within := classify(v4)
		within.what = fmt.Sprintf("another form of %s, %s", v4, within.what)
		return within
	}
	return special("::/0", nowhere, "no address")
}

// isTunnelInterface tells an address whose lower half names an IPv4 address
// that a local tunnel leads to.
func isTunnelInterface(addr netip.Addr) bool {
	b := addr.As16()
	return b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// allowed decides whether a connection to addr may be made for a URL with this
// host. The reason is a sentence; "" allows it.
func allowed(policy *worker.NetPolicy, host string, addr netip.Addr) (reason string) {
	if reason := blockedHost(policy, host); reason != "" {
		return reason
	}
	addr = addr.WithZone("").Unmap()
	if reason := blockedHost(policy, addr.String()); reason != "" {
		return reason
	}
	r := classify(addr)
	open := r.reach == public
	switch r.reach {
	case private:
		open = policy.AllowPrivate
	case benchmark:
		open = policy.AllowPrivate || policy.AllowBenchmark
	case uniqueLocal:
		open = policy.AllowPrivate || policy.AllowUniqueLocal
	}
	if open || r.reach != nowhere && listed(policy.AllowedHosts, host) {
		return ""
	}
	return fmt.Sprintf("%s is %s", addr, r.what)
}

// blockedHost is the part of the decision that needs no address.
func blockedHost(policy *worker.NetPolicy, host string) (reason string) {
	if listed(policy.BlockedHosts, host) {
		return fmt.Sprintf("%s is blocked by the configuration", plainHost(host))
	}
	return ""
}

func listed(hosts []string, host string) bool {
	host = plainHost(host)
	return slices.ContainsFunc(hosts, func(h string) bool { return plainHost(h) == host })
}

// plainHost writes a host so that spellings of one name are equal: lower case,
// no brackets, no dot at the end.
func plainHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}
