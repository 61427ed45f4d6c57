package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkLatenessDuringABackup has two hundred slots come due each second on a
// file of 200 MiB, and says how late their launches are handed out, alone and
// while a backup is made.
func BenchmarkLatenessDuringABackup(b *testing.B) {
	s := serve(b)
	port := s.Port()
	var mu sync.Mutex
	var late []float64
	ctx, cancel := context.WithCancel(context.Background())
	var launcher sync.WaitGroup
	launcher.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-port.Ready:
			}
			for _, o := range port.Take() {
				if l := o.Launch; l != nil {
					now := time.Now()
					mu.Lock()
					late = append(late, float64(now.UnixMicro())/1000-float64(l.SlotMs))
					mu.Unlock()
					port.Report(Outcome{ReceiptID: l.ReceiptID, Status: StatusOK, StartedAtMs: now.UnixMilli(), EndedAtMs: now.UnixMilli()})
				}
			}
		}
	})
	defer launcher.Wait()
	defer cancel()
	const mebibytes = 200
	for i := range mebibytes {
		if _, err := s.Add(b.Context(), AddJob{ID: fmt.Sprintf("big-%03d", i), Params: params("big", 1<<20-4096)}); err != nil {
			b.Fatal(err)
		}
	}
	began := time.Now().UnixMilli()
	for i := range 200 {
		params := json.RawMessage(fmt.Sprintf(`{"name":"n","schedule":{"kind":"every","everyMs":1000,"anchorMs":%d},"sessionTarget":"isolated",
			"payload":{"kind":"command","argv":["true"]}}`, began+int64(i*5)))
		if _, err := s.Add(b.Context(), AddJob{ID: fmt.Sprintf("due-%03d", i), Params: params}); err != nil {
			b.Fatal(err)
		}
	}
	report := func(b *testing.B, what string) {
		mu.Lock()
		defer mu.Unlock()
		slices.Sort(late)
		for name, share := range map[string]float64{"p50": 0.5, "p99": 0.99, "max": 1} {
			b.ReportMetric(late[int(share*float64(len(late)-1))], what+"-"+name+"-ms")
		}
		b.ReportMetric(float64(len(late)), what+"-slots")
		late = nil
	}
	out := b.TempDir()
	for _, nameless := range []bool{true, false} {
		b.Run(fmt.Sprintf("nameless=%v", nameless), func(b *testing.B) {
			mu.Lock()
			late = nil
			mu.Unlock()
			alone, stop := context.WithTimeout(b.Context(), 3*time.Second)
			<-alone.Done()
			stop()
			report(b, "alone")
			for i := range b.N {
				made, err := s.Backup(b.Context(), Backup{Path: filepath.Join(out, fmt.Sprint(nameless, b.N, i)), Nameless: nameless})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(made.TookMs), "backup-ms")
			}
			report(b, "backup")
		})
	}
}
