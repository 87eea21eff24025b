package coll_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// scarce is a party whose ranks keep few unexpected messages.
var scarce = setup{seed: 1, ep: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerMemory: 16 << 20}}}

// TestPace: a rank that only sends, or sends and hears only from others than those it
// sends to, does not run ahead of one that is slow until that one's memory is full.
func TestPace(t *testing.T) {
	for _, x := range []struct {
		name         string
		p, slow      int
		calls, bytes int
		call         func(ctx context.Context, c *coll.Comm, buf []byte) error
	}{
		{"bcast", 2, 1, 1600, 15 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error { return coll.Bcast(ctx, c, buf, 0) }},
		{"bcast of little", 2, 1, 20000, 8, func(ctx context.Context, c *coll.Comm, buf []byte) error { return coll.Bcast(ctx, c, buf, 0) }},
		{"bcast, a leaf", 4, 3, 1600, 15 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error { return coll.Bcast(ctx, c, buf, 0) }},
		{"pipeline", 3, 2, 1600, 15 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Bcast(ctx, c, buf, 0, coll.Use("pipeline"))
		}},
		{"small frames", 2, 1, 40, 1 << 20, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Bcast(ctx, c, buf, 0, coll.Use("binomial"), coll.Segment(1))
		}},
		{"reduce", 3, 0, 1600, 15 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Reduce(ctx, c, buf, make([]byte, len(buf)), coll.Max[byte], 0)
		}},
		{"gather", 3, 0, 1600, 15 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Gather(ctx, c, buf, make([]byte, 3*len(buf)), 0)
		}},
		{"scatter", 3, 1, 1600, 15 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Scatter(ctx, c, make([]byte, 3*len(buf)), buf, 0)
		}},
		{"scan", 3, 2, 1600, 15 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Scan(ctx, c, buf, make([]byte, len(buf)), coll.Max[byte], coll.Use("linear"))
		}},
	} {
		for _, lower := range []bool{false, true} {
			s := scarce
			s.lower = lower
			pa := newParty(t, x.p, s)
			err := pa.run(func(ctx context.Context, c *coll.Comm) error {
				if c.Rank() == x.slow {
					if err := pa.world.Sleep(time.Minute); err != nil {
						return err
					}
				}
				buf := make([]byte, x.bytes)
				calls := x.calls
				if testenv.Short() {
					calls /= 4
				}
				for range calls {
					if err := x.call(ctx, c, buf); err != nil {
						return err
					}
				}
				return nil
			})
			require.NoError(t, err, "%s, lower %v", x.name, lower)
		}
	}
}

// TestPaceBesideAnother: messages of a collective that began earlier say nothing about
// later ones.
func TestPaceBesideAnother(t *testing.T) {
	for _, read := range []bool{false, true} {
		t.Run(fmt.Sprint(read), func(t *testing.T) {
			s := scarce
			s.device.RDMARead = read
			pa := newParty(t, 2, s)
			require.NoError(t, pa.run(func(ctx context.Context, c *coll.Comm) error {
				r, err := coll.Ibcast(ctx, c, make([]byte, 64<<20), 1)
				if err != nil {
					return err
				}
				if c.Rank() == 1 {
					if err := pa.world.Sleep(time.Minute); err != nil {
						return err
					}
				}
				buf := make([]byte, 15<<10)
				for range 4000 {
					if err := coll.Bcast(ctx, c, buf, 0); err != nil {
						return err
					}
				}
				return r.Wait(ctx)
			}))
		})
	}
}

