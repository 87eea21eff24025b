package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// row is what was done on a device and what came of it.
type row struct {
	device        string
	ops, messages uint64
	kills, pauses int
	connections   uint64
	worst         time.Duration
	what          string
	stall         time.Duration
	kinds         map[string]uint64
	wrongs        []string
	more          int
}

func (r *row) wrong(format string, args ...any) {
	r.wrongs = append(r.wrongs, fmt.Sprintf(format, args...))
}

// add takes in what a process measured.
func (r *row) add(m *report, is string) {
	if m == nil {
		return
	}
	r.ops += m.Ops
	r.connections += m.Connections
	if m.Worst > r.worst {
		r.worst, r.what = m.Worst, m.What
	}
	if is == "steady" {
		r.stall = max(r.stall, m.Stall)
	}
	for k, n := range m.Kinds {
		r.kinds[k] += n
	}
	r.wrongs, r.more = append(r.wrongs, m.Wrongs...), r.more+m.More
}

func (r *row) failures() int { return len(r.wrongs) + r.more }

// print writes the table, what foes did, and all that was wrong.
func print(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "device\toperations\tmessages\tkills\tpauses\tattacks\tworst wait\tof which\tnot run for\tfailures")
	for _, r := range rows {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%v\t%s\t%v\t%d\n", r.device, r.ops, r.messages, r.kills, r.pauses, r.connections,
			r.worst.Round(100*time.Microsecond), r.what, r.stall.Round(time.Millisecond), r.failures())
	}
	_ = t.Flush()
	for _, r := range rows {
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(r.kinds)) {
			fmt.Fprintf(&b, " %s %d,", k, r.kinds[k])
		}
		if b.Len() > 0 {
			_, _ = fmt.Fprintf(w, "%s:%s\n", r.device, strings.TrimSuffix(b.String(), ","))
		}
	}
	for _, r := range rows {
		for _, text := range r.wrongs {
			_, _ = fmt.Fprintf(w, "WRONG %s: %s\n", r.device, text)
		}
		if r.more > 0 {
			_, _ = fmt.Fprintf(w, "WRONG %s: and %d more\n", r.device, r.more)
		}
	}
}
