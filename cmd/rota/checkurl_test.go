package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/host"
	"github.com/rota-scheduler/rota/worker"
	"github.com/rota-scheduler/rota/worker/job"
)

func TestBlockedAddresses(t *testing.T) {
	strict := worker.NetPolicy{}
	loopback := worker.NetPolicy{AllowedHosts: []string{"127.0.0.1", "::1", "localhost"}}
	for _, c := range []struct {
		policy worker.NetPolicy
		hosts  string
		want   bool
	}{
		{strict, "example.net 93.184.216.34 2606:2800:220:1::1 172.15.0.1 172.32.0.1 100.128.0.1 198.20.0.1", false},
		{strict, "localhost LOCALHOST. a.localhost 127.0.0.1 127.9.9.9 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1", true},
		{strict, "0.0.0.0 0.1.2.3 255.255.255.255 224.0.0.1 198.18.0.1 ::1 :: fe80::1 fc00::1 ff02::1 ::ffff:127.0.0.1", true},
		{loopback, "localhost 127.0.0.1 ::1 ::ffff:127.0.0.1", false},
		{loopback, "127.0.0.2 10.0.0.1 169.254.169.254", true},
		{worker.NetPolicy{AllowPrivate: true}, "localhost 10.0.0.1 169.254.169.254 fc00::1", false},
		{worker.NetPolicy{AllowPrivate: true, BlockedHosts: []string{"10.0.0.1", "example.net"}}, "10.0.0.1 Example.NET", true},
		{worker.NetPolicy{AllowBenchmark: true}, "198.18.0.1 198.19.255.255", false},
		{worker.NetPolicy{AllowBenchmark: true}, "10.0.0.1 fc00::1", true},
		{worker.NetPolicy{AllowUniqueLocal: true}, "fc00::1 fdff::1", false},
		{worker.NetPolicy{AllowUniqueLocal: true}, "fe80::1 10.0.0.1", true},
	} {
		for _, host := range strings.Fields(c.hosts) {
			if reason := blocked(c.policy, host); (reason != "") != c.want {
				t.Errorf("%s under %+v: %q", host, c.policy, reason)
			}
		}
	}
}

// What an add says without a configuration is what the default one says.
func TestNotesKnowTheDefaultFigures(t *testing.T) {
	for _, schedule := range []string{`{"kind":"every","everyMs":60000}`, `{"kind":"at","at":"+1h"}`} {
		params := json.RawMessage(`{"name":"n","schedule":` + schedule + `,"payload":{"kind":"command","argv":["true"]}}`)
		plain, err := job.Create("j", params, job.Env{NowMs: 1})
		if err != nil {
			t.Fatal(err)
		}
		told, err := job.Create("j", params, configured(job.Env{NowMs: 1}, host.Config{Worker: worker.DefaultConfig()}))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(plain.Notes, told.Notes) {
			t.Errorf("%s:\n%q\nand with the default configuration\n%q", schedule, plain.Notes, told.Notes)
		}
	}
}
