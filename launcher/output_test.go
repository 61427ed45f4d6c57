package launcher

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// printed gives a stream of at most max bytes what was printed, in pieces.
func printed(max int, pieces ...[]byte) *stream {
	s := &stream{max: max}
	for _, p := range pieces {
		s.add(p)
	}
	return s
}

// Random bytes in random pieces: what is shown is a true head, a true tail, and
// an exact count of the rest.
func TestHeadTailAndCountAreExact(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	alphabets := []string{"a", "ab\n", "aé€😀\n", "a\xff\xc3\x28é\xf0\x9f", "\xff"}
	for range 20_000 {
		alphabet := alphabets[rng.IntN(len(alphabets))]
		all := make([]byte, rng.IntN(120))
		for i := range all {
			all[i] = alphabet[rng.IntN(len(alphabet))]
		}
		if rng.IntN(2) == 0 { // whole characters, where the alphabet has some
			var b strings.Builder
			for chars := []rune(strings.ToValidUTF8(alphabet, "?")); b.Len() < rng.IntN(120); {
				b.WriteRune(chars[rng.IntN(len(chars))])
			}
			all = []byte(b.String())
		}
		max := 1 + rng.IntN(60)
		var pieces [][]byte
		for rest := all; len(rest) > 0; {
			n := 1 + rng.IntN(len(rest))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		s := printed(max, pieces...)
		text, dropped := s.text()
		fault := func(format string, args ...any) {
			t.Fatalf("seed %d: %q kept to %d as %q (%d dropped): %s", seed, all, max, text, dropped, fmt.Sprintf(format, args...))
		}
		if s.total != int64(len(all)) {
			fault("total %d", s.total)
		}
		if !utf8.ValidString(text) {
			fault("invalid text")
		}
		marker := fmt.Sprintf("[… %d bytes dropped …]", dropped)
		head, tail, cut := strings.Cut(text, marker)
		if cut != (dropped > 0) {
			fault("dropped bytes and marker disagree")
		}
		if !cut {
			if text != shown(all) || len(text) > max {
				fault("want the whole, %q", shown(all))
			}
			continue
		}
		// The line feeds around the marker may be the marker's own.
		if !fits(head, strings.TrimSuffix(head, "\n"), func(h string) bool { return len(h) <= max/2 && strings.HasPrefix(shown(all), h) }) {
			fault("head %q", head)
		}
		if !fits(tail, strings.TrimPrefix(tail, "\n"), func(h string) bool { return len(h) <= max-max/2 && strings.HasSuffix(shown(all), h) }) {
			fault("tail %q", tail)
		}
		if kept := int64(len(all)) - dropped; kept < 0 || kept > int64(max) {
			fault("%d bytes kept", kept)
		}
	}
}

func fits(a, b string, is func(string) bool) bool { return is(a) || is(b) }

// shown is bytes as text, one replacement for each invalid byte.
func shown(b []byte) string {
	return string([]rune(string(b)))
}

func TestACharacterIsNotCutInTwo(t *testing.T) {
	text, dropped := printed(9, bytes.Repeat([]byte("€"), 10)).text() // 4 and 5 bytes are one character and a part
	equal(t, "text", text, "€\n[… 24 bytes dropped …]\n€")
	equal(t, "dropped", dropped, 24)
}

// Ten bytes that are no text would be thirty as text: the cap holds for what
// is stored.
func TestReplacementsDoNotExceedTheCap(t *testing.T) {
	text, dropped := printed(10, bytes.Repeat([]byte{0xff}, 10)).text()
	equal(t, "text", text, "�\n[… 8 bytes dropped …]\n�")
	equal(t, "dropped", dropped, 8)
}

func TestSmallOutputTakesLittleMemory(t *testing.T) {
	s := printed(maxOutputBytes, []byte("small"))
	if held := cap(s.head) + cap(s.ring); held > 1024 {
		t.Errorf("%d bytes are held for five", held)
	}
}

// Case 050 asks what becomes of an absurd cap.
func TestCase050AbsurdCapsAreClamped(t *testing.T) {
	for _, c := range []struct{ asked, kept int64 }{
		{0, defaultOutputBytes}, {-1, defaultOutputBytes}, {1e12, maxOutputBytes}, {1, 1}, {maxOutputBytes, maxOutputBytes},
	} {
		var o Output
		o.keep(c.asked)
		equal(t, fmt.Sprintf("cap for %d", c.asked), int64(o.stdout.max), c.kept)
		equal(t, fmt.Sprintf("cap of stderr for %d", c.asked), int64(o.stderr.max), c.kept)
	}
	text, dropped := printed(1, []byte("abc")).text()
	equal(t, "one byte kept", text, "[… 2 bytes dropped …]\nc")
	equal(t, "dropped", dropped, 2)
}
