package job

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// selection keeps the first jobs of an order, as many as the end of the page is
// away, and counts and sums up all that it is given. It is a heap with the last
// of them on top: nearly every job of a long list costs one comparison.
type selection struct {
	size    int
	compare func(a, b *kept) int
	kept    []kept
	next    kept // the one that is compared
	total   int
	sum     sum
}

// kept is a job with what its name is sorted under.
type kept struct {
	Brief
	letters string
}

func newSelection(size int, p *ListParams) *selection {
	return &selection{size: size, compare: order(p)}
}

// add takes one more job. Jobs come in id order.
func (s *selection) add(b Brief) {
	s.total++
	s.sum.add(sumOf(&b))
	s.next = kept{Brief: b}
	switch {
	case len(s.kept) < s.size:
		s.kept = append(s.kept, s.next)
		s.up(len(s.kept) - 1)
	case s.size > 0 && s.compare(&s.next, &s.kept[0]) < 0:
		s.kept[0] = s.next
		s.down(0)
	}
}

// up and down restore the heap around a place.
func (s *selection) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if s.compare(&s.kept[i], &s.kept[parent]) <= 0 {
			return
		}
		s.kept[i], s.kept[parent] = s.kept[parent], s.kept[i]
		i = parent
	}
}

func (s *selection) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(s.kept) {
			return
		}
		if right := child + 1; right < len(s.kept) && s.compare(&s.kept[right], &s.kept[child]) > 0 {
			child = right
		}
		if s.compare(&s.kept[child], &s.kept[i]) <= 0 {
			return
		}
		s.kept[i], s.kept[child] = s.kept[child], s.kept[i]
		i = child
	}
}

// sorted gives the ids of what was kept, in order. Nothing is added afterwards.
func (s *selection) sorted() []string {
	places := make([]*kept, len(s.kept))
	for i := range s.kept {
		places[i] = &s.kept[i]
	}
	slices.SortFunc(places, s.compare)
	ids := make([]string, len(places))
	for i, k := range places {
		ids[i] = k.ID
	}
	return ids
}

// order compares jobs as they are sorted. Jobs without a next run come last in
// both directions; equal ones are in id order in both, so that pages never
// overlap.
func order(p *ListParams) func(a, b *kept) int {
	var by func(a, b *kept) int
	switch p.SortBy {
	case "updatedAtMs":
		by = func(a, b *kept) int { return cmp.Compare(a.UpdatedAtMs, b.UpdatedAtMs) }
	case "name":
		by = compareNames
	default:
		by = func(a, b *kept) int { return cmp.Compare(a.NextRunAtMs, b.NextRunAtMs) }
	}
	byTime := p.SortBy != "updatedAtMs" && p.SortBy != "name"
	return func(a, b *kept) int {
		if byTime && (a.NextRunAtMs == 0) != (b.NextRunAtMs == 0) {
			return cmp.Compare(b.NextRunAtMs, a.NextRunAtMs) // the one without is 0
		}
		found := by(a, b)
		if p.Descending {
			found = -found
		}
		return cmp.Or(found, strings.Compare(a.ID, b.ID))
	}
}

// compareNames tells most names apart at their first letters, without a copy.
func compareNames(a, b *kept) int {
	for i := range min(len(a.Name), len(b.Name)) {
		x, y := a.Name[i], b.Name[i]
		if x >= utf8.RuneSelf || y >= utf8.RuneSelf {
			return strings.Compare(a.sortedUnder(), b.sortedUnder())
		}
		if x, y = lowered(x), lowered(y); x != y {
			// A mark that is dropped or a letter that is replaced further on changes
			// nothing before it.
			return cmp.Compare(x, y)
		}
	}
	return strings.Compare(a.sortedUnder(), b.sortedUnder())
}

func lowered(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// sortedUnder is the name as it is sorted, made when it is first asked for.
func (k *kept) sortedUnder() string {
	if k.letters == "" {
		k.letters = plainLetters(k.Name)
	}
	return k.letters
}

// accented and plain pair letters with the one they are sorted under. Marks
// that stand as characters of their own are dropped instead. Other scripts are
// sorted by code point: that is not their readers' order, and it is stable.
const (
	accented = "àáâãäåāăąçćĉċčďđèéêëēĕėęěĝğġģĥħìíîïĩīĭįıĵķĺļľŀłñńņňòóôõöøōŏőŕŗřśŝşšţťŧùúûüũūŭůűųŵýÿŷźżž"
	plain    = "aaaaaaaaacccccddeeeeeeeeegggghhiiiiiiiiijklllllnnnnooooooooorrrsssstttuuuuuuuuuuwyyyzzz"
)

var plainOf = func() map[rune]rune {
	letters := make(map[rune]rune, len(plain))
	i := 0
	for _, r := range accented {
		letters[r] = rune(plain[i])
		i++
	}
	return letters
}()

// plainLetters folds case and accents away.
func plainLetters(name string) string {
	if isASCII(name) {
		return strings.ToLower(name)
	}
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if base, ok := plainOf[r]; ok {
			return base
		}
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, name)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
