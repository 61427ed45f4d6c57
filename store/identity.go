package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// applicationID marks a file that rota made: "rota" in ASCII, in the header
// field that SQLite keeps for this.
const applicationID = 0x726F7461

const (
	headerMagic = "SQLite format 3\x00"
	headerBytes = 100
	// Offsets in the header of an SQLite file.
	atPageSize     = 16
	atChangeCount  = 24
	atPageCount    = 28
	atValidFor     = 92
	smallestDBFile = 512
)

// files is what lies on the disk before SQLite has looked at it.
type files struct {
	main         bool
	bytes        int64 // of the main file
	wal          bool  // a -wal file exists, also an empty one
	walBytes     int64
	journalBytes int64 // of a rollback journal, which only other programs leave
}

// logBytes is what SQLite would apply at opening.
func (f files) logBytes() int64 { return f.walBytes + f.journalBytes }

// examine reads the header and refuses what is no database. It opens the file
// by hand, which only the holder of the lock may do, and only while it has no
// connection.
func examine(path string) (files, error) {
	var seen files
	var err error
	if seen.wal, seen.walBytes, err = sizeOf(path + "-wal"); err != nil {
		return seen, wrapFile("open", path, err)
	}
	if _, seen.journalBytes, err = sizeOf(path + "-journal"); err != nil {
		return seen, wrapFile("open", path, err)
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if seen.wal || seen.logBytes() > 0 {
			return seen, newError(CodeStaleWAL, "open", path, errors.New("the database itself is missing"))
		}
		return seen, nil
	}
	if err != nil {
		return seen, wrapFile("open", path, err)
	}
	defer f.Close()
	seen.main = true
	info, err := f.Stat()
	if err != nil {
		return seen, wrapFile("open", path, err)
	}
	seen.bytes = info.Size()
	header := make([]byte, headerBytes)
	n, err := f.ReadAt(header, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return seen, wrapFile("open", path, err)
	}
	if code, why := judgeHeader(header[:n], seen.bytes, seen.logBytes()); code != "" {
		return seen, newError(code, "open", path, why)
	}
	return seen, nil
}

func sizeOf(path string) (there bool, bytes int64, err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, 0, nil
	}
	if err != nil {
		return false, 0, err
	}
	return true, info.Size(), nil
}

// judgeHeader refuses by the first bytes and the length of the main file. With
// a log beside it the length proves nothing: pages may be in the log only.
func judgeHeader(header []byte, size, logBytes int64) (Code, error) {
	switch {
	case size == 0:
		return CodeEmpty, nil
	case !strings.HasPrefix(string(header), headerMagic[:min(len(header), len(headerMagic))]):
		return CodeNotADatabase, errors.New("its first bytes are not those of SQLite")
	case size < smallestDBFile:
		return CodeTruncated, fmt.Errorf("it has %d bytes", size)
	}
	pageSize := int64(binary.BigEndian.Uint16(header[atPageSize:]))
	if pageSize == 1 {
		pageSize = 65536
	}
	pages := int64(binary.BigEndian.Uint32(header[atPageCount:]))
	counted := binary.BigEndian.Uint32(header[atChangeCount:]) == binary.BigEndian.Uint32(header[atValidFor:])
	if logBytes == 0 && counted && size < pages*pageSize {
		return CodeTruncated, fmt.Errorf("it has %d bytes, its header says %d", size, pages*pageSize)
	}
	return "", nil
}

// facts is what a database says of itself.
type facts struct {
	applicationID  int64
	contentVersion int64 // of the cron tables in a file that rota opened
	tables         map[string]bool
	meta           map[string]string // rota_meta, empty if there is none
	partitions     []string          // store keys that have jobs, the fullest first
	shape          Shape
}

// Shape is what older and newer forms of the cron tables differ in, as far as
// rota writes it.
type Shape struct {
	GrantColumns bool // cron_jobs has the three grant_definition_… columns
}

const grantColumns = 3

func (f facts) made() bool { return f.applicationID == applicationID }

// known is a file of rota's, or one with cron tables, or at least of the
// program that keeps such tables.
func (f facts) known() bool {
	return f.made() || f.tables["rota_meta"] || f.tables["cron_jobs"] ||
		f.applicationID == 0 && f.tables["schema_meta"] && f.tables["config_machine_state"]
}

