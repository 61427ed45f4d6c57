package job

import (
	"crypto/sha256"
	"encoding/base64"
)

// Revision is the hash that a run request carries: it tells whether what a run
// does has changed since. Runtime state, times of writing, enablement and the
// address of the result do not count.
func Revision(definition []byte) string {
	return hash(appendCanonical(make([]byte, 0, len(definition)+32), definition, "state", "updatedAtMs", "delivery", "enabled"))
}

// WireRevision is configRevision of the wire contract: it tells a client
// whether the definition is still the one it read. Only runtime state and the
// time of writing do not count.
func WireRevision(definition []byte) string {
	return hash(appendCanonical(make([]byte, 0, len(definition)+32), definition, "state", "updatedAtMs"))
}

func hash(text []byte) string {
	const name = "sha256:"
	sum := sha256.Sum256(text)
	var b [len(name) + 43]byte
	return string(base64.RawURLEncoding.AppendEncode(append(b[:0], name...), sum[:]))
}
