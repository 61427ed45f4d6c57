package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// column is one figure of a table. Where there is a ratio, it is rota's figure
// divided by the peer's.
type column struct {
	head   string
	value  func(figures) float64
	digits int
	ratio  string // its heading in the table of ratios; empty: none is formed
}

var drainColumns = []column{
	{"runs/s", func(f figures) float64 { return f.RunsPerSecond }, 0, "runs/s (more is better)"},
	{"CPU µs/run", func(f figures) float64 { return f.CPUUsPerRun }, 0, "CPU (less is better)"},
	{"allocs/run", func(f figures) float64 { return f.AllocsPerRun }, 0, "allocs (less)"},
	{"bytes written/run", func(f figures) float64 { return f.WrittenBytesPerRun }, 0, "written (less)"},
	{"write calls/run", func(f figures) float64 { return f.WriteCallsPerRun }, 1, ""},
	{"file bytes/run", func(f figures) float64 { return f.BytesPerRun }, 0, ""},
	{"peak MB", func(f figures) float64 { return float64(f.PeakBytes) / 1e6 }, 0, ""},
	{"in flight", func(f figures) float64 { return float64(f.InFlight) }, 0, ""},
	{"runs", func(f figures) float64 { return float64(f.Runs) }, 0, ""},
}

var burstColumns = []column{
	{"started", func(f figures) float64 { return float64(f.Started) }, 0, ""},
	{"dropped", func(f figures) float64 { return float64(f.Lost) }, 0, ""},
	{"p50 ms", func(f figures) float64 { return f.LateP50Ms }, 1, "p50 (less is better)"},
	{"p99 ms", func(f figures) float64 { return f.LateP99Ms }, 1, "p99 (less)"},
	{"max ms", func(f figures) float64 { return f.LateMaxMs }, 1, "max (less)"},
	{"all durable ms", func(f figures) float64 { return f.DurableMs }, 1, ""},
	{"peak MB", func(f figures) float64 { return float64(f.PeakBytes) / 1e6 }, 0, ""},
}

func (t *trial) columns() []column {
	if t.Burst > 0 {
		return burstColumns
	}
	return drainColumns
}

// brief is one line of progress.
func (f figures) brief() string {
	var s string
	if f.Burst > 0 {
		s = fmt.Sprintf("%d started, %d dropped, p50 %.1f ms, max %.1f ms", f.Started, f.Lost, f.LateP50Ms, f.LateMaxMs)
	} else {
		s = fmt.Sprintf("%d runs, %.0f a second, %.0f µs of CPU a run", f.Runs, f.RunsPerSecond, f.CPUUsPerRun)
	}
	if f.Repeated > 0 || f.Complaints > 0 {
		s += fmt.Sprintf("; executed again: %d, complaints: %d", f.Repeated, f.Complaints)
	}
	return s
}

// spread is a figure over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) (spread, bool) {
	if len(values) == 0 {
		return spread{}, false
	}
	values = slices.Sorted(slices.Values(values))
	n := len(values)
	return spread{Median: (values[(n-1)/2] + values[n/2]) / 2, Min: values[0], Max: values[n-1]}, true
}

// over collects a figure of one side. Zero is an answer where jobs are counted,
// and elsewhere a figure that the side does not have.
func (t *trial) over(name string, value func(figures) float64) (spread, bool) {
	var values []float64
	counts := value(figures{Started: 1, Lost: 1}) != 0
	for _, r := range t.Records {
		if x := value(r.F); r.Side == name && (x != 0 || counts) {
			values = append(values, x)
		}
	}
	return spreadOf(values)
}

// ratio compares rota with a peer in each round that has both.
func (t *trial) ratio(peer string, value func(figures) float64) (spread, bool) {
	rota := map[int]float64{}
	for _, r := range t.Records {
		if r.Side == rotaName {
			rota[r.Round] = value(r.F)
		}
	}
	var ratios []float64
	for _, r := range t.Records {
		if mine, theirs := rota[r.Round], value(r.F); r.Side == peer && mine > 0 && theirs > 0 {
			ratios = append(ratios, mine/theirs)
		}
	}
	return spreadOf(ratios)
}

// absolute is the table of this run's figures: medians of the rounds.
func (t *trial) absolute() (rows [][]string) {
	head := []string{t.Name}
	for _, c := range t.columns() {
		head = append(head, c.head)
	}
	rows = append(rows, head)
	for _, name := range t.Sides {
		row := []string{strings.TrimSpace(name + " " + t.Versions[name])}
		for _, c := range t.columns() {
			cell := "–"
			if s, ok := t.over(name, c.value); ok {
				cell = grouped(s.Median, c.digits)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// ratios is the table of rota against each peer.
func (t *trial) ratios() (rows [][]string) {
	head := []string{t.Name + ": rota ÷"}
	for _, c := range t.columns() {
		if c.ratio != "" {
			head = append(head, c.ratio)
		}
	}
	rows = append(rows, head)
	for _, name := range t.Sides[1:] {
		row := []string{name}
		if lost, ok := t.over(name, func(f figures) float64 { return float64(f.Lost) }); ok && lost.Max > 0 {
			row[0] += ", of those it started"
		}
		for _, c := range t.columns() {
			if c.ratio == "" {
				continue
			}
			cell := "–"
			if s, ok := t.ratio(name, c.value); ok {
				cell = fmt.Sprintf("%s (%s–%s)", significant(s.Median), significant(s.Min), significant(s.Max))
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return rows
}

// significant writes a ratio with two digits, or all before the point.
func significant(x float64) string {
	if x <= 0 {
		return "0"
	}
	digits := max(0, 1-int(math.Floor(math.Log10(x))))
	return fmt.Sprintf("%.*f", digits, x)
}

// grouped writes a number with a comma between the thousands.
func grouped(x float64, digits int) string {
	whole, fraction, _ := strings.Cut(fmt.Sprintf("%.*f", digits, x), ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction != "" {
		return whole + "." + fraction
	}
	return whole
}

// printText writes the tables for a terminal.
func printText(w io.Writer, m machine, trials []*trial) {
	fmt.Fprintf(w, "%s\n", m.line())
	for _, t := range trials {
		for _, rows := range [][][]string{t.absolute(), t.ratios()} {
			fmt.Fprintln(w)
			printAligned(w, rows)
		}
	}
}

// printAligned writes names to the left and numbers to the right.
func printAligned(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprint(w, cell, gap)
			} else {
				fmt.Fprint(w, "  ", gap, cell)
			}
		}
		fmt.Fprintln(w)
	}
}

// printMarkdown writes the tables for a README.
func printMarkdown(w io.Writer, m machine, trials []*trial) {
	fmt.Fprintf(w, "Measured on %s.\n", m.line())
	for _, t := range trials {
		for _, rows := range [][][]string{t.absolute(), t.ratios()} {
			fmt.Fprintln(w)
			for i, row := range rows {
				fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
				if i == 0 {
					fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|--:", len(row)-1))
				}
			}
		}
	}
}

func (m machine) line() string {
	parts := []string{fmt.Sprintf("%s, %d cores", m.CPU, m.Cores), m.System}
	if m.FileSystem != "" {
		parts = append(parts, m.FileSystem)
	}
	parts = append(parts, m.Go, m.Date)
	if m.Load != "" {
		parts = append(parts, "load before "+m.Load)
	}
	return strings.Join(parts, ", ")
}
