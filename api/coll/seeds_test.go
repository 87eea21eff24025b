package coll_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/internal/testenv"
)

var (
	flagSeeds = flag.Int("seeds", 0, "how many seeds TestSeeds plays; 0: a few seconds' worth")
	flagFirst = flag.Uint64("first", 1, "first of the seeds")
	flagSeed  = flag.Uint64("seed", 0, "the one seed to play")
)

// TestSeeds plays random programs of several collectives on several groups, some
// at the same time, on a fabric with faults.
func TestSeeds(t *testing.T) {
	first, n := *flagFirst, *flagSeeds
	switch {
	case *flagSeed != 0:
		first, n = *flagSeed, 1
	case n == 0:
		n = less(playSeeds)
	}
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range seeds {
				if err := playSeed(t, seed); err != nil {
					t.Errorf("seed %d: %v\nreplay: go test ./api/coll -run TestSeeds -seed %d", seed, err, seed)
				}
			}
		})
	}
	for i := range n {
		seeds <- first + uint64(i)
	}
	close(seeds)
	wg.Wait()
}

// groupPlan is a group of the script, by the ranks in the world.
type groupPlan struct {
	name  string
	ranks []int
}

// step is a line of the script. Ranks outside the group skip it.
type step struct {
	group *groupPlan
	// One of these.
	trial  *trial
	kind   int  // of kinds, of the trial
	block  bool // the trial
	colors []int
	keys   []int
	into   map[int]*groupPlan // by color
	close  bool
	reap   bool // wait for the collectives begun on the group
}

// less is how often to do something: n times, or in the short form fewer.
func less(n int) int {
	if testenv.Short() {
		return max(1, n/4)
	}
	return n
}

func playSeed(t *testing.T, seed uint64) error {
	d := rand.New(rand.NewPCG(seed, 0xc011))
	p := 1 + d.IntN(9)
	s := setup{seed: seed, lower: seed%2 == 1}
	s.fabric.Delay = time.Duration(d.IntN(20)) * time.Microsecond
	s.fabric.Jitter = time.Duration(d.IntN(50)) * time.Microsecond
	s.device.RDMARead = d.IntN(2) == 0
	for _, r := range []sim.Rule{
		{Fault: sim.FaultRNR, P: .05},
		{Fault: sim.FaultDelay, P: .1, Delay: 300 * time.Microsecond},
		{Fault: sim.FaultLateStatus, P: .1, Delay: 300 * time.Microsecond},
		{Fault: sim.FaultQueueFull, P: .1},
		{Fault: sim.FaultRefuseMR, P: .3},
	} {
		if d.IntN(3) == 0 {
			s.fabric.Rules = append(s.fabric.Rules, r)
		}
	}
	s.ep.Protocol.RecvQueue = []int{0, 8, 64}[d.IntN(3)]
	s.ep.Protocol.SendQueue = []int{0, 4, 64}[d.IntN(3)]
	steps := script(d, p)
	return newParty(t, p, s).run(func(ctx context.Context, c *coll.Comm) error {
		return perform(ctx, c, steps)
	})
}

// script makes the program, which is the same for all ranks.
func script(d *rand.Rand, p int) []step {
	world := &groupPlan{name: "world"}
	for r := range p {
		world.ranks = append(world.ranks, r)
	}
	open := []*groupPlan{world}
	var steps []step
	for range 5 + d.IntN(15) {
		g := open[d.IntN(len(open))]
		switch d.IntN(12) {
		case 0:
			st := step{group: g, into: map[int]*groupPlan{}}
			for i := range g.ranks {
				st.colors = append(st.colors, d.IntN(4)-1)
				st.keys = append(st.keys, d.IntN(5)-2)
				if c := st.colors[i]; c >= 0 && st.into[c] == nil {
					st.into[c] = &groupPlan{name: fmt.Sprint(g.name, "/", len(steps), ".", c)}
				}
			}
			for _, key := range []int{-2, -1, 0, 1, 2} {
				for i, r := range g.ranks {
					if c := st.colors[i]; c >= 0 && st.keys[i] == key {
						st.into[c].ranks = append(st.into[c].ranks, r)
					}
				}
			}
			for c := range 4 {
				if st.into[c] != nil {
					open = append(open, st.into[c])
				}
			}
			steps = append(steps, st)
		case 1:
			if g != world {
				open = slices.DeleteFunc(open, func(o *groupPlan) bool { return o == g })
				steps = append(steps, step{group: g, close: true})
			}
		case 2:
			steps = append(steps, step{group: g, reap: true})
		default:
			k := d.IntN(len(kinds))
			steps = append(steps, step{group: g, kind: k, block: d.IntN(2) == 0, trial: randomTrial(d, len(g.ranks), k)})
		}
	}
	for _, g := range open[1:] {
		steps = append(steps, step{group: g, close: true})
	}
	return append(steps, step{group: world, reap: true})
}

