package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/rota-scheduler/rota/store"
)

// A long history: what a page and a search cost, and how late slots are while
// everything that takes long goes on.
//
//	go test ./worker -run '^$' -bench LongHistory                          # about three minutes
//	ROTA_HISTORY_ROWS=100000 go test ./worker -run '^$' -bench LongHistory
//	go test ./worker -run '^$' -bench 'LongHistory/late'
//
// The file has two million runs of ten jobs and is made once. A page and a search
// are what a caller waits, with all turns that lie between its slices. late is on
// the real clock: 200 jobs that come due once a second, and how long after its
// slot each is handed out, first with nothing beside them (idle), then during
// each of a text search through all rows, a backup of the file and a sweep of
// retention, then during all at once. Read them against idle of the same run, and
// the maximum against a disk that others write to as well.

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
	s, err := store.Open(store.Options{Path: path, Durability: store.Normal, NowMs: time.Now().UnixMilli()})
	if err != nil {
		b.Fatal(err)
	}
	nowMs := time.Now().UnixMilli()
	inTx(b, s, func(tx *store.Tx) error { // random ids: with the usual cache each row would read the disk
		return tx.Query("PRAGMA cache_size = -1000000", nil, func(func(...any) error) error { return nil })
	})
	const part = 50_000
	for done := 0; done < rows; done += part {
		inTx(b, s, func(tx *store.Tx) error {
			_, err := tx.Exec(fillHistory, min(part, rows-done), nowMs-int64(rows-done)*1000, nowMs+36_500*dayMs)
			return err
		})
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}

// inTx does one transaction, and moves it out of the log.
func inTx(b *testing.B, s *store.Store, do func(*store.Tx) error) {
	b.Helper()
	tx, err := s.Begin()
	if err == nil {
		err = do(tx)
	}
	if err == nil {
		err = tx.Commit()
	}
	if err == nil {
		_, err = s.Idle().Checkpoint()
	}
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkLongHistory reads a long history, and serves jobs beside it.
func BenchmarkLongHistory(b *testing.B) {
	rows := historyRows(b)
	path := filepath.Join(b.TempDir(), "rota.sqlite")
	began := time.Now()
	longHistory(b, path, rows)
	b.Logf("the file was made in %v", time.Since(began).Round(time.Millisecond))
	cfg := DefaultConfig()
	cfg.MaxConcurrent, cfg.HistoryRowsPerJob = 1_000, 10_000_000
	began = time.Now()
	s := serveFile(b, path, store.Normal, cfg)
	read := func(b *testing.B, q RunsQuery) RunsPage {
		p, err := s.Runs(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		return p
	}
	for !s.Snapshot().st.totals.known {
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
	b.Run("late", func(b *testing.B) { benchmarkLate(b, s, rows) })
}

// lateFor is how long slots are watched beside each strain.
const lateFor = 4 * time.Second

// strain is something that takes long, done until ctx ends.
type strain struct {
	name string
	do   func(ctx context.Context)
}

func benchmarkLate(b *testing.B, s *served, rows int) {
	for i := range 10 { // the jobs whose history it is
		if _, err := s.Add(b.Context(), AddJob{ID: fmt.Sprint("h", i), Params: manyParams(i, `{"kind":"every","everyMs":7776000000}`)}); err != nil {
			b.Fatal(err)
		}
	}
	var launcher starts
	ctx, cancel := context.WithCancel(b.Context())
	var ended sync.WaitGroup
	ended.Go(func() { launcher.end(ctx, s.Port()) })
	defer ended.Wait()
	defer cancel()
	s.addTicking(200)
	backups := filepath.Join(b.TempDir(), "backup")
	strains := []strain{
		{"search", func(ctx context.Context) {
			for ctx.Err() == nil {
				_, _ = s.Runs(ctx, RunsQuery{Query: "nowhere", Limit: 1}) // it ends with ctx
			}
		}},
		{"backup", func(ctx context.Context) {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = s.Backup(ctx, Backup{Path: fmt.Sprint(backups, i), Nameless: true}) // it ends with ctx, or the disk is full
				_ = os.Remove(fmt.Sprint(backups, i) + ".part")
			}
		}},
		{"retention", func(ctx context.Context) {
			s.retainBelow(s.historyOf("h0") - rows/100)
			<-ctx.Done()
			s.retainBelow(10_000_000)
		}},
	}
	for _, c := range []struct {
		name   string
		beside []strain
	}{{"idle", nil}, {"search", strains[:1]}, {"backup", strains[1:2]}, {"retention", strains[2:]}, {"all", strains}} {
		b.Run(c.name, func(b *testing.B) {
			before := s.Snapshot().st.totals.all
			ctx, cancel := context.WithTimeout(b.Context(), lateFor)
			defer cancel()
			launcher.take()
			var busy sync.WaitGroup
			for _, x := range c.beside {
				busy.Go(func() { x.do(ctx) })
			}
			<-ctx.Done()
			late := launcher.take()
			busy.Wait()
			reportMs(b, "late", late)
			b.ReportMetric(float64(len(late)), "slots")
			b.ReportMetric(float64(max(0, before+len(late)-s.Snapshot().st.totals.all)), "retained-rows")
			b.ReportMetric(0, "ns/op") // it takes as long as it is watched
		})
	}
}

// retainBelow has retention look at once, with another bound.
func (s *served) retainBelow(rowsPerJob int) {
	s.cfg.Version, s.cfg.HistoryRowsPerJob = s.cfg.Version+1, rowsPerJob
	s.aheadMs.Add(retainEveryMs)
	s.Configure(s.cfg)
}

func (s *served) historyOf(jobID string) int { return s.Snapshot().st.totals.of(jobID) }
