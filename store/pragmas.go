package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"modernc.org/sqlite"
)

// Durability says what a power cut may take. A kill takes nothing either way.
type Durability uint8

const (
	Full   Durability = iota // a commit is on the disk when Commit returns
	Normal                   // the newest commits may be lost, never the file
)

func (d Durability) String() string { return [...]string{"full", "normal"}[d] }

const (
	busyTimeoutMs = 1000 // the connection is exclusive: whoever waits, waits for a stranger
	cacheKiB      = 32_000
	copyCacheKiB  = 64
	walLimitBytes = 64 << 20
)

// pragma is one setting and what must be read back after it.
type pragma struct{ name, ask, want string }

// settings are applied to every connection in this order, and asserted back.
// The driver would sort settings given in the connection string; here they are
// statements, because locking_mode must come before the first that reads the
// file. SQLite's defaults are weaker at each of them, and an unknown or refused
// pragma is silent. fullfsync costs nothing except on macOS, where a plain
// fsync does not reach the drive. Checkpoints are the worker's (see Idle).
func settings(d Durability) []pragma {
	sync := pragma{"synchronous", "FULL", "2"}
	if d == Normal {
		sync = pragma{"synchronous", "NORMAL", "1"}
	}
	return []pragma{
		{"busy_timeout", strconv.Itoa(busyTimeoutMs), strconv.Itoa(busyTimeoutMs)},
		{"locking_mode", "EXCLUSIVE", "exclusive"},
		sync,
		{"foreign_keys", "1", "1"},
		{"trusted_schema", "0", "0"},
		{"cell_size_check", "1", "1"},
		{"temp_store", "MEMORY", "2"},
		{"cache_size", strconv.Itoa(-cacheKiB), strconv.Itoa(-cacheKiB)},
		{"mmap_size", "0", "0"},
		{"wal_autocheckpoint", "0", "0"},
		{"journal_size_limit", strconv.Itoa(walLimitBytes), strconv.Itoa(walLimitBytes)},
		{"fullfsync", "1", "1"},
		{"checkpoint_fullfsync", "1", "1"},
	}
}

// sessionMode says what a connection is for.
type sessionMode uint8

const (
	modeServe sessionMode = iota
	// modePeek reads the main file alone: it takes no lock, makes no side file
	// and does not look at a log. Nothing is changed by opening or closing it.
	modePeek
	// modeRead reads the file with its log, as one reader among others, and
	// cannot write. Closing it leaves main file and log as they are; it makes a
	// -shm file.
	modeRead
	// modeCopy writes a backup that is still being made: without a journal on the
	// disk and without syncs, since nothing of it counts before it is published.
	// What its cache holds is written by the last step, so it holds little.
	modeCopy
)

// session is the one open connection, with its settings.
type session struct{ conn *connection }

// dsn builds the connection string. The path is data in it, never text: a "?"
// or "#" in a directory name would otherwise end it early.
func dsn(path string, mode sessionMode) string {
	slashed := filepath.ToSlash(path)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed // a drive letter
	}
	q := url.Values{"_defensive": {"1"}, "_error_rc": {"1"}}
	switch mode {
	case modePeek:
		q.Set("mode", "ro")
		q.Set("immutable", "1")
	case modeRead:
		q.Set("mode", "ro")
	case modeCopy:
		q.Set("mode", "rw")
		q["_pragma"] = []string{"journal_mode(MEMORY)", "synchronous(OFF)", fmt.Sprintf("cache_size(%d)", -copyCacheKiB)}
	case modeServe:
		q.Set("mode", "rw") // never creates: a missing file is a refusal
	}
	return (&url.URL{Scheme: "file", Path: slashed, RawQuery: q.Encode()}).String()
}

func openSession(path string, mode sessionMode, d Durability) (*session, error) {
	conn, err := connect(dsn(path, mode))
	if err != nil {
		return nil, err
	}
	s := &session{conn}
	for _, p := range settings(d) {
		if mode == modeRead && p.name == "locking_mode" {
			continue
		}
		if err := s.exec("PRAGMA " + p.name + "=" + p.ask); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	return s, nil
}

func (s *session) close() error { return s.conn.close() }

// assertSettings reads every setting back, and the journal mode with them.
func (s *session) assertSettings(d Durability, journal string) error {
	asked := append(settings(d), pragma{"journal_mode", journal, journal})
	for _, p := range asked {
		got, err := s.text("PRAGMA " + p.name)
		if err != nil {
			return fmt.Errorf("read %s back: %w", p.name, err)
		}
		if got != p.want {
			return fmt.Errorf("%s is %q where %q was asked for", p.name, got, p.want)
		}
	}
	return nil
}

// one reads the only row of a result.
func (s *session) one(query string, args []any, dest ...any) error {
	return s.oneUntil(context.Background(), query, args, dest...)
}

// oneUntil is one with an end.
func (s *session) oneUntil(ctx context.Context, query string, args []any, dest ...any) error {
	rows := 0
	stopped, err := s.conn.query(ctx, query, args, func(scan func(...any) error) error {
		rows++
		return scan(dest...)
	})
	switch {
	case stopped != nil:
		return stopped
	case err == nil && rows != 1:
		return fmt.Errorf("%s gave %d rows", query, rows)
	}
	return err
}

// text reads one value as text, whatever it is.
func (s *session) text(query string, args ...any) (string, error) {
	var v string
	err := s.one(query, args, &v)
	return v, err
}

func (s *session) number(query string, args ...any) (int64, error) {
	var v int64
	err := s.one(query, args, &v)
	return v, err
}

// pairs reads a bounded result of two text columns.
func (s *session) pairs(query string) ([][2]string, error) {
	var all [][2]string
	stopped, err := s.conn.query(context.Background(), query, nil, func(scan func(...any) error) error {
		var pair [2]string
		err := scan(&pair[0], &pair[1])
		all = append(all, pair)
		return err
	})
	return all, errors.Join(stopped, err)
}

func (s *session) exec(query string) error { return s.conn.script(query) }

// keepWAL says whether the -wal file stays when the connection closes. It stays
// until the clean mark is on the disk: a file that says "not clean" and has no
// -wal beside it is taken for an incomplete copy.
func (s *session) keepWAL(keep bool) error {
	mode := 0
	if keep {
		mode = 1
	}
	_, err := s.conn.driver.(sqlite.FileControl).FileControlPersistWAL("main", mode)
	return err
}

// checkpoint runs one checkpoint and says what it left.
func (s *session) checkpoint(kind string) (Checkpoint, error) {
	var busy, frames, moved int
	err := s.one("PRAGMA wal_checkpoint("+kind+")", nil, &busy, &frames, &moved)
	return Checkpoint{WALFrames: frames, Moved: moved, Busy: busy != 0}, err
}
