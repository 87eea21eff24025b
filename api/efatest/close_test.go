package efatest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/wire"
)

// busy is a fabric whose receivers are often not ready.
var busy = sim.Config{
	Delay: 5 * time.Microsecond, Jitter: 50 * time.Microsecond,
	Rules: []sim.Rule{{Fault: sim.FaultRNR, P: .5}},
}

// deaf is one on which no RECEIPT ever arrives.
var deaf = sim.Config{Rules: []sim.Rule{{Fault: sim.FaultRNR, Types: []byte{byte(wire.TypeReceipt)}}}}

// TestCloseAfterReceive: an endpoint that closes as soon as it has a message still
// acknowledges it to the sender.
func TestCloseAfterReceive(t *testing.T) {
	for _, n := range []int{8, 40 << 10, 500 << 10} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			for seed := range uint64(60) {
				w := newWorld(t, efatest.Config{Seed: seed, Fabric: busy})
				a, b, toB := pair(t, w)
				w.Go("sender", func(ctx context.Context) error {
					err := a.Send(ctx, toB, make([]byte, n), efa.Complete(efa.Delivered))
					return errors.Join(err, a.Close())
				})
				w.Go("receiver", func(ctx context.Context) error {
					_, err := b.Recv(ctx, make([]byte, n))
					return errors.Join(err, b.Close())
				})
				require.NoError(t, w.Run(), "seed %d", seed)
			}
		})
	}
}

// TestCloseTwice: a second Close of an endpoint waits as well.
func TestCloseTwice(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 1, Fabric: deaf})
	a, b, toB := pair(t, w)
	w.Go("sender", func(ctx context.Context) error {
		if err := a.Send(ctx, toB, make([]byte, 8), efa.Complete(efa.Delivered)); err == nil {
			return errors.New("it was told")
		}
		return a.Close()
	})
	var ends []time.Duration
	for i := range 3 {
		w.Go(fmt.Sprint("receiver", i), func(ctx context.Context) error {
			if i == 0 {
				if _, err := b.Recv(ctx, make([]byte, 8)); err != nil {
					return err
				}
			} else if err := w.Sleep(time.Duration(i) * 10 * time.Millisecond); err != nil {
				return err
			}
			err := b.Close()
			ends = append(ends, w.Elapsed())
			return err
		})
	}
	require.NoError(t, w.Run())
	require.Len(t, ends, 3)
	require.Greater(t, ends[0], time.Second)
	require.Less(t, ends[2]-ends[0], time.Millisecond)
	require.NoError(t, b.Close())
}

// TestCloseOutside: nor is time waited for that no longer passes.
func TestCloseOutside(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 1, Fabric: deaf})
	a, b, toB := pair(t, w)
	w.Go("sender", func(ctx context.Context) error {
		ctx, cancel := w.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := a.Send(ctx, toB, make([]byte, 8), efa.Complete(efa.Delivered)); err == nil {
			return errors.New("it was told")
		}
		return nil
	})
	w.Go("receiver", func(ctx context.Context) error {
		_, err := b.Recv(ctx, make([]byte, 8))
		return err
	})
	require.NoError(t, w.Run())
	require.NoError(t, b.Close())
	require.NoError(t, a.Close())
}

// TestCloseBeforeDeadPeer: Close does not wait for ever for a dead peer.
func TestCloseBeforeDeadPeer(t *testing.T) {
	w := newWorld(t, efatest.Config{Seed: 1, Fabric: deaf})
	a, b, toB := pair(t, w)
	w.Go("sender", func(ctx context.Context) error {
		err := a.Send(ctx, toB, make([]byte, 8), efa.Complete(efa.Delivered))
		if err == nil {
			return errors.New("it was told")
		}
		return a.Close()
	})
	w.Go("receiver", func(ctx context.Context) error {
		_, err := b.Recv(ctx, make([]byte, 8))
		if err != nil {
			return err
		}
		began := w.Elapsed()
		err = b.Close()
		require.Less(t, w.Elapsed()-began, 2*time.Second)
		return err
	})
	require.NoError(t, w.Run())
}
