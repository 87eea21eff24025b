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
)

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
