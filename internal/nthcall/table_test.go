//go:build linux && (amd64 || arm64)

package nthcall

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// table is the outcome of all rows on one device.
type table struct {
	device string
	lines  map[string]*line
	open   []string // open rows, with what is wrong
}

// line sums up the rows of one call.
type line struct {
	seen                               int // in a round without a fault
	rows, absorbed, errs, missed, open int
	worst                              time.Duration
}

func newTable(device string) *table { return &table{device: device, lines: make(map[string]*line)} }

func (t *table) line(name string) *line {
	l := t.lines[name]
	if l == nil {
		l = &line{}
		t.lines[name] = l
	}
	return l
}

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%-24s %7s %6s %9s %7s %8s %6s %10s\n", t.device,
		"  call", "seen", "rows", "absorbed", "errors", "not made", "open", "worst")
	var sum line
	for _, name := range slices.Sorted(maps.Keys(t.lines)) {
		l := t.lines[name]
		l.print(&b, "  "+name)
		sum.seen += l.seen
		sum.rows += l.rows
		sum.absorbed += l.absorbed
		sum.errs += l.errs
		sum.missed += l.missed
		sum.open += l.open
		sum.worst = max(sum.worst, l.worst)
	}
	sum.print(&b, "all")
	return b.String()
}

func (l *line) print(b *strings.Builder, name string) {
	fmt.Fprintf(b, "%-24s %7d %6d %9d %7d %8d %6d %10s\n", name,
		l.seen, l.rows, l.absorbed, l.errs, l.missed, l.open, l.worst.Round(time.Millisecond))
}

// effort says how many rows there are.
type effort struct {
	each   int  // of one call: this many times from the first on, and as many spread over the rest
	errnos bool // every error number at each of them; else one, in turn
	third  bool // of the rows by turns: other kinds have the others
}

// rows are those for what a round was seen to call.
func (e effort) rows(counts map[uint32]int, methods map[string]int) []row {
	var rows []row
	for _, nr := range slices.SortedFunc(maps.Keys(counts), func(a, b uint32) int { return cmp.Compare(callName(a), callName(b)) }) {
		errnos := callErrnos(nr)
		for i, n := range e.picks(counts[nr]) {
			for j, errno := range errnos {
				if e.errnos || j == i%len(errnos) {
					rows = append(rows, row{NR: nr, N: n, Errno: errno})
					if spells(nr, errno) {
						rows = append(rows, row{NR: nr, N: n, Errno: errno, Spell: spell})
					}
				}
			}
		}
	}
	for _, m := range slices.Sorted(maps.Keys(methods)) {
		names := methodErrors(m)
		for i, n := range e.picks(methods[m]) {
			for j, name := range names {
				if e.errnos || j == i%len(names) {
					rows = append(rows, row{Method: m, N: n, Err: name})
				}
			}
		}
	}
	return rows
}

// picks are the times at which a call fails that is made count times.
func (e effort) picks(count int) []int {
	var ns []int
	for n := 1; n <= min(count, e.each); n++ {
		ns = append(ns, n)
	}
	rest := count - e.each
	for i := 1; i <= min(rest, e.each); i++ {
		ns = append(ns, e.each+rest*i/min(rest, e.each))
	}
	return ns
}
