package store

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Keys of rota_meta. Times are Unix milliseconds.
const (
	metaSchema   = "schema_version" // of the rota_ tables
	metaFileID   = "file_id"        // random, made with the file or at its adoption; a copy keeps it
	metaMachine  = "machine_id"     // the machine that owns the file, "" if unknown
	metaPath     = "path"           // where it was served last
	metaStart    = "start_number"   // how many times it was opened for writing
	metaClean    = "clean_shutdown" // 1 from Close to the next Open
	metaAdopted  = "adopted_at"     // when it was last taken over
	metaBackup   = "backup_at"      // when this backup was made, "" in what is no backup
	metaEpoch    = "epoch"          // rises with each adoption: leases of before are void
	metaStoreKey = "store_key"      // the partition served
	metaMade     = "made_at"
)

// madeStoreKey is the partition in a file that rota made.
const madeStoreKey = "rota"

func metaNumber(meta map[string]string, key string) int64 {
	n, _ := strconv.ParseInt(meta[key], 10, 64) // a missing or spoilt value counts as never written
	return n
}

// firstMeta is what a new file says of itself: closed cleanly, never started.
func firstMeta(o Options, path, fileID string) map[string]string {
	return map[string]string{
		metaSchema: strconv.Itoa(rotaSchemaVersion), metaFileID: fileID, metaMachine: o.MachineID,
		metaPath: path, metaStart: "0", metaClean: "1", metaEpoch: "1",
		metaStoreKey: madeStoreKey, metaMade: strconv.FormatInt(o.NowMs, 10),
	}
}

// startMeta is what changes at a start. The number goes past what the lock
// remembers, so that an adopted roll-back is not taken for one again.
func startMeta(o Options, path, storeKey, fileID string, was map[string]string, lock lockRecord, takenOver bool) map[string]string {
	start := metaNumber(was, metaStart)
	if lock.fileID == was[metaFileID] {
		start = max(start, lock.startNumber)
	}
	is := map[string]string{
		metaSchema: strconv.Itoa(rotaSchemaVersion), metaFileID: fileID, metaPath: path,
		metaStart: strconv.FormatInt(start+1, 10), metaClean: "0", metaStoreKey: storeKey,
		metaMachine: cmp.Or(o.MachineID, was[metaMachine]),
		metaEpoch:   strconv.FormatInt(max(metaNumber(was, metaEpoch), 1), 10),
	}
	if takenOver {
		is[metaAdopted] = strconv.FormatInt(o.NowMs, 10)
		is[metaEpoch] = strconv.FormatInt(max(metaNumber(was, metaEpoch), 1)+1, 10)
		if was[metaBackup] != "" {
			is[metaBackup] = ""
		}
	}
	return is
}

func newFileID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the program instead
	return hex.EncodeToString(b[:])
}

func writeMeta(s *session, meta map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		_, err := s.conn.exec("INSERT INTO rota_meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, meta[key])
		if err != nil {
			return err
		}
	}
	return nil
}

// ddl is one statement that creates a table or an index.
type ddl struct{ table, text string }

// splitDDL cuts a schema into its statements and finds the table each is for.
// It knows the two forms this package's schema files use and refuses others.
func splitDDL(schema string) ([]ddl, error) {
	var plain strings.Builder
	for line := range strings.Lines(schema) {
		if !strings.HasPrefix(strings.TrimSpace(line), "--") {
			plain.WriteString(line)
		}
	}
	var all []ddl
	for text := range strings.SplitSeq(plain.String(), ";\n") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		words := strings.Fields(text)
		d := ddl{text: text}
		if rest, ok := strings.CutPrefix(text, createTable); ok {
			d.table, _, _ = strings.Cut(rest, " ")
		} else if on := slices.Index(words, "ON"); on > 0 && on+1 < len(words) && slices.Contains(words[:on], "INDEX") {
			d.table = words[on+1]
		} else {
			return nil, fmt.Errorf("not a table and not an index: %.40q", text)
		}
		all = append(all, d)
	}
	return all, nil
}

const createTable = "CREATE TABLE IF NOT EXISTS "

// The column of receipts that the owner of an opened file adds by itself when
// it brings the file to this version: a table created before must lack it.
const (
	deliveryVersion = 20
	deliveryColumn  = "  delivery_attempt_state TEXT NOT NULL DEFAULT 'unknown'\n" +
		"    CHECK (delivery_attempt_state IN ('unknown', 'not-started', 'started')),\n"
)

// createMissing creates the tables a file lacks, each with its indexes, and
// touches none that is there. In a fenced file they are temporary and empty,
// so that it can be read as any other.
func createMissing(s *session, f facts, temporary bool) error {
	all, err := splitDDL(cronTablesSQL + "\n" + rotaTablesSQL)
	if err != nil {
		return err
	}
	for _, d := range all {
		rest, isTable := strings.CutPrefix(d.text, createTable)
		if f.tables[d.table] || temporary && !isTable {
			continue
		}
		if !f.made() && f.contentVersion < deliveryVersion {
			d.text = strings.Replace(d.text, deliveryColumn, "", 1)
			rest = strings.TrimPrefix(d.text, createTable)
		}
		if temporary {
			d.text = "CREATE TEMP TABLE " + rest
		}
		if err := s.exec(d.text); err != nil {
			return err
		}
	}
	return nil
}
