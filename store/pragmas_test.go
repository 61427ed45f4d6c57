package store

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/sqlite"
)

func TestSettingsAreReadBack(t *testing.T) {
	for _, d := range []Durability{Full, Normal} {
		o := options(filepath.Join(t.TempDir(), "rota.sqlite"))
		o.Durability = d
		s := mustOpen(t, o)
		sync := map[Durability]string{Full: "2", Normal: "1"}[d]
		for name, want := range map[string]string{
			"journal_mode": "wal", "synchronous": sync, "locking_mode": "exclusive", "foreign_keys": "1",
			"trusted_schema": "0", "cell_size_check": "1", "temp_store": "2", "cache_size": "-32000", "mmap_size": "0",
			"wal_autocheckpoint": "0", "journal_size_limit": "67108864", "fullfsync": "1", "checkpoint_fullfsync": "1",
			"busy_timeout": "1000", "page_size": "4096", "user_version": "0", "application_id": "1919906913",
		} {
			if got, err := s.session.text("PRAGMA " + name); err != nil || got != want {
				t.Errorf("%s: %s is %q (%v), want %q", d, name, got, err, want)
			}
		}
		if err := s.Reopen(); err != nil {
			t.Fatal(err)
		}
		if err := s.session.assertSettings(d, "wal"); err != nil {
			t.Errorf("after Reopen: %v", err)
		}
		// A setting that did not take must not pass. Two have no wrong value
		// that an open connection would take.
		wrong := map[string]string{
			"busy_timeout": "3", "synchronous": "0", "foreign_keys": "0", "trusted_schema": "1", "cell_size_check": "0",
			"temp_store": "1", "cache_size": "-10", "wal_autocheckpoint": "7", "journal_size_limit": "9",
			"fullfsync": "0", "checkpoint_fullfsync": "0",
		}
		if len(wrong)+2 != len(settings(d)) { // locking_mode, mmap_size
			t.Errorf("%d settings, %d tried", len(settings(d)), len(wrong))
		}
		for name, value := range wrong {
			was, err := s.session.text("PRAGMA " + name)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.session.exec("PRAGMA " + name + "=" + value); err != nil {
				t.Fatal(err)
			}
			if err := s.session.assertSettings(d, "wal"); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s=%s was not noticed: %v", name, value, err)
			}
			if err := s.session.exec("PRAGMA " + name + "=" + was); err != nil {
				t.Fatal(err)
			}
		}
		mustClose(t, s)
	}
}

// With the exclusive lock the index of the log lives in memory: a -shm file
// would mean that others could take part.
func TestTheConnectionIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rota.sqlite")
	s := mustOpen(t, options(path))
	write(t, s, "a")
	if _, err := os.Lstat(path + "-shm"); err == nil {
		t.Error("there is a -shm file")
	}
	mustClose(t, s)
	// Also after a kill, when the log was looked at before it was taken over.
	killed(t, path)
	s = mustOpen(t, options(path))
	if _, err := os.Lstat(path + "-shm"); err == nil {
		t.Error("there is a -shm file after a kill")
	}
	mustClose(t, s)
}

// The path goes into the connection string as data.
func TestConnectionString(t *testing.T) {
	for path, want := range map[string]string{
		"/var/lib/rota/rota.sqlite": "file:///var/lib/rota/rota.sqlite?_defensive=1&_error_rc=1&mode=rw",
		"/a?mode=memory#x/100%.db":  "file:///a%3Fmode=memory%23x/100%25.db?_defensive=1&_error_rc=1&mode=rw",
		"C:/Users/me/rota.sqlite":   "file:///C:/Users/me/rota.sqlite?_defensive=1&_error_rc=1&mode=rw",
	} {
		if got := dsn(path, modeServe); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", path, got, want)
		}
	}
	// A file that is not there is an error, never a new empty database.
	path := filepath.Join(t.TempDir(), "none.sqlite")
	if s, err := openSession(path, modeServe, Full); err == nil {
		t.Errorf("it was opened: %v", s.close())
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("it was created")
	}
}

func TestDefensiveModeIsOn(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	if err := s.session.exec("UPDATE sqlite_dbpage SET data = zeroblob(4096) WHERE pgno = 1"); err == nil {
		t.Error("raw pages can be written")
	}
	mustClose(t, s)
}

// The driver's own lists must have what the settings rely on.
func TestTheDriverCanKeepTheLog(t *testing.T) {
	s := mustOpen(t, options(filepath.Join(t.TempDir(), "rota.sqlite")))
	mode, err := s.session.conn.driver.(sqlite.FileControl).FileControlPersistWAL("main", -1)
	if err != nil || mode != 1 {
		t.Errorf("the -wal file would not stay: mode %d, %v", mode, err)
	}
	mustClose(t, s)
}
