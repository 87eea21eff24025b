package death

import (
	"flag"
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
	"github.com/efactor/efactor/internal/testenv"
)

var (
	flagAll    = flag.Bool("all", false, "TestDeathTable tries all rows; those that come again, the first and the last time")
	flagAgain  = flag.Bool("again", false, "and every time between")
	flagRows   = flag.String("rows", "", "the rows to try: those with this in their name, as a failure prints it")
	flagFaults = flag.String("faults", "", "the faults to try: those with this in their name")
	flagShow   = flag.Int("show", 20, "how many open rows are shown")
)

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

// results are the tallies, by what they are of.
type results struct {
	mu      sync.Mutex
	byPlay  map[string]*tally
	byFault map[string]*tally
	byPair  map[int]*tally
	all     tally
	hits    []uint64            // how often each pair came, in all rows
	bad     map[string][]string // what is wrong with the rows that are open
}

func newResults() *results {
	return &results{
		byPlay: make(map[string]*tally), byFault: make(map[string]*tally), byPair: make(map[int]*tally),
		hits: make([]uint64, len(pairs())), bad: make(map[string][]string),
	}
}

func (z *results) add(x *row, r *run) {
	z.mu.Lock()
	defer z.mu.Unlock()
	count(z.byPlay, x.play.String(), r)
	count(z.byFault, x.fault.name, r)
	count(z.byPair, x.at.pair, r)
	for i, n := range r.hits {
		z.hits[i] += n
	}
	z.all.add(r)
	if len(r.bad) > 0 {
		z.bad[x.String()] = r.bad
	}
}

func count[K comparable](m map[K]*tally, k K, r *run) {
	if m[k] == nil {
		m[k] = new(tally)
	}
	m[k].add(r)
}

// TestDeathTable tries rows, and prints what came of them: some of them, or with -all all.
func TestDeathTable(t *testing.T) {
	keepSystem(t)
	all := calm(t)
	list := named(every(all, *flagAgain), *flagRows, *flagFaults)
	if !*flagAll && !*flagAgain && *flagRows == "" && *flagFaults == "" {
		n := sampled
		if testenv.Short() {
			n *= 5
		}
		list = sample(list, n)
	}
	z := newResults()
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
	table := z.print(all)
	t.Log(table)
	if len(list) > 1000 {
		require.NotContains(t, table, notTaken)
	}
	tried := make(map[string]bool)
	for _, x := range all {
		tried[x.play.proto] = true
	}
	for p := range ope.NumProtos {
		require.True(t, p == ope.ProtoNone || tried[p.String()] || answers[p.String()] != "", p)
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(z.bad)) {
		if n++; n <= *flagShow {
			t.Errorf("open: %s\n\t%s", name, strings.Join(z.bad[name], "\n\t"))
		}
	}
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

// TestMended tries rows that were open once.
func TestMended(t *testing.T) {
	keepSystem(t)
	all := every(calm(t), true)
	for _, name := range []string{
		// A HANDSHAKE that was lost was not sent again.
		"long-CTS (first contact): requester cut off, at step 1 of the requester: tx TXE_WAIT cts",
		"medium (first contact): requester cut off, at step 1 of the requester: tx TXE_DRAIN acked",
		// What ended before the target had said by which id it knows it stayed there for ever.
		"long-CTS write (known): target paused long, at step 1 of the requester: tx TXE_REQ paused",
		"long-CTS read (known): target paused long, at step 1 of the requester: rx RXE_ASK asked",
		// A PEER_ERROR that was lost was not sent again.
		"long-read, memory closed (known): requester cut off, at step 1 of the target: tx TXE_REQ posted-all",
	} {
		i := slices.IndexFunc(all, func(x *row) bool { return x.String() == name })
		require.GreaterOrEqual(t, i, 0, name)
		require.Empty(t, all[i].try().bad, name)
	}
}
