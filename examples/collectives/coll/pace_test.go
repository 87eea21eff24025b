package coll_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/examples/collectives/coll"
)

// TestPace: a rank that only sends, or sends and hears only from others than those it
// sends to, does not run ahead of one that is slow until that one's memory is full.
func TestPace(t *testing.T) {
	for _, x := range []struct {
		name         string
		p, slow      int
		calls, bytes int
		call         func(ctx context.Context, c *coll.Comm, buf []byte) error
	}{
		{"bcast", 2, 1, 400, 60 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error { return coll.Bcast(ctx, c, buf, 0) }},
		{"bcast of little", 2, 1, 20000, 8, func(ctx context.Context, c *coll.Comm, buf []byte) error { return coll.Bcast(ctx, c, buf, 0) }},
		{"bcast, a leaf", 4, 3, 400, 60 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error { return coll.Bcast(ctx, c, buf, 0) }},
		{"pipeline", 3, 2, 400, 60 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Bcast(ctx, c, buf, 0, coll.Use("pipeline"))
		}},
		{"reduce", 3, 0, 400, 60 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Reduce(ctx, c, buf, make([]byte, len(buf)), coll.Max[byte], 0)
		}},
		{"gather", 3, 0, 400, 60 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Gather(ctx, c, buf, make([]byte, 3*len(buf)), 0)
		}},
		{"scatter", 3, 1, 400, 60 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Scatter(ctx, c, make([]byte, 3*len(buf)), buf, 0)
		}},
		{"scan", 3, 2, 400, 60 << 10, func(ctx context.Context, c *coll.Comm, buf []byte) error {
			return coll.Scan(ctx, c, buf, make([]byte, len(buf)), coll.Max[byte], coll.Use("linear"))
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			pa := newParty(t, x.p, setup{seed: 1, ep: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerMemory: 16 << 20}}})
			err := pa.run(func(ctx context.Context, c *coll.Comm) error {
				if c.Rank() == x.slow {
					if err := pa.world.Sleep(time.Minute); err != nil {
						return err
					}
				}
				buf := make([]byte, x.bytes)
				for range x.calls {
					if err := x.call(ctx, c, buf); err != nil {
						return err
					}
				}
				return nil
			})
			require.NoError(t, err)
		})
	}
}
