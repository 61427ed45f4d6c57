package store

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log that belongs to its file, in every state a kill can leave, is no stray.
func TestJudge(t *testing.T) {
	meta := func(pairs ...string) map[string]string {
		m := map[string]string{metaSchema: "1", metaFileID: "f", metaMachine: "m1", metaStart: "5", metaClean: "0"}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return m
	}
	file := func(m map[string]string) facts {
		return facts{applicationID: applicationID, tables: map[string]bool{"cron_jobs": true, "rota_meta": true}, meta: m}
	}
	foreign := func(partitions ...string) facts {
		return facts{tables: map[string]bool{"cron_jobs": true}, meta: map[string]string{}, partitions: partitions}
	}
	withLog := files{main: true, wal: true, walBytes: 4152}
	alone := files{main: true}
	lock := lockRecord{fileID: "f", startNumber: 5}
	for _, c := range []struct {
		name       string
		files      files
		main, view facts
		lock       lockRecord
		machine    string
		adopt      bool
		refuse     Code
		fence      string
	}{
		{"closed cleanly", alone, file(meta(metaClean, "1")), file(meta(metaClean, "1")), lock, "m1", false, "", ""},
		{"killed while serving", withLog, file(meta()), file(meta()), lock, "m1", false, "", ""},
		{"killed with an empty log", files{main: true, wal: true}, file(meta()), file(meta()), lock, "m1", false, "", ""},
		{"killed between commit and checkpoint of a start", withLog, file(meta(metaClean, "1")), file(meta(metaStart, "6")), lock, "m1", false, "", ""},
		{"killed before the lock learned the start", withLog, file(meta(metaStart, "6")), file(meta(metaStart, "6")), lock, "m1", false, "", ""},
		{"killed while closing", withLog, file(meta()), file(meta(metaClean, "1")), lock, "m1", false, "", ""},
		{"the lock file was lost", withLog, file(meta()), file(meta()), lockRecord{}, "m1", false, "", ""},
		{"another database had this name", alone, file(meta(metaClean, "1")), file(meta(metaClean, "1")), lockRecord{fileID: "g", startNumber: 70}, "m1", false, "", ""},
		{"the machine is not known now", alone, file(meta(metaClean, "1")), file(meta(metaClean, "1")), lock, "", false, "", ""},
		{"the machine was not known then", alone, file(meta(metaClean, "1", metaMachine, "")), file(meta(metaClean, "1", metaMachine, "")), lock, "m1", false, "", ""},

		{"a log of another database", withLog, file(meta()), file(meta(metaFileID, "g")), lock, "m1", false, CodeStaleWAL, ""},
		{"a log of a later start, lock known", withLog, file(meta(metaStart, "3", metaClean, "1")), file(meta(metaStart, "3", metaClean, "1")), lock, "m1", false, CodeStaleWAL, ""},
		{"a log of a later start, lock lost", withLog, file(meta(metaStart, "3", metaClean, "1")), file(meta()), lockRecord{}, "m1", false, CodeStaleWAL, ""},
		{"adopting does not help against it", withLog, file(meta(metaStart, "3")), file(meta()), lockRecord{}, "m1", true, CodeStaleWAL, ""},
		{"no log and no clean mark", alone, file(meta()), file(meta()), lock, "m1", false, CodeMissingWAL, ""},
		{"the same, adopted", alone, file(meta()), file(meta()), lock, "m1", true, "", ""},

		{"another machine", alone, file(meta(metaClean, "1")), file(meta(metaClean, "1")), lockRecord{}, "m2", false, "", "another machine"},
		{"another machine, adopted", alone, file(meta(metaClean, "1")), file(meta(metaClean, "1")), lockRecord{}, "m2", true, "", ""},
		{"an older file", alone, file(meta(metaStart, "4", metaClean, "1")), file(meta(metaStart, "4", metaClean, "1")), lock, "m1", false, "", "older than what ran here last"},
		{"somebody's jobs", alone, foreign("k"), foreign("k"), lockRecord{}, "m1", false, "", "another program"},
		{"somebody's file without jobs", alone, foreign(), foreign(), lockRecord{}, "m1", false, "", ""},
	} {
		got := judge(evidence{files: c.files, main: &c.main, view: c.view, lock: c.lock, machine: c.machine, adopt: c.adopt})
		if got.refuse != c.refuse || (got.fence == "") != (c.fence == "") || !strings.Contains(got.fence, c.fence) {
			t.Errorf("%s: refused %q, fenced %q; want %q, %q", c.name, got.refuse, got.fence, c.refuse, c.fence)
		}
	}
}

