package job

import (
	"fmt"
	"testing"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// tenThousand are rows of the size that a ticking command job has.
func tenThousand() []Row {
	rows := make([]Row, 10_000)
	for i := range rows {
		rows[i] = Row{
			ID: fmt.Sprintf("%08x-0000-4000-8000-000000000000", i*2654435761),
			Definition: []byte(fmt.Sprintf(`{"id":"x","name":"job %d","enabled":true,"createdAtMs":1795964145281,"schedule":{"kind":"every","everyMs":3600000,"anchorMs":1795964145281},`+
				`"sessionTarget":"isolated","wakeMode":"now","payload":{"kind":"command","argv":["/bin/sh","-c","echo out; echo err >&2; sleep 1"]},"delivery":{"mode":"none"},"state":{}}`, i)),
			State: []byte(fmt.Sprintf(`{"nextRunAtMs":%d,"lastRunAtMs":1795964149338,"lastRunStatus":"ok","lastStatus":"ok","lastDurationMs":2680,"lastDiagnostics":{"summary":"out","entries":[{"ts":1795964152002,"source":"exec","severity":"info","message":"command ok","exitCode":0}]},"consecutiveErrors":0}`, 1795964145281+i%977)),
		}
	}
	return rows
}

func BenchmarkDecode(b *testing.B) {
	r := tenThousand()[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(r.Definition); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSetState is the edit that every run makes to its job's state.
func BenchmarkSetState(b *testing.B) {
	r := tenThousand()[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rawjson.Set(r.State, rawjson.Member{Key: "nextRunAtMs", Value: []byte("1795964145999")}, rawjson.Member{Key: "lastError"}); err != nil {
			b.Fatal(err)
		}
	}
}
