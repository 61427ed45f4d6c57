package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// historyRows is how many rows the benchmarks search: two million, or what
// ROTA_HISTORY_ROWS says, and few with -short.
func historyRows(b *testing.B) int {
	if n, err := strconv.Atoi(os.Getenv("ROTA_HISTORY_ROWS")); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 50_000
	}
	return 2_000_000
}

// longHistory makes a file with a long history.
func longHistory(b *testing.B, path string, rows int) {
	s, err := store.Open(store.Options{Path: path, Durability: store.Normal, NowMs: epoch})
	if err != nil {
		b.Fatal(err)
	}
	const part = 50_000
	for done := 0; done < rows; done += part {
		tx, err := s.Begin()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tx.Exec(fillHistory, min(part, rows-done), epoch-int64(rows-done)*1000, epoch+36_500*dayMs); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
		if _, err := s.Idle().Checkpoint(); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// serveHistory runs a worker on a file by the real clock.
func serveHistory(b *testing.B, path string) (w *Worker, stop func()) {
	s, err := store.Open(store.Options{Path: path, Durability: store.Normal, NowMs: time.Now().UnixMilli()})
	if err != nil {
		b.Fatal(err)
	}
	c := DefaultConfig()
	c.HistoryRowsPerJob = 10_000_000
	w = New(Options{Store: s, BootID: "b", LogID: "l", Config: c})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	<-w.Ready()
	return w, func() {
		cancel()
		w.Port().Done()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkHistory reads a long history: pages, a search through all of it, and
// how late slots are meanwhile.
func BenchmarkHistory(b *testing.B) {
	rows := historyRows(b)
	path := filepath.Join(b.TempDir(), "rota.sqlite")
	longHistory(b, path, rows)
	began := time.Now()
	w, stop := serveHistory(b, path)
	defer stop()
	read := func(b *testing.B, q RunsQuery) RunsPage {
		p, err := w.Runs(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	for !w.Snapshot().st.totals.known {
		if p := read(b, RunsQuery{Limit: 1}); p.Total != rows {
			b.Fatalf("%d of %d rows", p.Total, rows)
		}
	}
	b.Logf("all rows were counted %v after the start", time.Since(began).Round(time.Millisecond))
	for _, c := range []struct {
		name string
		q    RunsQuery
	}{
		{"page=first", RunsQuery{Limit: 50}},
		{"page=first/of=job", RunsQuery{JobID: "h3", Limit: 50}},
		{"page=deep", RunsQuery{Limit: 50, Offset: rows * 9 / 10}},
		{"page=deep/of=job", RunsQuery{JobID: "h3", Limit: 50, Offset: rows * 9 / 100}},
		{"search=text", RunsQuery{Query: "volume 13 done", Limit: 50}},
		{"search=nowhere", RunsQuery{Query: "nowhere", Limit: 50}},
		{"search=status", RunsQuery{Statuses: []string{"error"}, Limit: 50}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read(b, c.q)
			}
		})
	}
	for _, searches := range []int{0, 1, 4} {
		b.Run(fmt.Sprintf("lateness/searches=%d", searches), func(b *testing.B) { lateness(b, w, searches) })
	}
}

// lateness is how long after its slot a run is handed out, while searches go on.
func lateness(b *testing.B, w *Worker, searches int) {
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	for i := range 10 {
		id := fmt.Sprintf("due%d-%d-%d", searches, b.N, i)
		params := fmt.Sprintf(`{"name":%q,"schedule":{"kind":"every","everyMs":%d},"payload":{"kind":"command","argv":["/bin/true"]}}`, id, 1000+i*37)
		if _, err := w.Add(ctx, AddJob{ID: id, Params: json.RawMessage(params)}); err != nil {
			b.Fatal(err)
		}
		defer func() {
			if _, err := w.Remove(context.Background(), RemoveJob{ID: id}); err != nil {
				b.Error(err)
			}
		}()
	}
	for i := range searches {
		go func() {
			for ctx.Err() == nil {
				_, _ = w.Runs(ctx, RunsQuery{Query: fmt.Sprint("nowhere", i), Limit: 1}) // it ends with ctx
			}
		}()
	}
	port := w.Port()
	var late []float64
	for len(late) < max(300, b.N) {
		<-port.Ready
		for _, o := range port.Take() {
			if l := o.Launch; l != nil {
				now := time.Now()
				late = append(late, float64(now.UnixMicro())/1000-float64(l.SlotMs))
				port.Report(Outcome{ReceiptID: l.ReceiptID, Status: StatusOK, Kind: KindExit, StartedAtMs: now.UnixMilli(), EndedAtMs: now.UnixMilli()})
			}
		}
	}
	slices.Sort(late)
	b.ReportMetric(late[len(late)/2], "p50-ms")
	b.ReportMetric(late[len(late)*99/100], "p99-ms")
	b.ReportMetric(late[len(late)-1], "max-ms")
}
