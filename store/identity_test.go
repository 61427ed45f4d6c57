package store

import (
	"bytes"
	"database/sql"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// sqlFile makes a database of somebody else's, closed and in the old journal mode.
func sqlFile(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range statements {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// ours makes a closed file of rota's with one row.
func ours(t *testing.T, path string) {
	t.Helper()
	s := mustOpen(t, options(path))
	write(t, s, "kept")
	mustClose(t, s)
}

// killed makes a file that a killed process left, with rows in its log alone.
func killed(t *testing.T, path string) { killedAs(t, "write", path) }

func killedAs(t *testing.T, role, path string) {
	t.Helper()
	c := startChild(t, role, path)
	if got := c.line(); !strings.HasPrefix(got, "serving") {
		t.Fatal(got)
	}
	c.kill(t)
}

func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	writeFile(t, path, change(readFile(t, path)))
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// damaged is every file that Open refuses, each with its own words.
var damaged = []struct {
	name string
	make func(t *testing.T, path string)
	code Code
	says string
	hint string
	exit int
}{
	{"Case035a_first_100_bytes_zeroed", func(t *testing.T, path string) {
		ours(t, path)
		edit(t, path, func(b []byte) []byte { return append(make([]byte, 100), b[100:]...) })
	}, CodeNotADatabase, "first bytes", "rota restore BACKUP --db ", 78},
	{"Case035b_cut_in_half", func(t *testing.T, path string) {
		ours(t, path)
		edit(t, path, func(b []byte) []byte { return b[:len(b)/2] })
	}, CodeTruncated, "cut short", "rota restore BACKUP --db ", 78},
	{"Case035c_no_bytes", func(t *testing.T, path string) {
		ours(t, path)
		edit(t, path, func([]byte) []byte { return nil })
	}, CodeEmpty, "no bytes", "rota restore BACKUP --db ", 78},
	{"Case035d_removed_but_for_its_log", func(t *testing.T, path string) {
		killed(t, path)
		remove(t, path)
	}, CodeStaleWAL, "the database itself is missing", "mv ", 78},
	{"an_empty_log_alone", func(t *testing.T, path string) {
		writeFile(t, path+"-wal", nil)
	}, CodeStaleWAL, "the database itself is missing", "mv ", 78},
	{"a_journal_alone", func(t *testing.T, path string) {
		writeFile(t, path+"-journal", []byte("pages"))
	}, CodeStaleWAL, "the database itself is missing", "put the database", 78},
	{"a_text", func(t *testing.T, path string) {
		writeFile(t, path, []byte("dear diary"))
	}, CodeNotADatabase, "not an SQLite database", "rota restore", 78},
	{"a_header_without_a_page", func(t *testing.T, path string) {
		writeFile(t, path, []byte(headerMagic))
	}, CodeTruncated, "16 bytes", "rota restore", 78},
	{"another_programs_database", func(t *testing.T, path string) {
		sqlFile(t, path, "PRAGMA application_id=42", "CREATE TABLE songs (title TEXT)")
	}, CodeForeign, "another program", "--db FILE", 78},
	{"a_database_without_tables", func(t *testing.T, path string) {
		sqlFile(t, path, "PRAGMA user_version=3")
	}, CodeForeign, "another program", "--db FILE", 78},
	{"a_newer_schema", func(t *testing.T, path string) {
		ours(t, path)
		sqlFile(t, path, "UPDATE rota_meta SET value='99' WHERE key='schema_version'")
	}, CodeNewerSchema, "its schema is 99", "rota doctor --db ", 78},
	{"a_copy_without_its_log", func(t *testing.T, path string) {
		live := filepath.Join(t.TempDir(), "live.sqlite")
		killed(t, live)
		writeFile(t, path, readFile(t, live))
	}, CodeMissingWAL, "its -wal file is missing", "--adopt", 78},
	{"an_older_copy_beside_a_newer_log", func(t *testing.T, path string) {
		ours(t, path)
		older := readFile(t, path)
		killed(t, path)
		writeFile(t, path, older)
	}, CodeStaleWAL, "the database is of start 1, the log of start 2", "mv ", 78},
	{"another_database_beside_a_log", func(t *testing.T, path string) {
		other := filepath.Join(t.TempDir(), "other.sqlite")
		ours(t, other)
		killedAs(t, "write-meta", path)
		writeFile(t, path, readFile(t, other))
	}, CodeStaleWAL, "the log is of another database", "mv ", 78},
	{"a_page_of_zeros", func(t *testing.T, path string) {
		ours(t, path)
		edit(t, path, func(b []byte) []byte {
			copy(b[4096:], make([]byte, 4096))
			return b
		})
	}, CodeCorrupt, "damaged", "rota restore", 78},
	{"the_job_table_dropped", func(t *testing.T, path string) {
		ours(t, path)
		sqlFile(t, path, "DROP TABLE cron_job_runtime_authorities", "DROP TABLE cron_jobs")
	}, CodeCorrupt, "the table of jobs is gone", "rota restore", 78},
	{"a_directory", func(t *testing.T, path string) {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}, CodeBadPath, "there is a directory here", "--db FILE", 78},
}

func TestDamagedAndForeignFilesAreRefused(t *testing.T) {
	messages := map[string]string{}
	for _, d := range damaged {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "rota.sqlite")
			d.make(t, path)
			before := listing(t, dir)
			for range 2 { // what is refused once is not accepted at a second try
				s, err := Open(options(path))
				if err == nil {
					_ = s.abandon()
					t.Fatal("it was opened")
				}
				var e *Error
				if !errors.As(err, &e) || e.Code != d.code || e.ExitCode() != d.exit {
					t.Fatalf("got %v, want code %s and exit %d", err, d.code, d.exit)
				}
				if !strings.Contains(err.Error(), d.says) || !strings.Contains(err.Error(), e.Path) {
					t.Errorf("%q lacks %q or the path", err, d.says)
				}
				if !strings.Contains(e.Hint, d.hint) {
					t.Errorf("the hint %q lacks %q", e.Hint, d.hint)
				}
				if after := listing(t, dir); !maps.Equal(before, after) {
					t.Errorf("refusing changed the files:\nwas %v\nis  %v", before, after)
				}
			}
		})
	}
	for code, s := range saidByCode {
		if other, ok := messages[s.sentence]; ok {
			t.Errorf("%s and %s say the same", code, other)
		}
		messages[s.sentence] = string(code)
	}
}

func TestPathsWhereNothingCanBeKept(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "file"), nil)
	paths := []string{"", filepath.Join(dir, "file", "rota.sqlite")}
	if runtime.GOOS != "windows" {
		loop := filepath.Join(dir, "loop")
		if err := os.Symlink(loop, loop); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, loop)
	}
	for _, path := range paths {
		if _, err := Open(options(path)); CodeOf(err) != CodeBadPath {
			t.Errorf("%q: got %v, want %s", path, err, CodeBadPath)
		}
	}
}

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
