package job

import "testing"

// The codec of a job: reading its bytes, and making them of a client's params.
//
//	go test ./worker/job -run '^$' -bench .
//
// BenchmarkDecode and BenchmarkSetState are in list_bench_test.go; the state's own
// codec is in the store.

var createParams = []byte(`{"name":"nightly report for tenant 7","description":"collects the figures of tenant 7 and writes them to the shared folder",` +
	`"schedule":{"kind":"cron","expr":"30 2 * * *","tz":"Europe/Berlin"},"payload":{"kind":"command","argv":["/usr/local/bin/report","--tenant","t-7",` +
	`"--out","/var/reports/t-7.json","--format","json"],"cwd":"/var/reports","env":{"TENANT":"t-7"}}}`)

// BenchmarkCreate checks the params of a new job and encodes its definition.
func BenchmarkCreate(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Create("0a1b2c3d-0000-4000-8000-000000000000", createParams, Env{NowMs: 1_795_964_145_281}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeCreated reads that definition.
func BenchmarkDecodeCreated(b *testing.B) {
	created, err := Create("0a1b2c3d-0000-4000-8000-000000000000", createParams, Env{NowMs: 1_795_964_145_281})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(created.Definition); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRevision is the fingerprint of a definition that each receipt holds.
func BenchmarkRevision(b *testing.B) {
	created, err := Create("0a1b2c3d-0000-4000-8000-000000000000", createParams, Env{NowMs: 1_795_964_145_281})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		Revision(created.Definition)
	}
}
