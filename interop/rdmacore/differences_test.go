//go:build linux

package rdmacore

import (
	"regexp"
	"slices"
	"strings"
)

// difference is one that this repository's driver means to have from libefa: theirs and
// ours make the traces equal in it, nil leaves one as it is.
type difference struct {
	name         string // as in docs/efa-driver.md
	in           func(script string, release int) bool
	theirs, ours func([]call) []call
}

// differences are all that there are. Each must occur: without it, traces that are equal
// otherwise differ.
var differences = []difference{
	{name: "no probe for a way of commands", theirs: without(func(c call) bool { return strings.HasSuffix(c[0], "= ENOSPC") })},
	{
		name:   "asynchronous events by queue pair",
		theirs: without(begins("16.0 create async")), ours: without(begins("16.0 create async")),
	},
	{name: "order of attributes", theirs: each(sortAttributes), ours: each(sortAttributes)},
	{
		name: "a longer request for a queue pair", in: func(_ string, release int) bool { return release < 56 },
		theirs: each(func(c call) call {
			if !begins("4.0 create QP")(c) {
				return c
			}
			return c.replace("0x1000(16)", "0x1000(24)").replaceLine("  0x1000: ", " +4", " +12")
		}),
	},
	{
		name:   "no user handle of address handles",
		theirs: each(func(c call) call { return c.replace("- pointer pd0", "- none pd0") }),
	},
	{
		name: "one address handle for a GID", in: only("efa"),
		theirs: func(all []call) []call {
			made := 0
			return without(func(c call) bool {
				if begins("0.0 create AH")(c) {
					made++
					return made == 2
				}
				return begins("6.0 destroy AH")(c) && slices.Contains(c, "  0x0: ah1")
			})(all)
		},
	},
	{
		name: "tags in ids", in: func(_ string, release int) bool { return release < 65 },
		ours: each(func(c call) call { return c.replace("/0x1 ", " ") }),
	},
	{
		name: "slots as ids of receives", in: func(script string, _ int) bool { return script != "wide" },
		theirs: each(noReceiveID), ours: each(noReceiveID),
	},
	{name: "unmapping at the end", theirs: unmapLast, ours: unmapLast},
	{
		name: "no doorbell stays mapped", in: func(script string, release int) bool { return release < 56 && script == "efa" },
		ours: without(begins("unmap cq0 doorbell")),
	},
}

// call is a line of a trace with the indented ones behind it.
type call []string

func parseTrace(text string) (all []call) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := len(all); n > 0 && strings.HasPrefix(line, " ") {
			all[n-1] = append(all[n-1], line)
			continue
		}
		all = append(all, call{line})
	}
	return all
}

func (c call) replace(old, now string) call {
	c = slices.Clone(c)
	for i := range c {
		c[i] = strings.Replace(c[i], old, now, 1)
	}
	return c
}

// replaceLine changes the end of lines that begin with start.
func (c call) replaceLine(start, old, now string) call {
	c = slices.Clone(c)
	for i := range c {
		if rest, ok := strings.CutSuffix(c[i], old); ok && strings.HasPrefix(c[i], start) {
			c[i] = rest + now
		}
	}
	return c
}

func begins(start string) func(call) bool {
	return func(c call) bool { return strings.HasPrefix(c[0], start) }
}

func only(name string) func(string, int) bool {
	return func(script string, _ int) bool { return script == name }
}

func without(drop func(call) bool) func([]call) []call {
	return func(all []call) []call { return slices.DeleteFunc(slices.Clone(all), drop) }
}

func each(change func(call) call) func([]call) []call {
	return func(all []call) []call {
		all = slices.Clone(all)
		for i := range all {
			all[i] = change(all[i])
		}
		return all
	}
}

// sortAttributes sorts the attributes of an ioctl, and its inputs.
func sortAttributes(c call) call {
	name, rest, ok := strings.Cut(c[0], ": ")
	attrs, how, is := strings.Cut(rest, " = ")
	if !ok || !is {
		return c
	}
	list, inputs := strings.Fields(attrs), slices.Clone(c[1:])
	slices.Sort(list)
	slices.Sort(inputs)
	return append(call{name + ": " + strings.Join(list, " ") + " = " + how}, inputs...)
}

var receiveID = regexp.MustCompile(`^(  mr\d\+\S+) r\d+`)

func noReceiveID(c call) call {
	c = slices.Clone(c)
	for i := range c {
		c[i] = receiveID.ReplaceAllString(c[i], "$1 r")
	}
	return c
}

// unmapLast moves what is unmapped in a step behind everything else in it.
func unmapLast(all []call) []call {
	var out, last []call
	flush := func() {
		slices.SortFunc(last, func(a, b call) int { return strings.Compare(a[0], b[0]) })
		out, last = append(out, last...), nil
	}
	for _, c := range all {
		switch {
		case begins("unmap ")(c):
			last = append(last, c)
			continue
		case begins("-- ")(c):
			flush()
		}
		out = append(out, c)
	}
	flush()
	return out
}

// settle applies all differences to two traces but the one of a name.
func settle(script string, release int, but string, theirs, ours []call) (string, string) {
	for _, d := range differences {
		if d.name == but || d.in != nil && !d.in(script, release) {
			continue
		}
		if d.theirs != nil {
			theirs = d.theirs(theirs)
		}
		if d.ours != nil {
			ours = d.ours(ours)
		}
	}
	return flat(theirs), flat(ours)
}

func flat(all []call) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(strings.Join(c, "\n") + "\n")
	}
	return b.String()
}
