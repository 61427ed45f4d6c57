package launcher

import (
	"bufio"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/worker"
)

// The decision as a document.
func TestWhereRequestsMayConnect(t *testing.T) {
	f, err := os.Open("../testdata/launcher/addresses.txt")
	must(t, err)
	defer f.Close()
	lines, n := bufio.NewScanner(f), 0
	for at := 1; lines.Scan(); at++ {
		line := lines.Text()
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		n++
		field := strings.Split(line, "|")
		if len(field) != 4 {
			t.Fatalf("line %d has %d fields", at, len(field))
		}
		for i := range field {
			field[i] = strings.TrimSpace(field[i])
		}
		if got := decide(t, field[0], field[1], policyOf(t, field[2])); got != field[3] {
			t.Errorf("line %d: %s -> %s under %s: got %q, want %q", at, field[0], field[1], field[2], got, field[3])
		}
	}
	must(t, lines.Err())
	if n < 60 {
		t.Errorf("only %d lines were read", n)
	}
}

func decide(t *testing.T, rawURL, address string, policy *worker.NetPolicy) string {
	t.Helper()
	u, err := checkURL(rawURL)
	if own := (*Error)(nil); errors.As(err, &own) {
		equal(t, rawURL+" leads to", "-", address)
		return own.Message
	}
	must(t, err)
	addr, err := netip.ParseAddr(address)
	must(t, err)
	if reason := allowed(policy, u.Hostname(), addr); reason != "" {
		return reason
	}
	return "ok"
}

func policyOf(t *testing.T, words string) *worker.NetPolicy {
	t.Helper()
	p := &worker.NetPolicy{}
	for word := range strings.FieldsSeq(words) {
		name, host, _ := strings.Cut(word, "=")
		switch name {
		case "-":
		case "allow":
			p.AllowedHosts = append(p.AllowedHosts, host)
		case "block":
			p.BlockedHosts = append(p.BlockedHosts, host)
		case "private":
			p.AllowPrivate = true
		case "benchmark":
			p.AllowBenchmark = true
		case "unique-local":
			p.AllowUniqueLocal = true
		default:
			t.Fatalf("no policy word: %q", word)
		}
	}
	return p
}

// checkDecision holds for every address: it is compared with what the standard
// library knows, with its other forms, and with other policies.
func checkDecision(t *testing.T, addr netip.Addr) {
	t.Helper()
	strict, private := &worker.NetPolicy{}, &worker.NetPolicy{AllowPrivate: true}
	named := &worker.NetPolicy{AllowedHosts: []string{"host.example"}}
	blocked := &worker.NetPolicy{AllowPrivate: true, AllowedHosts: []string{"host.example"}, BlockedHosts: []string{addr.WithZone("").Unmap().String()}}
	const host = "host.example"
	open := allowed(strict, host, addr) == ""
	plain := addr.Unmap()
	if open && (!plain.IsGlobalUnicast() || plain.IsPrivate() || plain.IsLoopback() || plain.IsLinkLocalUnicast() ||
		plain.IsMulticast() || plain.IsUnspecified()) {
		t.Errorf("%s is open", addr)
	}
	if open && (allowed(private, host, addr) != "" || allowed(named, host, addr) != "") {
		t.Errorf("%s is open only under the strict policy", addr)
	}
	if allowed(private, host, addr) != allowed(named, host, addr) {
		t.Errorf("%s: an allowed host reaches other addresses than a policy for private ones", addr)
	}
	if allowed(named, "other.example", addr) == "" && !open {
		t.Errorf("%s is open for a host that is not allowed", addr)
	}
	if allowed(blocked, host, addr) == "" {
		t.Errorf("%s is blocked and open", addr)
	}
	if !plain.Is4() {
		return
	}
	v4, forms := plain.As4(), [][16]byte{{}, {0x00, 0x64, 0xff, 0x9b}, {10: 0xff, 11: 0xff}, {0x2a, 10: 0x5e, 11: 0xfe}}
	for _, form := range forms {
		copy(form[12:], v4[:])
		if !open && allowed(strict, host, netip.AddrFrom16(form)) == "" {
			t.Errorf("%s is open as %s", addr, netip.AddrFrom16(form))
		}
	}
	relay := [16]byte{0x20, 0x02, v4[0], v4[1], v4[2], v4[3], 15: 1}
	if !open && allowed(strict, host, netip.AddrFrom16(relay)) == "" {
		t.Errorf("%s is open as %s", addr, netip.AddrFrom16(relay))
	}
}

func TestTheDecisionHoldsForEveryFormOfAnAddress(t *testing.T) {
	seed := rand.Uint64()
	defer func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	draw := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		var four [4]byte
		binary.BigEndian.PutUint32(four[:], draw.Uint32())
		checkDecision(t, netip.AddrFrom4(four))
		var sixteen [16]byte
		binary.BigEndian.PutUint64(sixteen[:], draw.Uint64())
		binary.BigEndian.PutUint64(sixteen[8:], draw.Uint64())
		checkDecision(t, netip.AddrFrom16(sixteen))
	}
	for _, r := range addressRanges { // and at the edges of every range
		checkDecision(t, r.prefix.Addr())
		checkDecision(t, r.prefix.Addr().Next())
		if before := r.prefix.Addr().Prev(); before.IsValid() {
			checkDecision(t, before)
		}
	}
}

func FuzzAddressDecision(f *testing.F) {
	for _, r := range addressRanges {
		f.Add(r.prefix.Addr().AsSlice())
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if addr, ok := netip.AddrFromSlice(bytes); ok {
			checkDecision(t, addr)
		}
	})
}

func FuzzURL(f *testing.F) {
	for _, raw := range []string{"http://example.com/", "http://user:pass@h/", "http://0x7f.1", "http://[::1%25a]:80/", "HTTPS://h:1/?q#f"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		r, err := newRequest("GET", raw, nil, "")
		if err != nil {
			if own := (*Error)(nil); !errors.As(err, &own) || own.Message == "" {
				t.Fatalf("%q: %v", raw, err)
			}
			return
		}
		if r.url.User != nil || r.url.Hostname() == "" || r.url.Scheme != "http" && r.url.Scheme != "https" {
			t.Fatalf("%q was taken as %+v", raw, r.url)
		}
		if target := r.target(); strings.ContainsAny(target, "?#\n\r") {
			t.Fatalf("%q is shown as %q", raw, target)
		}
		if _, err := r.once(t.Context()); err != nil {
			t.Fatalf("%q was taken and cannot be sent: %v", raw, err)
		}
	})
}
