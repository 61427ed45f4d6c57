package store

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A backup: how long it holds up the commits between its steps.
//
//	go test ./store -run '^$' -bench Backup -benchtime 1x
//
// step is how long one step of so many pages holds the connection, commit how long
// a commit between two steps takes. How late slots are during a backup is in the
// worker's BenchmarkLongHistory.

// fill commits about so many MiB of events.
func fill(tb testing.TB, s *Store, mebibytes int) {
	tb.Helper()
	detail := strings.Repeat("x", 1000)
	seq, err := int64(0), error(nil)
	for range mebibytes {
		tx, begun := s.Begin()
		if begun != nil {
			tb.Fatal(begun)
		}
		for range 900 {
			seq++
			if _, err = tx.Exec("INSERT INTO rota_events (seq, at_ms, kind, detail) VALUES (?, 1, 'noted', ?)", seq, detail); err != nil {
				tb.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			tb.Fatal(err)
		}
		if _, err := s.Idle().Checkpoint(); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkBackup copies a file of 200 MiB with a commit after every step, and
// says how long the steps and the commits between them take. The last step, which
// writes what the copy's cache holds, is among them.
func BenchmarkBackup(b *testing.B) {
	const mebibytes = 200
	s, err := Open(Options{Path: filepath.Join(b.TempDir(), "rota.sqlite"), NowMs: testNowMs})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	fill(b, s, mebibytes)
	for _, pages := range []int32{16, backupPages, 256} {
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			for range b.N {
				var steps, commits []time.Duration
				backup, err := s.Idle().Backup(filepath.Join(b.TempDir(), "copy.sqlite"))
				var done *Copy
				for err == nil && done == nil {
					at := time.Now()
					done, err = backup.step(pages)
					steps = append(steps, time.Since(at))
					if len(steps)%4 == 0 {
						at = time.Now()
						setMark(b, s, len(steps))
						commits = append(commits, time.Since(at))
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				last := steps[len(steps)-1]
				at := time.Now()
				if err := done.Publish(b.Context(), testNowMs); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(time.Since(at).Milliseconds()), "publish-ms")
				report(b, "step", steps)
				report(b, "commit", commits)
				b.ReportMetric(last.Seconds()*1000, "last-step-ms")
			}
		})
	}
}

func setMark(tb testing.TB, s *Store, n int) {
	tb.Helper()
	tx, err := s.Begin()
	if err == nil {
		err = SetMeta(tx, "mark", fmt.Sprint(n))
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func report(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	at := func(share float64) float64 { return took[int(share*float64(len(took)-1))].Seconds() * 1000 }
	b.ReportMetric(at(0.5), what+"-p50-ms")
	b.ReportMetric(at(0.99), what+"-p99-ms")
	b.ReportMetric(at(1), what+"-max-ms")
}
