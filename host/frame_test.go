package host

import (
	"bytes"
	"errors"
	"testing"
)

// Whatever comes over the socket is read or refused: a request that is taken
// has an id and a method, and a refusal is one of the two known kinds.
func FuzzReadRequest(f *testing.F) {
	for _, seed := range []string{
		`{"type":"req","id":"1","method":"cron.status","params":{}}`, `{"type":"req","id":"1","method":"m","params":[1,{"a":null}]}`,
		`{"type":"req","id":7,"method":"m"}`, `{"type":"req","id":"1","id":"2","method":"m"}`, `{}`, `null`, ``, `{"type":"req"`, "\xff{}", `{"\u0069d":"1","type":"req","method":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		before := bytes.Clone(line)
		r, err := readRequest(line)
		var wire *WireError
		switch {
		case !bytes.Equal(before, line):
			t.Fatal("the line was changed")
		case err == nil && (r.ID == "" || r.Method == ""):
			t.Fatalf("took %+v from %q", r, line)
		case err != nil && !errors.Is(err, errNotFrame) && !errors.As(err, &wire):
			t.Fatalf("refused %q with %v", line, err)
		}
	})
}