// look reads the facts by any kind of connection.
func look(s *session) (facts, error) {
	f := facts{tables: map[string]bool{}, meta: map[string]string{}, shape: Shape{GrantColumns: true}}
	var err error
	if f.applicationID, err = s.number("PRAGMA application_id"); err != nil {
		return f, err
	}
	names, err := s.pairs("SELECT name, '' FROM sqlite_schema WHERE type='table'")
	if err != nil {
		return f, err
	}
	for _, p := range names {
		f.tables[p[0]] = true
	}
	if f.contentVersion, err = contentVersion(s, f.tables["config_machine_state"]); err != nil {
		return f, err
	}
	if f.tables["rota_meta"] {
		rows, err := s.pairs("SELECT key, value FROM rota_meta LIMIT 1000")
		if err != nil {
			return f, err
		}
		for _, p := range rows {
			f.meta[p[0]] = p[1]
		}
	}
	if f.tables["cron_jobs"] {
		rows, err := s.pairs("SELECT store_key, '' FROM cron_jobs GROUP BY store_key ORDER BY count(*) DESC, store_key LIMIT 1000")
		if err != nil {
			return f, err
		}
		for _, p := range rows {
			f.partitions = append(f.partitions, p[0])
		}
		n, err := s.number("SELECT count(*) FROM pragma_table_info('cron_jobs') WHERE name GLOB 'grant_definition_*'")
		if err != nil {
			return f, err
		}
		f.shape.GrantColumns = n == grantColumns
	}
	return f, nil
}

// contentVersion is the greater of the published version and the one that may
// be noted beside it: a file can say 17 and contain 19.
func contentVersion(s *session, noted bool) (int64, error) {
	published, err := s.number("PRAGMA user_version")
	if err != nil || !noted {
		return published, err
	}
	rows, err := s.pairs("SELECT value_json, '' FROM config_machine_state WHERE state_key = 'state.schema.contentVersion'")
	for _, r := range rows {
		n, _ := strconv.ParseInt(strings.Trim(r[0], `"`), 10, 64) // what is no number claims nothing
		published = max(published, n)
	}
	return published, err
}

// evidence is everything the verdict on a file depends on.
type evidence struct {
	files   files
	main    *facts // the main file without its log; nil if it makes no sense alone
	view    facts  // the file with its log, as it will be served
	lock    lockRecord
	machine string // this machine, "" if unknown
	adopt   bool
}

// verdict says whether to serve the file, and how. At most one of refuse and
// fence is set.
type verdict struct {
	refuse Code
	why    error
	fence  string
}

// judge decides. Refusals come first: they are about files that cannot be
// trusted; a fence is about files whose owner is in doubt.
func judge(e evidence) verdict {
	f := e.view
	switch {
	case !f.known():
		return verdict{refuse: CodeForeign}
	case metaNumber(f.meta, metaSchema) > rotaSchemaVersion:
		return verdict{refuse: CodeNewerSchema,
			why: fmt.Errorf("its schema is %s, this rota knows %d", f.meta[metaSchema], rotaSchemaVersion)}
	case f.made() && !f.tables["cron_jobs"]:
		return verdict{refuse: CodeCorrupt, why: errors.New("the table of jobs is gone")}
	}
	if why := strayLog(e); why != nil {
		return verdict{refuse: CodeStaleWAL, why: why}
	}
	if e.adopt {
		return verdict{}
	}
	if f.meta[metaClean] == "0" && !e.files.wal {
		return verdict{refuse: CodeMissingWAL}
	}
	return verdict{fence: fenceReason(e)}
}

// strayLog finds a log of another generation of the same file, which SQLite
// would apply without a word: a restored main file beside an old log.
func strayLog(e evidence) error {
	if e.files.walBytes == 0 || e.main == nil || e.main.meta[metaFileID] == "" {
		return nil
	}
	main, view := e.main.meta, e.view.meta
	switch {
	case view[metaFileID] != main[metaFileID]:
		return errors.New("the log is of another database")
	case metaNumber(view, metaStart) > metaNumber(main, metaStart)+1:
		return fmt.Errorf("the database is of start %s, the log of start %s", main[metaStart], view[metaStart])
	}
	return strayByLock(main, e.files, e.lock)
}

// strayByLock needs no look at the log: the main file is never behind the
// start that the lock has seen, and no log can bring it there.
func strayByLock(main map[string]string, f files, lock lockRecord) error {
	start := metaNumber(main, metaStart)
	if f.walBytes == 0 || lock.fileID == "" || lock.fileID != main[metaFileID] || start >= lock.startNumber {
		return nil
	}
	return fmt.Errorf("the database is of start %d, the log of start %d", start, lock.startNumber)
}

// fenceReason is "" if this machine owns the file.
func fenceReason(e evidence) string {
	meta := e.view.meta
	owner := meta[metaMachine]
	switch {
	case meta[metaFileID] == "":
		if !e.view.made() && len(e.view.partitions) > 0 {
			return "it holds the jobs of another program, which may still run them"
		}
		return ""
	case meta[metaBackup] != "":
		made := time.UnixMilli(metaNumber(meta, metaBackup)).UTC().Format(time.RFC3339)
		return fmt.Sprintf("it is a backup of %s, made %s", meta[metaPath], made)
	case owner != "" && e.machine != "" && owner != e.machine:
		return "it is a copy: another machine owns it"
	case e.lock.fileID == meta[metaFileID] && metaNumber(meta, metaStart) < e.lock.startNumber:
		return fmt.Sprintf("it is older than what ran here last: start %s, where start %d was seen",
			meta[metaStart], e.lock.startNumber)
	}
	return ""
}
