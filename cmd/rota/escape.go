package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Names and output come from anywhere. Nothing in them may move the cursor,
// change colours, break a line of a table or turn the reading direction: what
// could is shown as its escape.

// escapeText is s on one line, safe to show.
func escapeText(s string) string { return escape(s, false) }

// escapeLines is s with its line breaks and tabs kept.
func escapeLines(s string) string { return escape(s, true) }

func escape(s string, lines bool) string {
	if safe(s, lines) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case lines && (r == '\n' || r == '\t'), !unsafeRune(r):
			b.WriteString(s[i : i+size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
	}
	return b.String()
}

func safe(s string, lines bool) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if unsafeRune(r) && !(lines && (r == '\n' || r == '\t')) {
			return false
		}
	}
	return true
}

// unsafeRune: control characters of both sets, and what turns the direction.
func unsafeRune(r rune) bool {
	switch {
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	case r == '\u200e', r == '\u200f', r == '\u061c', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069':
		return true
	}
	return false
}

// escapeJSON replaces what JSON allows raw in a string and a terminal should
// not see. Those characters cannot stand outside a string, so the value stays
// the same.
func escapeJSON(doc []byte) []byte {
	s := string(doc)
	if safe(s, true) {
		return doc
	}
	var b strings.Builder
	for _, r := range s {
		if unsafeRune(r) && r != '\n' && r != '\t' && r != '\r' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}
