package store

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Receipt ids that rota can read back after a crash. Everybody else treats
// them as opaque, and an id that does not parse strictly is an old one.
const (
	slotPrefix   = "cron-slot-v1."
	manualPrefix = "rota-manual-v1."
)

// SlotID is the receipt id of a timed run, made from the persisted deadline
// and never from the time the worker woke up. again names a slot that was
// deliberately opened a second time; empty otherwise.
func SlotID(storeKey, jobID string, slotMs int64, again string) string {
	var room [256]byte
	text := append(appendIDText(room[:0], storeKey, jobID), ',')
	text = strconv.AppendInt(text, slotMs, 10)
	if again != "" {
		text = rawjson.AppendString(append(text, ','), again)
	}
	return encodeID(slotPrefix, append(text, ']'))
}

// ManualID is the receipt id of a manual run.
func ManualID(storeKey, jobID, mode, key string) string {
	var room [256]byte
	text := rawjson.AppendString(append(appendIDText(room[:0], storeKey, jobID), ','), mode)
	text = rawjson.AppendString(append(text, ','), key)
	return encodeID(manualPrefix, append(text, ']'))
}

// appendIDText begins the JSON array that an id holds.
func appendIDText(b []byte, storeKey, jobID string) []byte {
	b = rawjson.AppendString(append(b, '['), storeKey)
	return rawjson.AppendString(append(b, ','), jobID)
}

func encodeID(prefix string, text []byte) string {
	var room [384]byte
	return string(base64.RawURLEncoding.AppendEncode(append(room[:0], prefix...), text))
}

// RunKey is what a receipt id says. A zero Kind means an id of another kind
// ("old"), whose launch context cannot be recovered.
type RunKey struct {
	Kind     string // "slot", "manual" or ""
	StoreKey string
	JobID    string
	SlotMs   int64  // slot
	Again    string // slot: empty but for a slot opened again
	Mode     string // manual
	Key      string // manual
}

const maxSafeInteger = 1<<53 - 1

// ParseRunKey reads a receipt id strictly: whatever does not encode back to
// the same id is an old id.
func ParseRunKey(id string) RunKey {
	if rest, ok := strings.CutPrefix(id, slotPrefix); ok {
		k := parseSlot(decodeID(rest))
		if k.Kind != "" && SlotID(k.StoreKey, k.JobID, k.SlotMs, k.Again) == id {
			return k
		}
	}
	if rest, ok := strings.CutPrefix(id, manualPrefix); ok {
		k := parseManual(decodeID(rest))
		if k.Kind != "" && ManualID(k.StoreKey, k.JobID, k.Mode, k.Key) == id {
			return k
		}
	}
	return RunKey{}
}

func decodeID(text string) []json.RawMessage {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return nil
	}
	return parts
}

func parseSlot(parts []json.RawMessage) RunKey {
	k := RunKey{Kind: "slot"}
	if len(parts) != 3 && len(parts) != 4 {
		return RunKey{}
	}
	slotMs, err := strconv.ParseInt(string(parts[2]), 10, 64)
	if err != nil || slotMs > maxSafeInteger || slotMs < -maxSafeInteger ||
		json.Unmarshal(parts[0], &k.StoreKey) != nil || json.Unmarshal(parts[1], &k.JobID) != nil {
		return RunKey{}
	}
	k.SlotMs = slotMs
	if len(parts) == 4 && (json.Unmarshal(parts[3], &k.Again) != nil || k.Again == "") {
		return RunKey{}
	}
	return k
}

func parseManual(parts []json.RawMessage) RunKey {
	k := RunKey{Kind: "manual"}
	if len(parts) != 4 {
		return RunKey{}
	}
	for i, to := range []*string{&k.StoreKey, &k.JobID, &k.Mode, &k.Key} {
		if json.Unmarshal(parts[i], to) != nil {
			return RunKey{}
		}
	}
	return k
}

// InternalRunID is task_runs.run_id: how history joins to receipts.
func InternalRunID(jobID string, startedAtMs int64, receiptID, publicID string) string {
	var room [512]byte
	b := append(room[:0], "cron:"...)
	b = strconv.AppendInt(append(append(b, jobID...), ':'), startedAtMs, 10)
	b = append(append(b, ':'), receiptID...)
	if publicID != "" {
		b = append(append(b, ':'), publicID...)
	}
	return string(b)
}

// TaskID is the key of a history row: made from the run, so that the same end
// cannot be recorded twice, and rising with time (a UUID of version 7), so that
// the rows of one time share the pages of its index. nth tells rows of one
// receipt and millisecond apart.
func TaskID(receiptID string, runAtMs, nth int64) string {
	var room [320]byte
	text := append(append(room[:0], receiptID...), 0)
	text = append(strconv.AppendInt(text, runAtMs, 10), 0)
	sum := sha256.Sum256(strconv.AppendInt(text, nth, 10))
	binary.BigEndian.PutUint64(sum[:8], uint64(runAtMs)<<16|uint64(sum[6])<<8|uint64(sum[7]))
	sum[6] = sum[6]&0x0f | 0x70
	sum[8] = sum[8]&0x3f | 0x80
	var id [36]byte
	hex.Encode(id[:8], sum[:4])
	hex.Encode(id[9:13], sum[4:6])
	hex.Encode(id[14:18], sum[6:8])
	hex.Encode(id[19:23], sum[8:10])
	hex.Encode(id[24:], sum[10:16])
	id[8], id[13], id[18], id[23] = '-', '-', '-', '-'
	return string(id[:])
}
