package job

import (
	"encoding/json"
	"iter"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Member, Set, Members and Encode are rawjson's, for hosts: they know jobs, not how
// they are stored.
type Member = rawjson.Member

// Set edits the top-level members of a JSON object on its bytes.
func Set(object []byte, edits ...Member) ([]byte, error) { return rawjson.Set(object, edits...) }

// Members walks the top-level members of a JSON object in order.
func Members(object []byte) iter.Seq2[string, json.RawMessage] { return rawjson.Members(object) }

// Encode is JSON without HTML escapes.
func Encode(v any) (json.RawMessage, error) { return rawjson.Encode(v) }
