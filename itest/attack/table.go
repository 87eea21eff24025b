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

// row is what was done on a device and what came of it. A conductor in a process of its own
// says what is exported.
type row struct {
	Device        string
	Ops, Messages uint64
	Kills, Pauses int
	Connections   uint64
	Worst         time.Duration
	What          string
	reports       []*report // with what has to be judged
	Excused       int
	Stall         time.Duration
	stalls        []span // of steady processes
	Returns       uint64 // of peers that had failed
	Kinds         map[string]uint64
	Wrongs        []string
	More          int
}

func (r *row) wrong(format string, args ...any) {
	r.Wrongs = append(r.Wrongs, fmt.Sprintf(format, args...))
}

// add takes in what a process measured.
func (r *row) add(m *report, is string) {
	if m == nil {
		return
	}
	r.Ops += m.Ops
	r.Connections += m.Connections
	if m.Worst > r.Worst {
		r.Worst, r.What = m.Worst, m.What
	}
	if is == "steady" {
		r.Stall = max(r.Stall, m.Stall)
		r.stalls = append(r.stalls, m.Stalls...)
		m.Stalls = nil
		r.flat(m)
		r.Returns += m.Returns
	}
	if len(m.Slow)+len(m.Faults) > 0 {
		r.reports = append(r.reports, m)
	}
	for k, n := range m.Kinds {
		r.Kinds[k] += n
	}
	r.Wrongs, r.More = append(r.Wrongs, m.Wrongs...), r.More+m.More
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
				r.Excused++
			} else {
				r.wrong("%s", f.Text)
			}
		}
		for _, s := range m.Slow {
			took := s.without(idle)
			if s.Steady && took > r.Worst {
				r.Worst, r.What = took, s.What
			}
			if took > s.Bound {
				r.wrong("%s has taken %v, longer than %v, and %v in which it was not run", s.What,
					took.Round(time.Millisecond), s.Bound, (s.To.Sub(s.From) - took).Round(time.Millisecond))
			}
		}
	}
}

func (r *row) failures() int { return len(r.Wrongs) + r.More }

// print writes the table, what foes did, and all that was wrong.
func show(w io.Writer, rows []row) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "device\toperations\tmessages\tkills\tpauses\ttaken back\tattacks\tworst wait\tof which\tnot run for\texcused\tfailures")
	for _, r := range rows {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%s\t%v\t%d\t%d\n", r.Device, r.Ops, r.Messages, r.Kills, r.Pauses, r.Returns, r.Connections,
			r.Worst.Round(100*time.Microsecond), r.What, r.Stall.Round(time.Millisecond), r.Excused, r.failures())
	}
	_ = t.Flush()
	for _, r := range rows {
		var b strings.Builder
		for _, k := range slices.Sorted(maps.Keys(r.Kinds)) {
			fmt.Fprintf(&b, " %s %d,", k, r.Kinds[k])
		}
		if b.Len() > 0 {
			_, _ = fmt.Fprintf(w, "%s:%s\n", r.Device, strings.TrimSuffix(b.String(), ","))
		}
	}
	for _, r := range rows {
		for _, text := range r.Wrongs {
			_, _ = fmt.Fprintf(w, "WRONG %s: %s\n", r.Device, text)
		}
		if r.More > 0 {
			_, _ = fmt.Fprintf(w, "WRONG %s: and %d more\n", r.Device, r.More)
		}
	}
}
