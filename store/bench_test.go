package store

import (
	"path/filepath"
	"testing"
)

// Rows: the floor under every turn, and the codec of a job's state.
//
//	go test ./store -run '^$' -bench 'WriteTurn|State'
//	go test ./store -run '^$' -bench Backup      # in backup_bench_test.go
//
// A turn costs at least BenchmarkWriteTurn; the difference to
// BenchmarkDurableWriteTurn is the disk's sync. Each step of a run encodes its
// job's state once.

// BenchmarkWriteTurn is the floor of a turn that writes one row, without the
// disk: at durability Normal nothing waits for it.
func BenchmarkWriteTurn(b *testing.B) {
	o := options(filepath.Join(b.TempDir(), "rota.sqlite"))
	o.Durability = Normal
	benchmarkTurn(b, o)
}

// BenchmarkDurableWriteTurn adds the fsync.
func BenchmarkDurableWriteTurn(b *testing.B) {
	benchmarkTurn(b, options(filepath.Join(b.TempDir(), "rota.sqlite")))
}

func benchmarkTurn(b *testing.B, o Options) {
	s, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ { // an update that changes nothing would write nothing
		tx, err := s.Begin()
		if err == nil {
			_, err = tx.Exec("UPDATE rota_meta SET value = ? WHERE key = 'path'", n)
		}
		if err == nil {
			err = tx.Commit()
		}
		if err == nil && n%1000 == 999 {
			_, err = s.Idle().Checkpoint()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// stateText is the state of a job that has run, with a key of somebody else.
const stateText = `{"nextRunAtMs":1795964145281,"rotaConsumedMs":1795964085281,"lastRunAtMs":1795964149338,"lastRunStatus":"ok","lastStatus":"ok",` +
	`"lastDurationMs":2680,"lastDiagnostics":{"summary":"out","entries":[{"ts":1795964152002,"source":"exec","severity":"info","message":"command ok",` +
	`"exitCode":0}]},"consecutiveErrors":0,"consecutiveSkipped":0,"lastDeliveryStatus":"not-requested","theirs":{"kept":true}}`

// BenchmarkDecodeState reads a job's state from its bytes.
func BenchmarkDecodeState(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeState([]byte(stateText)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeState writes into those bytes what the steps of a run change.
func BenchmarkEncodeState(b *testing.B) {
	was, err := DecodeState([]byte(stateText))
	if err != nil {
		b.Fatal(err)
	}
	requested := *was
	requested.QueuedAtMs, requested.NextRunAtMs, requested.RotaConsumedMs = Some(1795964145283), Some(1795964205281), Some(1795964145281)
	ended := *was
	ended.LastRunAtMs, ended.LastDurationMs, ended.LastDiagnostics = Some(1795964145284), Some(12), nil
	for _, c := range []struct {
		name string
		is   *State
	}{{"request", &requested}, {"settle", &ended}} {
		b.Run(c.name, func(b *testing.B) {
			var room [256]byte
			b.ReportAllocs()
			for b.Loop() {
				if _, err := EncodeState([]byte(stateText), was, c.is, room[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
