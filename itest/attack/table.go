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
	reports       []*report // with what has to be judged
	excused       int
	stall         time.Duration
	stalls        []span // of steady processes
	returns       uint64 // of peers that had failed
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
		r.stalls = append(r.stalls, m.Stalls...)
		m.Stalls = nil
		r.returns += m.Returns
	}
	if len(m.Slow)+len(m.Faults) > 0 {
		r.reports = append(r.reports, m)
	}
	for k, n := range m.Kinds {
		r.kinds[k] += n
	}
	r.wrongs, r.more = append(r.wrongs, m.Wrongs...), r.more+m.More
}

// judge holds slow calls to their bounds, and calls among steady processes to their success.
// What counts is the time in which the steady processes, and the caller, were run: the rest
// says something about the machine.
func (r *row) judge(timeout time.Duration) {
	idle := union(slices.Clone(r.stalls))
	for _, m := range r.reports {
		idle := idle
		if len(m.Stalls) > 0 { // of a mortal
			idle = union(append(m.Stalls, idle...))
		}
		for i := range m.Faults {
			if f := &m.Faults[i]; f.excused(r.stalls, timeout) {
				r.excused++
			} else {
				r.wrong("%s", f.Text)
			}
		}
		for _, s := range m.Slow {
			took := s.without(idle)
			if s.Steady && took > r.worst {
				r.worst, r.what = took, s.What
			}
			if took > s.Bound {
				r.wrong("%s has taken %v, longer than %v, and %v in which it was not run", s.What,
					took.Round(time.Millisecond), s.Bound, (s.To.Sub(s.From) - took).Round(time.Millisecond))
			}
		}
	}
}

func (r *row) failures() int { return len(r.wrongs) + r.more }

// print writes the table, what foes did, and all that was wrong.
func show(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "device\toperations\tmessages\tkills\tpauses\ttaken back\tattacks\tworst wait\tof which\tnot run for\texcused\tfailures")
	for _, r := range rows {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%s\t%v\t%d\t%d\n", r.device, r.ops, r.messages, r.kills, r.pauses, r.returns, r.connections,
			r.worst.Round(100*time.Microsecond), r.what, r.stall.Round(time.Millisecond), r.excused, r.failures())
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
