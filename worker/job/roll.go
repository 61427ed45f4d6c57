package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
)

// A Roll is the jobs in the order in which cron.list gives them when nothing else
// is asked for, the next one to run first. Whoever keeps one from a list to the
// next tells it what changed in between, and pays for that alone.
//
// It is not for several callers at once.
type Roll struct {
	disabled, enabled column
	spare             []spot // what the next change is written into
}

// column is one half of the jobs.
type column struct {
	spots []spot // in order
	sum   sum
}

type spot struct {
	nextRunAtMs int64 // 0 = none
	id          string
}

func compareSpots(a, b spot) int {
	if (a.nextRunAtMs == 0) != (b.nextRunAtMs == 0) {
		return cmp.Compare(b.nextRunAtMs, a.nextRunAtMs) // the one without is 0
	}
	return cmp.Or(cmp.Compare(a.nextRunAtMs, b.nextRunAtMs), strings.Compare(a.id, b.id))
}

// Moved is one job as it was and as it is. nil = it was not there, or is not any
// more.
type Moved struct{ Was, Is *Brief }

// Apply makes the changes, each job's at most once.
func (r *Roll) Apply(changes []Moved) {
	for _, enabled := range []bool{false, true} {
		var gone, come []spot
		c := r.column(enabled)
		for _, change := range changes {
			was, is := change.Was, change.Is
			had, has := was != nil && was.Enabled == enabled, is != nil && is.Enabled == enabled
			if had {
				c.sum.take(sumOf(was))
			}
			if has {
				c.sum.add(sumOf(is))
			}
			if had && has && was.NextRunAtMs == is.NextRunAtMs {
				continue // where it was
			}
			if had {
				gone = append(gone, spot{was.NextRunAtMs, was.ID})
			}
			if has {
				come = append(come, spot{is.NextRunAtMs, is.ID})
			}
		}
		if len(gone)+len(come) > 0 {
			c.spots, r.spare = merged(r.spare[:0], c.spots, gone, come), c.spots
		}
	}
}

func (r *Roll) column(enabled bool) *column {
	if enabled {
		return &r.enabled
	}
	return &r.disabled
}

// merged writes spots without some and with others to a slice.
func merged(to, spots, gone, come []spot) []spot {
	slices.SortFunc(gone, compareSpots)
	slices.SortFunc(come, compareSpots)
	to = slices.Grow(to, len(spots)+len(come))
	for len(gone)+len(come) > 0 {
		leaves := len(come) == 0 || len(gone) > 0 && compareSpots(gone[0], come[0]) <= 0
		next := &come
		if leaves {
			next = &gone
		}
		at, found := slices.BinarySearchFunc(spots, (*next)[0], compareSpots)
		to, spots = append(to, spots[:at]...), spots[at:]
		switch {
		case !leaves:
			to = append(to, come[0])
		case found:
			spots = spots[1:]
		}
		*next = (*next)[1:]
	}
	return append(to, spots...)
}

// ByRoll reports whether a [Roll] can answer cron.list: where more is asked for
// than its order and enablement, it takes [Select].
func (p *ListParams) ByRoll() bool {
	return !p.Descending && (p.SortBy == "" || p.SortBy == "nextRunAtMs") && !p.readsRows()
}

// Select finds the jobs that cron.list shows, as the function of that name does,
// for parameters that are ByRoll.
func (r *Roll) Select(p ListParams) Page {
	a, b, total := r.enabled.spots, []spot(nil), r.enabled.sum
	switch p.Enabled {
	case "all":
		b = r.disabled.spots
		total.add(r.disabled.sum)
	case "disabled":
		a, total = r.disabled.spots, r.disabled.sum
	}
	page := newPage(p, len(a)+len(b), total)
	end := min(page.offset+page.limit, page.total)
	page.ids = make([]string, 0, end-page.offset)
	for i := range end {
		from := &a
		if len(a) == 0 || len(b) > 0 && compareSpots(b[0], a[0]) < 0 {
			from = &b
		}
		if i >= page.offset {
			page.ids = append(page.ids, (*from)[0].id)
		}
		*from = (*from)[1:]
	}
	return page
}

// sum is what the jobs of a list come to, in whatever order: which they are and
// when each was last written and runs next, which decides their order too. Their
// text does not count: every write moves the time of writing.
type sum struct{ high, low uint64 }

func sumOf(b *Brief) sum {
	text := append(make([]byte, 0, 128), b.ID...)
	text = append(text, 0)
	text = binary.BigEndian.AppendUint64(text, uint64(b.UpdatedAtMs))
	text = binary.BigEndian.AppendUint64(text, uint64(b.NextRunAtMs))
	of := sha256.Sum256(text)
	return sum{binary.BigEndian.Uint64(of[:]), binary.BigEndian.Uint64(of[8:])}
}

func (s *sum) add(more sum) {
	var carry uint64
	s.low, carry = bits.Add64(s.low, more.low, 0)
	s.high, _ = bits.Add64(s.high, more.high, carry)
}

func (s *sum) take(less sum) {
	var borrow uint64
	s.low, borrow = bits.Sub64(s.low, less.low, 0)
	s.high, _ = bits.Sub64(s.high, less.high, borrow)
}

// revision tells a client that pages belong together.
func (s sum) revision() string {
	text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, s.high), s.low)
	of := sha256.Sum256(text)
	return "sha256:" + base64.RawURLEncoding.EncodeToString(of[:])
}