// TestPaceThenShutdown: a group's last messages are not waited for.
func TestPaceThenShutdown(t *testing.T) {
	for seed := range uint64(50) {
		pa := newParty(t, 3, setup{seed: seed, lower: seed%2 == 1, fabric: sim.Config{
			Delay: 5 * time.Microsecond, Jitter: 50 * time.Microsecond,
			Rules: []sim.Rule{{Fault: sim.FaultRNR, P: .3}, {Fault: sim.FaultDelay, P: .3, Delay: 300 * time.Microsecond}},
		}})
		for i, r := range pa.ranks {
			pa.world.Go(fmt.Sprint("rank", i), func(ctx context.Context) error {
				c, err := coll.New(r.cfg)
				if err != nil {
					return err
				}
				buf := make([]byte, 15<<10)
				for range 240 {
					if err := coll.Bcast(ctx, c, buf, 0); err != nil {
						return err
					}
				}
				return errors.Join(c.Close(ctx), r.ep.Shutdown(ctx))
			})
		}
		require.NoError(t, pa.world.Run(), "seed %d", seed)
	}
}

// beginMany has the group's rank 0 send n messages by as many non-blocking collectives.
func (pa *party) beginMany(ctx context.Context, c *coll.Comm, n int) ([]*coll.Request, error) {
	var rs []*coll.Request
	for range n {
		r, err := coll.Ibcast(ctx, c, make([]byte, 15<<10), 0)
		if err != nil {
			return rs, err
		}
		rs = append(rs, r)
		if err := pa.world.Sleep(time.Millisecond); err != nil { // it goes as far as it can
			return rs, err
		}
	}
	return rs, pa.world.Sleep(time.Second)
}

// TestPaceLeavesPlaces: messages held up for a slow rank do not keep the sender from
// working with another one, for which the slow one waits.
func TestPaceLeavesPlaces(t *testing.T) {
	for _, x := range []struct {
		depth, n     int
		lower, reads bool
	}{{0, 4800, false, false}, {16, 400, false, false}, {16, 400, true, false}, {16, 400, true, true}} {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			n := x.n
			if n > 1000 {
				testenv.Long(t, "thousands of calls")
			}
			pa := newParty(t, 3, setup{
				seed: 1, ep: efa.EndpointConfig{TxDepth: x.depth}, lower: x.lower, device: sim.DeviceConfig{RDMARead: x.reads},
			})
			require.NoError(t, pa.run(func(ctx context.Context, c *coll.Comm) error {
				var without [3]*coll.Comm // groups of two
				for i := range 3 {
					color := 0
					if c.Rank() == i {
						color = -1
					}
					var err error
					if without[i], err = c.Split(ctx, color, 0); err != nil {
						return err
					}
				}
				var rs []*coll.Request
				var err error
				if c.Rank() == 0 {
					if rs, err = pa.beginMany(ctx, without[2], n); err != nil {
						return err
					}
				}
				for root := range 2 { // from 0 to 2, then from 2 to 1
					if g := without[1-root]; g != nil {
						if err := coll.Bcast(ctx, g, make([]byte, 15<<10), root); err != nil {
							return err
						}
					}
				}
				if c.Rank() == 1 {
					if rs, err = pa.beginMany(ctx, without[2], n); err != nil {
						return err
					}
				}
				errs := []error{coll.WaitAll(ctx, rs...)}
				for _, g := range without {
					if g != nil {
						errs = append(errs, g.Close(ctx))
					}
				}
				return errors.Join(errs...)
			}))
		})
	}
}

// TestPaceAndAbort: nor from telling others that the group has failed.
func TestPaceAndAbort(t *testing.T) {
	for _, lower := range []bool{false, true} {
		paceAndAbort(t, lower)
	}
}

func paceAndAbort(t *testing.T, lower bool) {
	pa := newParty(t, 2, setup{seed: 1, ep: efa.EndpointConfig{TxDepth: 16}, lower: lower})
	require.NoError(t, pa.runAll(func(ctx context.Context, c *coll.Comm) error {
		if c.Rank() == 1 {
			if err := pa.world.Sleep(10 * time.Minute); err != nil {
				return err
			}
			require.Error(t, coll.Barrier(ctx, c))
			return nil
		}
		rs, err := pa.beginMany(ctx, c, 400)
		if err != nil {
			return err
		}
		began := pa.world.Elapsed()
		c.Abort(errors.New("disk full"))
		require.Error(t, coll.WaitAll(ctx, rs...))
		require.Less(t, pa.world.Elapsed()-began, time.Minute)
		return nil
	}, true))
}
