//go:build linux

package libfabric_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/runtime/clock"
)

// duel is a flood of two parties.
type duel struct {
	number   int
	a, b     party.Party
	toB, toA party.Peer
	seed     uint64
	n        int
	window   int
	most     int // bytes

	memory  [2]party.Region
	pending [2]*party.Pending
}

// floodTime is how long a flood may take.
const floodTime = 4 * time.Minute

// begin starts both sides.
func (d *duel) begin(t *testing.T, ctx context.Context) {
	t.Helper()
	sides := [2]party.Party{d.a, d.b}
	for i, x := range sides {
		var err error
		d.memory[i], err = x.Region(ctx, party.FloodRegion(d.window, d.most), party.AccessAll)
		require.NoError(t, err)
		require.NoError(t, d.memory[i].Set(ctx, d.window*d.most, make([]byte, 8)))
	}
	for i, x := range sides {
		f := d.flood(i)
		var err error
		d.pending[i], err = x.Flood(ctx, f)
		require.NoError(t, err)
	}
}

func (d *duel) inject() int { return min(d.a.MaxInject(), d.b.MaxInject()) }

// flood is the plan of side i.
func (d *duel) flood(i int) party.Flood {
	f := party.Flood{
		Number: d.number, Peer: d.toB, Seed: 2 * d.seed, PeerSeed: 2*d.seed + 1, N: d.n, PeerN: d.n,
		Window: d.window, Max: d.most, Inject: d.inject(), RMA: true, At: d.memory[1-i].Remote(),
	}
	if i == 1 {
		f.Peer, f.Seed, f.PeerSeed = d.toA, f.PeerSeed, f.Seed
	}
	return f
}

// end waits for both, and checks their sums.
func (d *duel) end(t *testing.T, ctx context.Context) {
	t.Helper()
	for i, p := range d.pending {
		out, err := p.Wait(ctx)
		require.NoError(t, err, "side %d", i)
		require.NoError(t, out.Err(), "side %d", i)
	}
	for i, r := range d.memory {
		b, err := r.Get(ctx, d.window*d.most, 8)
		require.NoError(t, err)
		want := party.Additions(2*d.seed+uint64(1-i), d.n, d.most, d.inject())
		require.Equal(t, want, binary.LittleEndian.Uint64(b), "additions to side %d", i)
		require.NoError(t, r.Close(ctx))
	}
}

// flood plays one flood in w.
func (w *world) flood(t *testing.T, seed uint64, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), floodTime)
	defer cancel()
	d := &duel{
		number: 1, a: w.lf, b: w.own, toB: w.toOwn, toA: w.toLF, seed: seed, n: n,
		window: 1 + int(seed%23), most: 1 << (10 + seed%11),
	}
	if w.env.device == "small" {
		d.window = 1 + int(seed%6) // there are few registrations
	}
	d.begin(t, ctx)
	d.end(t, ctx)
}

// TestFlood: many operations of all kinds both ways at once, in each environment.
func TestFlood(t *testing.T) {
	need(t)
	all := environments()
	if brief() {
		all = all[3:4]
	}
	for i, e := range all {
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			for k := range 4 {
				w.flood(t, uint64(10*i+3*k+6), 200)
			}
		})
	}
}

// TestDevices: floods on other devices and kernels; queues of 64 are soon full, and
// their receivers not ready.
func TestDevices(t *testing.T) {
	need(t)
	for _, name := range []string{"no-rdma", "efa0", "rdma-write", "small", "strict"} {
		for _, e := range []environment{settings[0].shuffled(2), settings[1]} {
			e.device = name
			e.name = name + ", " + e.name
			if brief() && name != "small" || e.rdma && (name == "no-rdma" || name == "efa0") {
				continue
			}
			t.Run(e.title(), func(t *testing.T) {
				w := newWorld(t, e)
				defer w.end(t)
				for seed := range uint64(3) {
					w.flood(t, seed+4, 150)
				}
			})
		}
	}
}

// TestPauses: libfabric stops in the middle of a flood, again and again.
func TestPauses(t *testing.T) {
	need(t)
	for _, device := range []string{"", "small"} {
		for _, e := range []environment{settings[0], settings[1].shuffled(6)} {
			if brief() && (device == "" || e.rdma) {
				continue
			}
			e.device = device
			e.name = strings.TrimSpace(e.name + " " + device)
			t.Run(e.title(), func(t *testing.T) {
				w := newWorld(t, e)
				defer w.end(t)
				ctx, cancel := context.WithTimeout(context.Background(), floodTime)
				defer cancel()
				d := &duel{
					number: 1, a: w.lf, b: w.own, toB: w.toOwn, toA: w.toLF, seed: 40, n: 100, window: 6, most: 200000,
				}
				d.begin(t, ctx)
				for _, p := range d.pending {
					for running := true; running; {
						require.NoError(t, w.lf.Pause(ctx, 30*time.Millisecond))
						select {
						case <-p.Done():
							running = false
						default:
						}
					}
				}
				d.end(t, ctx)
			})
		}
	}
}

// TestSeeds floods by many seeds, also in the order of packets: -seeds and -for.
func TestSeeds(t *testing.T) {
	if *seeds == 0 && *forTime == 0 {
		t.Skip("neither -seeds nor -for was given")
	}
	need(t)
	deadline := clock.System.Now().Add(*forTime)
	goOn := func(k int) bool { return k < *seeds || clock.System.Now() < deadline }
	const perWorld = 10
	for k := 0; goOn(k); k += perWorld {
		for _, e := range settings {
			seed := *first + uint64(k)
			if k/perWorld%4 != 0 {
				e = e.shuffled(seed)
			}
			if k/perWorld%3 == 2 {
				e.device = "small"
			}
			ok := t.Run(fmt.Sprintf("%s, from seed %d", e.title(), seed), func(t *testing.T) {
				w := newWorld(t, e)
				defer w.end(t)
				for i := range uint64(perWorld) {
					w.flood(t, seed+i, 300)
				}
			})
			if !ok {
				return
			}
		}
	}
}
