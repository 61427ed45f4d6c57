package main

import (
	"strings"
	"unicode"
)

// column is one column of a table: cells longer than Width end in "...".
type column struct {
	Title string
	Width int // in terminal cells
}

// tableRow lays cells out under columns. paint may colour a cell after it is
// padded; nil = none.
func tableRow(columns []column, cells []string, paint func(column int, padded string) string) string {
	var b strings.Builder
	for i, c := range columns {
		cell := fit(escapeText(cells[i]), c.Width)
		if paint != nil {
			cell = paint(i, cell)
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(cell)
	}
	return strings.TrimRight(b.String(), " ") + "\n"
}

// fit makes s exactly width cells wide.
func fit(s string, width int) string {
	if n := cellsOf(s); n <= width {
		return s + strings.Repeat(" ", width-n)
	}
	used, end := 0, 0
	for i, r := range s {
		w := runeCells(r)
		if used+w > width-3 {
			break
		}
		used += w
		end = i + len(string(r))
	}
	return s[:end] + "..." + strings.Repeat(" ", width-3-used)
}

// cellsOf is the width of s in a terminal.
func cellsOf(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// runeCells is the width of one character: 0 for what combines with the one
// before, 2 for East Asian wide ones and pictographs. It is a coarse form of
// Unicode's table: a sequence that a terminal joins into one picture is counted
// in its parts, which leaves a gap, not an overlap.
func runeCells(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf), r >= 0x1160 && r <= 0x11ff:
		return 0
	case r >= 0x1100 && r <= 0x115f,
		r >= 0x2e80 && r <= 0x303e, r >= 0x3041 && r <= 0x33ff, r >= 0x3400 && r <= 0x4dbf,
		r >= 0x4e00 && r <= 0x9fff, r >= 0xa000 && r <= 0xa4cf, r >= 0xa960 && r <= 0xa97f,
		r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f,
		r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6,
		r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}
