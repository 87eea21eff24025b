package trial

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/efactor/efactor/bench/internal/versus"
)

const layout = "%-32s %-5s %-15s %22s %22s %6s %6s  %s\n"

// WriteHead writes the heads of the columns of WriteLines.
func WriteHead(w io.Writer) {
	fmt.Fprintf(w, layout, "case", "unit", "peer", "efactor", "peer", "ratio", "p", "")
}

// WriteLines writes lines for people, and the percentiles of each way of efactor's.
func WriteLines(w io.Writer, list []Line) {
	for i, l := range list {
		theirs, ratio, p := "-", "-", "-"
		if l.Theirs != nil {
			theirs = spread(*l.Theirs, *l.TheirsSpread)
			ratio, p = versus.Digits(*l.Ratio), fmt.Sprintf("%.3f", *l.P)
		}
		fmt.Fprintf(w, layout, l.Case, l.Unit, l.Peer, spread(l.Ours, l.OursSpread), theirs, ratio, p, l.verdict())
		if len(l.TheirPercentiles) > 0 {
			fmt.Fprintf(w, "%-32s %-5s %s\n", l.Case, l.Unit, percentiles(l.Peer, l.TheirPercentiles))
		}
		if i < len(list)-1 && list[i+1].Case == l.Case {
			continue
		}
		if len(l.Percentiles) > 0 {
			fmt.Fprintf(w, "%-32s %-5s %s\n", l.Case, l.Unit, percentiles("efactor", l.Percentiles))
		}
		if a := l.Apart; a != nil && a[1] > muchFarther*a[0] {
			fmt.Fprintf(w, "# %s: the CPUs were %.0f to %.0f ns apart: not all runs had the same machine\n", l.Case, a[0], a[1])
		}
	}
}

func spread(median float64, s [2]float64) string {
	return versus.Spread{Median: median, Min: s[0], Max: s[1]}.String()
}

// muchFarther is the ratio between cores and the threads of one: less is chance.
const muchFarther = 3

// alpha is the p below which a difference is called one.
const alpha = 0.05

// verdict is the line in a word.
func (l *Line) verdict() string {
	switch {
	case l.Ratio == nil:
		return ""
	case *l.P > alpha:
		return "~" // may be chance
	case (*l.Ratio > 1) == (l.Better == "more"):
		return "better"
	}
	return "worse"
}

// percentiles lists a system's figures by their names: p50, p99 and p99.9 from the least up.
func percentiles(system string, m map[string]float64) string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(system + "'s")
	for _, name := range names {
		fmt.Fprintf(&b, "  %s %s", name, versus.Digits(m[name]))
	}
	return b.String()
}

// WriteFailures writes a comment on each contestant that is out.
func WriteFailures(w io.Writer, o *Outcome) {
	failures := o.Failures()
	for _, s := range o.Scores {
		name := s.Name
		if s.Ours {
			name = "efactor" + s.Name
		}
		if err, ok := failures[name]; ok {
			fmt.Fprintf(w, "# %s: %s FAILED: %s\n", o.Case.Name, name, oneLine(err))
		}
	}
}

const maxError = 300

// oneLine keeps the beginning of an error, which may have a program's whole output in it.
func oneLine(err error) string {
	s := strings.Join(strings.Fields(err.Error()), " ")
	if len(s) > maxError {
		s = s[:maxError] + "..."
	}
	return s
}
