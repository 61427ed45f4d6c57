package host

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker"
)

// Lists: what a client waits for a page of cron.list, without the socket.
//
//	go test ./host -run '^$' -bench ListPage
//
// There are ten thousand jobs; one iteration is one page of 200, with the order or
// the filter that its name says.

// listHost is a host over a worker with n jobs of a realistic size, without a
// socket.
func listHost(b *testing.B, n int) *Host {
	b.Helper()
	path := filepath.Join(b.TempDir(), "rota.sqlite")
	open := func() *store.Store {
		s, err := store.Open(store.Options{Path: path, Durability: store.Normal, NowMs: time.Now().UnixMilli()})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	s := open()
	tx, err := s.Begin()
	if err != nil {
		b.Fatal(err)
	}
	nowMs := time.Now().UnixMilli()
	for i := range n {
		id := fmt.Sprintf("%08x-9b1c-4f0e-8a57-%012x", uint32(i)*2_654_435_761, i)
		definition := fmt.Sprintf(`{"id":%q,"name":"nightly report for tenant %d","description":"collects the figures of tenant %[2]d and writes them to the shared folder","enabled":true,"createdAtMs":%d,`+
			`"schedule":{"kind":"every","everyMs":7776000000,"anchorMs":%[3]d},"sessionTarget":"isolated","wakeMode":"now","payload":{"kind":"command","argv":["/usr/local/bin/report","--tenant","t-%[2]d",`+
			`"--out","/var/reports/t-%[2]d.json","--format","json"],"cwd":"/var/reports","env":{"TENANT":"t-%[2]d"}},"delivery":{"mode":"none"},"state":{}}`, id, i*7919%n, nowMs)
		state := fmt.Sprintf(`{"nextRunAtMs":%d,"rotaConsumedMs":%d,"lastRunAtMs":%[2]d,"lastRunStatus":"ok","lastStatus":"ok","lastDurationMs":2680,"lastDiagnostics":{"summary":"out",`+
			`"entries":[{"ts":%[2]d,"source":"exec","severity":"info","message":"command ok","exitCode":0}]},"consecutiveErrors":0}`, nowMs+86_400_000+int64(i*7919%n)*1000, nowMs)
		_, err := store.InsertJob(tx, store.JobRow{JobID: id, Definition: json.RawMessage(definition), State: json.RawMessage(state), SortOrder: int64(i), UpdatedAtMs: nowMs + int64(i*31%n),
			DefinitionColumns: store.DefinitionColumns{Name: "x", Enabled: true, PayloadKind: "command"}})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	s = open()
	w := worker.New(worker.Options{Store: s, BootID: "boot", LogID: "log", Log: quiet()})
	port := w.Port()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(b.Context()) }()
	<-w.Ready()
	b.Cleanup(func() {
		port.Done()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	h, err := New(Options{Worker: w, SocketPath: filepath.Join(b.TempDir(), "s"), DBPath: path, InstanceID: "i", Version: "test", NewID: func() string { return "" }, Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	return h
}

// BenchmarkListPage is a page of cron.list, in each of its orders.
func BenchmarkListPage(b *testing.B) {
	h := listHost(b, 10_000)
	for _, params := range []string{
		`{"limit":200}`,
		`{"limit":200,"compact":true}`,
		`{"limit":200,"offset":5000}`,
		`{"limit":200,"sortBy":"updatedAtMs","sortDir":"desc"}`,
		`{"limit":200,"sortBy":"name"}`,
		`{"limit":200,"query":"tenant 99"}`,
	} {
		b.Run(params, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, werr := h.Handle(b.Context(), "cron.list", json.RawMessage(params)); werr != nil {
					b.Fatal(werr)
				}
			}
		})
	}
}
