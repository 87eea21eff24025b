package merge

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/efactor/efactor/bench/internal/versus"
)

// Write writes the figures to reach, and then a table for each family of cases, both in
// Markdown, of the cases whose names match.
func Write(w io.Writer, runs []Run, names *regexp.Regexp, aims Aims) error {
	all := count(runs, names)
	fmt.Fprintf(w, "Median of %d runs (the least to the most of them); ratios are of efactor's figure to the peer's.\n\n", all.runs)
	table := [][]string{{"case", "peer", "aim", "median", "range", "runs", "reached"}}
	for _, r := range all.results(names, aims) {
		table = append(table, r.cells())
	}
	writeTable(w, table)
	for _, f := range families(all.list) {
		fmt.Fprintln(w)
		writeTable(w, f.table(all.runs))
	}
	_, err := fmt.Fprintln(w, "\n**Bold**: efactor is behind.")
	return err
}

func (r *result) cells() []string {
	name := r.name
	if r.aim.tail != "" {
		name += ", " + r.aim.tail
	}
	cells := []string{name, r.peer, r.aim.String(), "-", "-", strconv.Itoa(len(r.figures)), r.verdict()}
	if len(r.figures) > 0 {
		s := versus.SpreadOf(r.figures)
		cells[3], cells[4] = digits(s.Median), digits(s.Min)+" to "+digits(s.Max)
	}
	return cells
}

// family is cases that have a table together.
type family struct {
	name, unit string
	cases      []*tally
}

// families gives the cases by the first elements of their names, up to the size or another
// number, in the order in which they come.
func families(list []*tally) (all []*family) {
	for _, t := range list {
		name, _ := split(t.name)
		i := slices.IndexFunc(all, func(f *family) bool { return f.name == name && f.unit == t.unit })
		if i < 0 {
			i = len(all)
			all = append(all, &family{name: name, unit: t.unit})
		}
		all[i].cases = append(all[i].cases, t)
	}
	return all
}

// split parts the name of a case before its first number, or else before its last element.
func split(name string) (family, rest string) {
	elements := strings.Split(name, "/")
	n := max(len(elements)-1, 1)
	for i, e := range elements {
		if i > 0 && e != "" && e[0] >= '0' && e[0] <= '9' {
			n = i
			break
		}
	}
	return strings.Join(elements[:n], "/"), strings.Join(elements[n:], "/")
}

// table has a line for each case and a column for each peer.
func (f *family) table(runs int) [][]string {
	var peers, tails []string
	for _, t := range f.cases {
		for _, p := range t.peers {
			if !slices.Contains(peers, p) {
				peers = append(peers, p)
			}
		}
		for name := range t.tails {
			if !slices.Contains(tails, name) {
				tails = append(tails, name)
			}
		}
	}
	slices.Sort(tails)
	head := append([]string{f.name, "efactor, " + f.unit}, tails...)
	table := [][]string{append(head, peers...)}
	slices.SortStableFunc(f.cases, func(a, b *tally) int { return leading(a.name) - leading(b.name) })
	for _, t := range f.cases {
		_, rest := split(t.name)
		cells := []string{rest, figures(t.ours)}
		for _, name := range tails {
			cells = append(cells, median(t.tails[name]))
		}
		for _, p := range peers {
			cells = append(cells, t.cell(p, runs))
		}
		table = append(table, cells)
	}
	return table
}

// leading is the number that the rest of a name begins with, in units if it is a size.
func leading(name string) int {
	_, rest := split(name)
	first, _, _ := strings.Cut(rest, "/")
	var s versus.Size
	if s.Set(first) != nil && s.Set(strings.TrimSuffix(first, "B")) != nil {
		return 0
	}
	return int(s)
}

// cell has the ratio to a peer, bold where efactor is behind.
func (t *tally) cell(peer string, runs int) string {
	list := t.to(peer, runs)
	if len(list) == 0 {
		return ""
	}
	if m := versus.SpreadOf(list).Median; m != 1 && (m < 1) == t.higher {
		return "**" + digits(m) + "**" + strings.TrimPrefix(figures(list), digits(m))
	}
	return figures(list)
}

// figures gives the median of a list, with the range if there are several.
func figures(list []float64) string {
	if len(list) == 0 {
		return "-"
	}
	s := versus.SpreadOf(list)
	if len(list) == 1 {
		return digits(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", digits(s.Median), digits(s.Min), digits(s.Max))
}

func median(list []float64) string {
	if len(list) == 0 {
		return ""
	}
	return digits(versus.SpreadOf(list).Median)
}

// digits has more of small figures than versus.Digits, as some ratios are.
func digits(v float64) string {
	switch {
	case v == 0 || v >= 0.1:
		return versus.Digits(v)
	case v >= 0.01:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

func writeTable(w io.Writer, table [][]string) {
	for i, cells := range table {
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		if i == 0 {
			fmt.Fprintln(w, "|"+strings.Repeat("---|", len(cells)))
		}
	}
}
