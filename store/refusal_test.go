package store

import (
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
	}, CodeNotADatabase, "first bytes", "rota serve --db ", 78},
	{"Case035b_cut_in_half", func(t *testing.T, path string) {
		ours(t, path)
		edit(t, path, func(b []byte) []byte { return b[:len(b)/2] })
	}, CodeTruncated, "cut short", "rota serve --db ", 78},
	{"Case035c_no_bytes", func(t *testing.T, path string) {
		ours(t, path)
		edit(t, path, func([]byte) []byte { return nil })
	}, CodeEmpty, "no bytes", "rota serve --db ", 78},
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
	}, CodeNotADatabase, "not an SQLite database", "put a backup in its place", 78},
	{"a_header_without_a_page", func(t *testing.T, path string) {
		writeFile(t, path, []byte(headerMagic))
	}, CodeTruncated, "16 bytes", "put a backup in its place", 78},
	{"another_programs_database", func(t *testing.T, path string) {
		sqlFile(t, path, "PRAGMA application_id=42", "CREATE TABLE songs (title TEXT)")
	}, CodeForeign, "another program", "--db FILE", 78},
	{"a_database_without_tables", func(t *testing.T, path string) {
		sqlFile(t, path, "PRAGMA user_version=3")
	}, CodeForeign, "another program", "--db FILE", 78},
	{"a_newer_schema", func(t *testing.T, path string) {
		ours(t, path)
		sqlFile(t, path, "UPDATE rota_meta SET value='99' WHERE key='schema_version'")
	}, CodeNewerSchema, "its schema is 99", "rota version", 78},
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
	}, CodeCorrupt, "damaged", "put a backup in its place", 78},
	{"the_job_table_dropped", func(t *testing.T, path string) {
		ours(t, path)
		sqlFile(t, path, "DROP TABLE cron_job_runtime_authorities", "DROP TABLE cron_jobs")
	}, CodeCorrupt, "the table of jobs is gone", "put a backup in its place", 78},
	{"a_directory", func(t *testing.T, path string) {
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
	}, CodeBadPath, "there is a directory here", "--db FILE", 78},
}

func TestDamagedAndForeignFilesAreRefused(t *testing.T) {
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
