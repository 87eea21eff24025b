package death

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/ope"
)

// row is one try: a play in which a fault strikes a side at a step.
type row struct {
	*steps
	at     step
	victim int
	fault  *fault
}

// steps are those of a play without a fault.
type steps struct {
	play  *play
	cold  bool
	taken []step
}

var sideNames = [2]string{"requester", "target"}

func (x *row) String() string {
	begin := "known"
	if x.cold {
		begin = "first contact"
	}
	return fmt.Sprintf("%v (%s): %s %s, at step %d of the %s: %v",
		x.play, begin, sideNames[x.victim], x.fault.name, x.at.nth, sideNames[x.at.side], pairs()[x.at.pair])
}

// pair is an entry of a machine's table.
type pair struct{ machine, state, event string }

func (p pair) String() string { return p.machine + " " + p.state + " " + p.event }

// pairs are the entries of all tables, in their order.
var pairs = sync.OnceValue(func() []pair {
	var list []pair
	new(ope.Steps).Each(func(m, s, e string, _ uint64) { list = append(list, pair{m, s, e}) })
	return list
})

// try plays a row.
func (x *row) try() (r *run) {
	r = newRun(x.play, x.cold, x.fault, x.victim, x.at)
	defer func() {
		if p := recover(); p != nil {
			r.badf("panic: %v", p)
		}
	}()
	r.all()
	return r
}

// calm plays every play without a fault, in both ways.
func calm(t *testing.T) []*steps {
	t.Helper()
	var list []*steps
	for _, p := range plays() {
		for _, cold := range []bool{false, true} {
			r := newRun(&p, cold, nil, 0, step{})
			r.all()
			require.Empty(t, r.bad, "%v, first contact %v", &p, cold)
			if !cold && !p.fickle {
				require.Equal(t, p.proto, r.a.deeds[0].proto, p.variant)
			}
			list = append(list, &steps{&p, cold, r.steps})
		}
	}
	return list
}

// every lists all rows: each step, or of those that come again the first and the last time,
// with each fault of each side.
func every(all []*steps, again bool) []*row {
	var list []*row
	for _, x := range all {
		last := make(map[[2]int]uint64)
		for _, s := range x.taken {
			last[[2]int{s.side, s.pair}] = s.nth
		}
		for _, s := range x.taken {
			if !again && s.nth != 1 && s.nth != last[[2]int{s.side, s.pair}] {
				continue
			}
			for victim := range 2 {
				for _, f := range faults {
					list = append(list, &row{x, s, victim, f})
				}
			}
		}
	}
	return list
}

// named leaves those rows whose names, and those of whose faults, have such a part.
func named(list []*row, part, fault string) []*row {
	return slices.DeleteFunc(list, func(x *row) bool {
		return !strings.Contains(x.String(), part) || !strings.Contains(x.fault.name, fault)
	})
}

// sample leaves one row in n, so that each fault meets each pair of a machine sooner or later.
func sample(list []*row, n int) []*row {
	var some []*row
	for i := 0; i < len(list); i += n + 1 - n%2 {
		some = append(some, list[i])
	}
	return some
}
