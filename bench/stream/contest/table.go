package contest

import (
	"fmt"
	"strings"

	"github.com/efactor/efactor/bench/internal/versus"
)

// table is the results for people: a line for each size.
type table struct {
	*Config
	systems []System
}

// inBytes is from which size on a line has GB/s; smaller messages are counted.
const inBytes = 4096

const column = 24

func (t *table) head() {
	way, tags := "one way", "untagged"
	if t.Plan.Both {
		way = "both ways"
	}
	if t.Plan.Tagged {
		tags = "tagged"
	}
	fmt.Fprintf(t.Out, "%v\n# %s, %s, window %d, answers after %d, %d buffers; device %s, progress %s; %d rounds, load average before: %s\n",
		versus.Here(), way, tags, t.Plan.Window, t.Plan.Batch, t.Plan.Buffers, t.Device, t.Progress, t.Rounds, versus.Load())
	fmt.Fprintln(t.Out, "# millions of messages/s, or GB/s: median (least..most); then ratios of efactor's first column to the others")
	line := fmt.Sprintf("%8s %5s", "bytes", "")
	for _, s := range t.systems {
		line += fmt.Sprintf(" %*s", column, s.Name)
	}
	for _, s := range t.systems[1:] {
		line += fmt.Sprintf(" %14s", "/"+s.Name)
	}
	fmt.Fprintln(t.Out, line)
}

// line writes those of one size.
func (t *table) line(size int, results []*Result) {
	bytes := versus.Size(size)
	unit := "M/s"
	if size >= inBytes {
		unit = "GB/s"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%8v %5s", &bytes, unit)
	for _, r := range results {
		s := r.Rate.Times(1e-6)
		if size >= inBytes {
			s = r.GBps
		}
		fmt.Fprintf(&b, " %*v", column, s)
	}
	for _, r := range results[1:] {
		fmt.Fprintf(&b, " %14.2f", results[0].Rate.Median/r.Rate.Median)
	}
	fmt.Fprintln(t.Out, b.String())
}

func (t *table) end() {
	fmt.Fprintf(t.Out, "# load average after: %s; where others run, rates of programs that spin mean little\n", versus.Load())
}