func TestACopyOnAnotherMachineIsFencedUntilAdopted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rota.sqlite")
	ours(t, path)
	elsewhere := options(path)
	elsewhere.MachineID = "m2"
	before := readFile(t, path)

	s := mustOpen(t, elsewhere)
	if s.Fenced() == "" || s.StartNumber() != 1 {
		t.Fatalf("fenced %q, start %d", s.Fenced(), s.StartNumber())
	}
	if got := plan(t, s); got != "kept" {
		t.Errorf("a fenced file shows %q", got)
	}
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	_, err = tx.Exec("DELETE FROM rota_plan")
	if CodeOf(err) != CodeFenced || EndsTurn(err) {
		t.Errorf("a write says %v (ends the turn: %v)", err, EndsTurn(err))
	}
	err = tx.Query("DELETE FROM rota_plan RETURNING job_id", nil, func(func(...any) error) error { return nil })
	if CodeOf(err) != CodeFenced {
		t.Errorf("a write in disguise says %v", err)
	}
	if err := tx.Commit(); CodeOf(err) != CodeFenced {
		t.Errorf("the commit says %v", err)
	}
	if c, err := s.Idle().Checkpoint(); err != nil || c != (Checkpoint{}) {
		t.Errorf("a checkpoint says %v, %v", c, err)
	}
	if err := s.Reopen(); err != nil || s.Fenced() == "" || plan(t, s) != "kept" {
		t.Errorf("after Reopen: %v, fenced %q", err, s.Fenced())
	}
	mustClose(t, s)
	if !bytes.Equal(before, readFile(t, path)) {
		t.Error("a fenced file was changed")
	}

	elsewhere.Adopt = true
	s = mustOpen(t, elsewhere)
	if s.Fenced() != "" || s.Epoch() != 2 || s.StartNumber() != 2 {
		t.Errorf("adopted: fenced %q, epoch %d, start %d", s.Fenced(), s.Epoch(), s.StartNumber())
	}
	mustClose(t, s)
	elsewhere.Adopt = false
	s = mustOpen(t, elsewhere)
	if s.Fenced() != "" || s.Epoch() != 2 {
		t.Errorf("the start after: fenced %q, epoch %d", s.Fenced(), s.Epoch())
	}
	mustClose(t, s)
	s = mustOpen(t, options(path))
	if s.Fenced() == "" {
		t.Error("the first machine may still write what the second has adopted")
	}
	mustClose(t, s)
}

func TestAMovedFileIsNoCopy(t *testing.T) {
	base := t.TempDir()
	was, is := filepath.Join(base, "was"), filepath.Join(base, "is")
	ours(t, filepath.Join(was, "rota.sqlite"))
	if err := os.Rename(was, is); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, options(filepath.Join(is, "rota.sqlite")))
	if path, err := s.session.text("SELECT value FROM rota_meta WHERE key='path'"); s.Fenced() != "" || path != s.Path() {
		t.Errorf("fenced %q, path in the file %s (%v)", s.Fenced(), path, err)
	}
	mustClose(t, s)
}

func TestARolledBackFileIsFenced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	ours(t, path)
	older := readFile(t, path)
	ours2 := mustOpen(t, options(path))
	write(t, ours2, "later")
	mustClose(t, ours2)
	writeFile(t, path, older)

	s := mustOpen(t, options(path))
	if !strings.Contains(s.Fenced(), "start 1, where start 2 was seen") || plan(t, s) != "kept" {
		t.Errorf("fenced %q", s.Fenced())
	}
	mustClose(t, s)
	adopt := options(path)
	adopt.Adopt = true
	s = mustOpen(t, adopt)
	if s.Fenced() != "" || s.StartNumber() != 3 {
		t.Errorf("adopted: fenced %q, start %d, want 3", s.Fenced(), s.StartNumber())
	}
	mustClose(t, s)
	s = mustOpen(t, options(path))
	if s.Fenced() != "" {
		t.Errorf("the start after is fenced: %s", s.Fenced())
	}
	mustClose(t, s)
}

func TestAMissingLogCanBeAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	killed(t, path)
	remove(t, path+"-wal")
	o := options(path)
	o.Adopt = true
	s := mustOpen(t, o)
	if s.CleanStart() || s.Epoch() != 2 || plan(t, s) != "" {
		t.Errorf("clean %v, epoch %d, rows %q", s.CleanStart(), s.Epoch(), plan(t, s))
	}
	mustClose(t, s)
}

// An OpenClaw state database, as far as its cron part is known to rota: no
// grant columns, no receipts table yet, two partitions.
var openClawSQL = []string{
	"PRAGMA user_version=17",
	"CREATE TABLE schema_meta (meta_key TEXT PRIMARY KEY, role TEXT NOT NULL, schema_version INTEGER NOT NULL) STRICT",
	"INSERT INTO schema_meta VALUES ('primary', 'global', 17)",
	`CREATE TABLE cron_jobs (store_key TEXT NOT NULL, job_id TEXT NOT NULL, declaration_key TEXT, owner_agent_id TEXT,
		name TEXT NOT NULL, description TEXT, enabled INTEGER NOT NULL, agent_id TEXT, payload_kind TEXT NOT NULL,
		job_json TEXT NOT NULL, state_json TEXT NOT NULL DEFAULT '{}', runtime_updated_at_ms INTEGER,
		schedule_identity TEXT, sort_order INTEGER NOT NULL DEFAULT 0, updated_at INTEGER NOT NULL,
		PRIMARY KEY (store_key, job_id)) STRICT`,
	`INSERT INTO cron_jobs (store_key, job_id, name, enabled, payload_kind, job_json, updated_at) VALUES
		('/a/jobs.json', '1', 'n', 1, 'command', '{}', 1),
		('/b/jobs.json', '2', 'n', 1, 'command', '{}', 1), ('/b/jobs.json', '3', 'n', 1, 'command', '{}', 1)`,
}

func TestAnOpenClawFileOpensInPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "openclaw.sqlite")
	sqlFile(t, path, openClawSQL...)
	before := readFile(t, path)
	s := mustOpen(t, options(path))
	if s.Fenced() == "" || s.Made() || s.StoreKey() != "/b/jobs.json" || !s.CleanStart() {
		t.Errorf("fenced %q, made %v, key %q, clean %v", s.Fenced(), s.Made(), s.StoreKey(), s.CleanStart())
	}
	if got := plan(t, s); got != "" { // a table the file does not have
		t.Errorf("rows %q", got)
	}
	mustClose(t, s)
	if !bytes.Equal(before, readFile(t, path)) {
		t.Error("a fenced file was changed")
	}

	o := options(path)
	o.Adopt, o.StoreKey = true, "/a/jobs.json"
	mustClose(t, mustOpen(t, o))
	s = mustOpen(t, options(path))
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if s.Fenced() != "" || s.Made() || tx.StoreKey() != "/a/jobs.json" || tx.Shape().GrantColumns {
		t.Errorf("fenced %q, made %v, key %q, shape %+v", s.Fenced(), s.Made(), tx.StoreKey(), tx.Shape())
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int64{
		"PRAGMA user_version":   17,
		"PRAGMA application_id": 0,
		"SELECT count(*) FROM sqlite_schema WHERE tbl_name='cron_jobs' AND type='index' AND sql IS NOT NULL": 0,
		"SELECT count(*) FROM sqlite_schema WHERE name='cron_run_receipts'":                                  1,
		"SELECT count(*) FROM pragma_table_info('cron_jobs')":                                                15,
	} {
		if got, err := s.session.number(query); err != nil || got != want {
			t.Errorf("%s: %d (%v), want %d", query, got, err, want)
		}
	}
	mustClose(t, s)
}

// The owner of the file adds a column to the receipts at version 20: a table
// created for it before must lack it, and one created after must have it.
func TestMissingTablesHaveTheShapeOfTheFilesVersion(t *testing.T) {
	for _, c := range []struct {
		name  string
		more  []string
		wants int64
	}{
		{"17", nil, 0},
		{"17 that contains 19", []string{noteTable, "INSERT INTO config_machine_state VALUES ('state.schema.contentVersion', '19', 1)"}, 0},
		{"17 that contains 20", []string{noteTable, "INSERT INTO config_machine_state VALUES ('state.schema.contentVersion', '20', 1)"}, 1},
		{"20", []string{"PRAGMA user_version=20"}, 1},
	} {
		path := filepath.Join(t.TempDir(), "openclaw.sqlite")
		sqlFile(t, path, append(openClawSQL[:len(openClawSQL):len(openClawSQL)], c.more...)...)
		for _, adopt := range []bool{false, true} {
			o := options(path)
			o.Adopt = adopt
			s := mustOpen(t, o)
			got, err := s.session.number("SELECT count(*) FROM pragma_table_info('cron_run_receipts') WHERE name = 'delivery_attempt_state'")
			if err != nil || got != c.wants {
				t.Errorf("version %s, adopted %v: %d delivery columns (%v), want %d", c.name, adopt, got, err, c.wants)
			}
			mustClose(t, s)
		}
	}
	if !strings.Contains(cronTablesSQL, deliveryColumn) {
		t.Error("the schema words the delivery column differently")
	}
}

const noteTable = "CREATE TABLE config_machine_state (state_key TEXT PRIMARY KEY, value_json TEXT NOT NULL, updated_at_ms INTEGER NOT NULL) STRICT"

// A file of the other program that has no jobs has nothing to protect.
func TestAnOpenClawFileWithoutJobsIsServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "openclaw.sqlite")
	sqlFile(t, path, openClawSQL[:4]...)
	s := mustOpen(t, options(path))
	if s.Fenced() != "" || s.Made() || s.StoreKey() != "rota" {
		t.Errorf("fenced %q, made %v, key %q", s.Fenced(), s.Made(), s.StoreKey())
	}
	write(t, s, "one")
	mustClose(t, s)
	s = mustOpen(t, options(path))
	if s.Fenced() != "" || plan(t, s) != "one" {
		t.Errorf("the next start: fenced %q", s.Fenced())
	}
	mustClose(t, s)
}
