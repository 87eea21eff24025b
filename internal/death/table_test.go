package death

import (
	"flag"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa"
)

var (
	flagAll    = flag.Bool("all", false, "TestDeathTable tries every time that a step is taken, not the first and the last")
	flagShow   = flag.Int("show", 20, "how many open rows TestDeathTable prints")
	flagFaults = flag.String("faults", "", "the faults to try: those with this in their name")
	flagOnly   = flag.String("only", "", "the rows to try: those with this in their name")
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
	p := pairs()[x.at.pair]
	begin := "known"
	if x.cold {
		begin = "first contact"
	}
	return fmt.Sprintf("%v (%s): %s %s, at step %d of the %s: %v",
		x.play, begin, sideNames[x.victim], x.fault.name, x.at.nth, sideNames[x.at.side], p)
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

// tally is what came of the rows of one kind.
type tally struct {
	tried, open    int
	outcome, clean time.Duration
}

func (y *tally) add(r *run) {
	y.tried++
	if len(r.bad) > 0 {
		y.open++
	}
	y.outcome, y.clean = max(y.outcome, r.outcome), max(y.clean, r.clean)
}

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

// rows lists what there is to try: each step, or of those that come again the first and the
// last time, with each fault of each side.
func rows(all []*steps) []*row {
	var list []*row
	for _, x := range all {
		last := make(map[[2]int]uint64)
		for _, s := range x.taken {
			last[[2]int{s.side, s.pair}] = s.nth
		}
		for _, s := range x.taken {
			if !*flagAll && s.nth != 1 && s.nth != last[[2]int{s.side, s.pair}] {
				continue
			}
			for victim := range 2 {
				for _, f := range faults {
					list = append(list, &row{x, s, victim, f})
				}
			}
		}
	}
	if *flagFaults != "" {
		list = slices.DeleteFunc(list, func(x *row) bool { return !strings.Contains(x.fault.name, *flagFaults) })
	}
	if *flagOnly != "" {
		list = slices.DeleteFunc(list, func(x *row) bool { return !strings.Contains(x.String(), *flagOnly) })
	}
	return list
}

// results are the tallies, by what they are of.
type results struct {
	mu      sync.Mutex
	byPlay  map[string]*tally
	byFault map[string]*tally
	all     tally
	hits    []uint64 // by pair, in all rows
	bad     map[string][]string
	first   map[string]string
}

func (z *results) add(x *row, r *run) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, to := range []struct {
		m    map[string]*tally
		name string
	}{{z.byPlay, x.play.String()}, {z.byFault, x.fault.name}} {
		if to.m[to.name] == nil {
			to.m[to.name] = new(tally)
		}
		to.m[to.name].add(r)
	}
	z.all.add(r)
	if len(r.bad) > 0 {
		z.bad[x.String()] = r.bad
	}
}

// TestDeathTable tries every row, and prints what came of them.
func TestDeathTable(t *testing.T) {
	keepSystem(t)
	all := calm(t)
	list := rows(all)
	z := &results{byPlay: map[string]*tally{}, byFault: map[string]*tally{}, bad: map[string][]string{}}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(list)); i = next.Add(1) - 1 {
				z.add(list[i], list[i].try())
			}
		})
	}
	wg.Wait()
	t.Log(z.print(all))
	n := 0
	for _, name := range slices.Sorted(maps.Keys(z.bad)) {
		if n++; n <= *flagShow {
			t.Errorf("open: %s\n\t%s", name, strings.Join(z.bad[name], "\n\t"))
		}
	}
}

// print makes the table.
func (z *results) print(all []*steps) string {
	var b strings.Builder
	line := func(name string, y *tally) {
		fmt.Fprintf(&b, "%-52s %7d %6d %14v %14v\n", name, y.tried, y.open,
			y.outcome.Round(time.Microsecond), y.clean.Round(time.Microsecond))
	}
	head := func(what string) {
		fmt.Fprintf(&b, "\n%-52s %7s %6s %14s %14s\n", what, "rows", "open", "worst outcome", "all is back")
	}
	head("subprotocol")
	seen := map[string]bool{}
	for _, x := range all {
		if name := x.play.String(); !seen[name] && z.byPlay[name] != nil {
			seen[name] = true
			line(name, z.byPlay[name])
		}
	}
	head("fault")
	for _, f := range faults {
		if y := z.byFault[f.name]; y != nil {
			line(f.name, y)
		}
	}
	line("all", &z.all)
	return b.String()
}

// keepSystem keeps one domain open, so that the runs share what a process has once.
func keepSystem(t *testing.T) {
	t.Helper()
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	dev, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, dom.Close())
		require.NoError(t, fab.Close())
	})
}
