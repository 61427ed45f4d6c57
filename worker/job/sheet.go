package job

import (
	"bytes"
	"strconv"
	"sync"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// Sheets keeps how definitions look in a list, for the next list that shows them:
// most of a view comes from the definition, and its revision takes longest. The
// zero value is empty; it may be used by many at once, and is bounded.
//
// A definition is known by where its bytes are, which nobody changes: see [Row].
type Sheets struct {
	mu sync.Mutex // guards what follows
	// young is what was shown lately. When it is full it becomes old, and what was
	// old and not shown since is forgotten.
	young, old map[*byte]*sheet
	bytes      int // that young takes
}

const (
	youngBytes    = 6 << 20  // 5,000 usual jobs
	longestShown  = 16 << 10 // longer definitions are written anew each time
	sheetOverhead = 256
)

// sheet is the view of a job in a list, with an empty state.
type sheet struct {
	id      string
	length  int // of the definition
	text    []byte
	fill    [2]hole // in the order of the text
	revEnd  int     // where the revision ends: what repeats the state comes here
	preview []byte  // the member of deliveryPreviews
}

// hole is a value of the text that each reader has anew.
type hole struct {
	from, to int
	state    bool // else the time of writing
}

// of is the sheet of a row, nil when it has to be written without.
func (s *Sheets) of(r Row) *sheet {
	if s == nil || !r.Sound || len(r.Definition) == 0 || len(r.Definition) > longestShown {
		return nil
	}
	found := s.find(&r.Definition[0])
	if found == nil || found.id != r.ID || found.length != len(r.Definition) {
		found = newSheet(r)
		s.keep(&r.Definition[0], found)
	}
	if found.text == nil {
		return nil
	}
	return found
}

func (s *Sheets) find(at *byte) *sheet {
	s.mu.Lock()
	found, isYoung := s.young[at]
	if !isYoung {
		found = s.old[at]
	}
	s.mu.Unlock()
	if found != nil && !isYoung {
		s.keep(at, found)
	}
	return found
}

func (s *Sheets) keep(at *byte, kept *sheet) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || s.bytes > youngBytes {
		s.young, s.old, s.bytes = make(map[*byte]*sheet), s.young, 0
	}
	s.young[at] = kept
	s.bytes += len(kept.text) + len(kept.preview) + sheetOverhead
}

// Forget lets everything go.
func (s *Sheets) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.young, s.old, s.bytes = nil, nil, 0
}

// newSheet writes the sheet of a definition. It has no text where filling it in
// would not give the view: where the definition has members of its own by the
// names that a view adds, or is laid out in lines.
func newSheet(r Row) *sheet {
	s := &sheet{id: r.ID, length: len(r.Definition)}
	for key := range rawjson.Fields(r.Definition) {
		if addedByView(string(key)) {
			return s
		}
	}
	text, err := listed(Row{ID: r.ID, Definition: r.Definition})
	if err != nil {
		return s
	}
	state, written := hole{state: true}, hole{}
	state.from, state.to = rawjson.Find(text, "state")
	written.from, written.to = rawjson.Find(text, "updatedAtMs")
	if s.fill = [2]hole{state, written}; written.from < state.from {
		s.fill = [2]hole{written, state}
	}
	_, s.revEnd = rawjson.Find(text, "configRevision")
	if !bytes.HasPrefix(text[s.revEnd:], []byte(`,"effectiveAgentId":`)) || s.fill[1].to > s.revEnd {
		return s
	}
	s.text, s.preview = text, previewMember(r)
	return s
}

func addedByView(key string) bool {
	for i := range copiedState {
		if key == copiedState[i].view {
			return true
		}
	}
	return key == "configRevision" || key == "effectiveAgentId"
}

// appendJob writes the view of a row in a list.
func (s *sheet) appendJob(b []byte, r Row) []byte {
	var state []byte
	at := 0
	for _, h := range s.fill {
		b = append(b, s.text[at:h.from]...)
		from := len(b)
		if h.state {
			b = appendPublicState(b, r.State)
			state = b[from:]
		} else {
			b = strconv.AppendInt(b, r.UpdatedAtMs, 10)
		}
		at = h.to
	}
	b = append(b, s.text[at:s.revEnd]...)
	for i, value := range copiedValues(state) {
		if value != nil {
			b = append(append(append(append(b, `,"`...), copiedState[i].view...), `":`...), value...)
		}
	}
	return append(b, s.text[s.revEnd:]...)
}
