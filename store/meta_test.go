package store

import (
	"strings"
	"testing"
)

// createMissing leaves out what a file has, so every statement of the schema
// must be found by its table.
func TestTheSchemaIsCutIntoItsStatements(t *testing.T) {
	all, err := splitDDL(cronTablesSQL + "\n" + rotaTablesSQL)
	if err != nil {
		t.Fatal(err)
	}
	created := map[string]bool{}
	for _, d := range all {
		if strings.HasPrefix(d.text, createTable) {
			created[d.table] = true
		} else if !created[d.table] {
			t.Errorf("an index before its table, or of none: %s", d.text)
		}
	}
	for _, want := range []string{"cron_jobs", "cron_run_receipts", "cron_job_scratch", "cron_job_runtime_authorities", "task_runs", "rota_meta"} {
		if !created[want] {
			t.Errorf("%s is not created", want)
		}
	}
	if strings.Count(cronTablesSQL+rotaTablesSQL, "CREATE ") != len(all) {
		t.Errorf("%d statements found, %d written", len(all), strings.Count(cronTablesSQL+rotaTablesSQL, "CREATE "))
	}
	for _, bad := range []string{"DROP TABLE cron_jobs;\n", "CREATE TRIGGER t AFTER INSERT ON cron_jobs BEGIN SELECT 1", "CREATE TABLE x (a)"} {
		if _, err := splitDDL(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestStartMeta(t *testing.T) {
	o := Options{MachineID: "m1", NowMs: 7}
	was := map[string]string{metaFileID: "f", metaStart: "4", metaEpoch: "2", metaMachine: "m0"}
	for _, c := range []struct {
		name      string
		lock      lockRecord
		takenOver bool
		start     string
		epoch     string
		adopted   string
	}{
		{"an ordinary start", lockRecord{fileID: "f", startNumber: 4}, false, "5", "2", ""},
		{"the lock is of another file", lockRecord{fileID: "g", startNumber: 90}, false, "5", "2", ""},
		{"a roll-back that is adopted", lockRecord{fileID: "f", startNumber: 8}, true, "9", "3", "7"},
	} {
		is := startMeta(o, "/p", "k", "f", was, c.lock, c.takenOver)
		if is[metaStart] != c.start || is[metaEpoch] != c.epoch || is[metaAdopted] != c.adopted || is[metaMachine] != "m1" || is[metaClean] != "0" {
			t.Errorf("%s: %v", c.name, is)
		}
	}
	if is := startMeta(Options{}, "/p", "k", "f", was, lockRecord{}, false); is[metaMachine] != "m0" {
		t.Errorf("an unknown machine took over: %v", is)
	}
}