func randomTrial(d *rand.Rand, size, k int) *trial {
	names := coll.Collectives()
	tr := &trial{
		kind: names[d.IntN(len(names))], seed: d.Uint64(), root: d.IntN(size),
		op: d.IntN(kinds[k].ops), inPlace: d.IntN(3) == 0, alloc: d.IntN(2) == 0,
	}
	most := []int{0, 1, 10, 100, 2000, 2000, 20000}[d.IntN(7)]
	if d.IntN(20) == 0 {
		most = 300 << 10
	}
	most /= kinds[k].bytes
	tr.n = d.IntN(most + 1)
	if tr.kind[len(tr.kind)-1] == 'v' || tr.kind == "reducescatter" && d.IntN(2) == 0 {
		tr.counts = make([]int, size)
		for i := range tr.counts {
			if d.IntN(3) > 0 {
				tr.counts[i] = d.IntN(most/size + 1)
			}
		}
	}
	algs := coll.Algorithms(tr.kind)
	if d.IntN(2) == 0 {
		tr.opts = append(tr.opts, coll.Use(algs[d.IntN(len(algs))]))
	}
	if d.IntN(2) == 0 {
		tr.opts = append(tr.opts, coll.Segment(64<<10))
	}
	return tr
}

// perform plays the script on one rank.
func perform(ctx context.Context, world *coll.Comm, steps []step) error {
	groups := map[string]*coll.Comm{"world": world}
	begun := map[string][]*pending{}
	for i, st := range steps {
		c := groups[st.group.name]
		if c == nil {
			continue
		}
		var err error
		switch {
		case st.trial != nil:
			var p *pending
			p, err = kinds[st.kind].begin(ctx, c, *st.trial, st.block)
			switch {
			case err != nil:
			case st.block:
				err = p.wait(ctx)
			default:
				begun[st.group.name] = append(begun[st.group.name], p)
			}
		case st.into != nil:
			var g *coll.Comm
			g, err = c.Split(ctx, st.colors[c.Rank()], st.keys[c.Rank()])
			if g != nil {
				to := st.into[st.colors[c.Rank()]]
				groups[to.name] = g
				if at := slices.Index(to.ranks, world.Rank()); at != g.Rank() || len(to.ranks) != g.Size() {
					err = fmt.Errorf("rank %d of %d instead of %d of %d", g.Rank(), g.Size(), at, len(to.ranks))
				}
			}
		default:
			if st.close { // waits for the collectives begun
				err = c.Close(ctx)
				delete(groups, st.group.name)
			}
			for _, p := range begun[st.group.name] {
				if e := p.wait(ctx); err == nil {
					err = e
				}
			}
			delete(begun, st.group.name)
		}
		if err != nil {
			return fmt.Errorf("step %d of %d on %s: %w", i, len(steps), st.group.name, err)
		}
	}
	return nil
}

// TestScriptIsRich: the programs of TestSeeds have all that they should have.
func TestScriptIsRich(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(100) {
		d := rand.New(rand.NewPCG(seed, 1))
		for _, s := range script(d, 1+d.IntN(9)) {
			switch {
			case s.trial != nil:
				seen[s.trial.kind]++
				seen[fmt.Sprint("block ", s.block)]++
			case s.into != nil:
				seen["split"]++
			case s.close:
				seen["close"]++
			}
		}
	}
	for _, want := range append(coll.Collectives(), "block true", "block false", "split", "close") {
		require.Greater(t, seen[want], 10, want)
	}
}
