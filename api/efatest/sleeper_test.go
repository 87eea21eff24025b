package efatest_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

var floodMessages = flag.Int("messages", 50_000, "how many messages TestSleepingReceiver sends")

// TestSleepingReceiver: a fast sender sends many more messages than the receiver may keep,
// which sleeps for longer than PeerTimeout. None is lost, memory is bounded, nobody fails,
// and another sender gets on meanwhile. The first sender receives, too, while it is held back.
// Without a device that holds one sender back all of them wait, but the rest is the same.
func TestSleepingReceiver(t *testing.T) {
	for _, noHold := range []bool{false, true} {
		t.Run(fmt.Sprintf("nohold=%v", noHold), func(t *testing.T) { sleepingReceiver(t, noHold, *floodMessages) })
	}
}

func sleepingReceiver(t *testing.T, noHold bool, messages int) {
	const limit, slept = 2 << 20, 50 * time.Second
	w, err := efatest.New(efatest.Config{Seed: 7, Fabric: efatest.FabricConfig{Delay: time.Microsecond}})
	require.NoError(t, err)
	proto := efa.ProtocolConfig{PeerMemory: limit, TotalMemory: 4 * limit}
	if noHold {
		proto.TotalMemory = limit
	}
	var eps [3]*efa.Endpoint
	var to [3]efa.Addr // the receiver, at each
	for i := range eps {
		dev, err := w.Device(sim.DeviceConfig{NoHoldBack: noHold})
		require.NoError(t, err)
		eps[i], err = efa.OpenEndpoint(t.Context(), efa.Setup{
			Fabric: efa.Config{Device: dev}, Endpoint: efa.EndpointConfig{Protocol: proto},
		})
		require.NoError(t, err)
		to[i], err = eps[i].AddressVector().Insert(eps[0].Address())
		require.NoError(t, err)
	}
	flooder, err := eps[0].AddressVector().Insert(eps[1].Address())
	require.NoError(t, err)
	w.Go("flooder", func(ctx context.Context) error {
		var b [8]byte
		for i := range messages {
			binary.LittleEndian.PutUint64(b[:], uint64(i))
			if err := eps[1].Send(ctx, to[1], b[:]); err != nil {
				return fmt.Errorf("message %d: %w", i, err)
			}
		}
		return nil
	})
	w.Go("flooder's receives", func(ctx context.Context) error {
		return received(ctx, eps[1], make([]byte, 100_000), "")
	})
	w.Go("other", func(ctx context.Context) error {
		if err := w.Sleep(slept / 2); err != nil || noHold {
			return err
		}
		return eps[2].SendTag(ctx, to[2], 5, []byte("from the other"), efa.Complete(efa.Delivered))
	})
	full := func() error {
		s, err := eps[0].Snapshot(context.Background())
		most := int64(limit * 3 / 2)
		if noHold {
			most = limit + 66<<20 // see settings.InForce.Hard
		}
		if err == nil && (s.Queues.HeldBytes > most || s.Queues.HeldBytes < limit*3/4) {
			err = fmt.Errorf("%d bytes are held", s.Queues.HeldBytes)
		}
		return err
	}
	w.Go("receiver", func(ctx context.Context) error {
		if err := w.Sleep(slept / 2); err != nil {
			return err
		}
		if err := full(); err != nil {
			return err
		}
		if !noHold { // with one that holds all senders back the answers are slow
			if err := eps[0].Send(ctx, flooder, make([]byte, 100_000), efa.Complete(efa.Delivered)); err != nil {
				return fmt.Errorf("send to the flooder: %w", err)
			}
			m, err := eps[0].RecvTag(ctx, efa.Match{Tag: 5}, make([]byte, 100))
			if err != nil || m.N != 14 {
				return fmt.Errorf("receive from the other: %d, %w", m.N, err)
			}
		} else if err := eps[0].Send(ctx, flooder, []byte("x")); err != nil {
			return err
		}
		if err := w.Sleep(slept / 2); err != nil {
			return err
		}
		if err := full(); err != nil {
			return err
		}
		var b [8]byte
		for i := range messages {
			if _, err := eps[0].Recv(ctx, b[:]); err != nil {
				return err
			}
			if n := binary.LittleEndian.Uint64(b[:]); n != uint64(i) {
				return fmt.Errorf("message %d came instead of %d", n, i)
			}
		}
		return nil
	})
	require.NoError(t, w.Run())
	t.Logf("%d messages in %v of simulated time", messages, w.Elapsed())
	require.NoError(t, errors.Join(eps[0].Close(), eps[1].Close(), eps[2].Close()))
}

// TestSleepingReceiverOfSegments: the same with messages of several packets, many at a time,
// and memory for few: what comes before its turn is no reason to refuse what it waits for.
func TestSleepingReceiverOfSegments(t *testing.T) {
	const limit, senders, each, size = 1 << 20, 48, 20, 60_000
	w, err := efatest.New(efatest.Config{Seed: 8, Fabric: efatest.FabricConfig{Delay: 5 * time.Microsecond, Jitter: 20 * time.Microsecond}})
	require.NoError(t, err)
	proto := efa.ProtocolConfig{PeerMemory: limit, TotalMemory: 2 * limit, MaxMedium: 65536, NoRDMARead: true}
	var eps [2]*efa.Endpoint
	for i := range eps {
		dev, err := w.Device(sim.DeviceConfig{})
		require.NoError(t, err)
		eps[i], err = efa.OpenEndpoint(t.Context(), efa.Setup{
			Fabric: efa.Config{Device: dev}, Endpoint: efa.EndpointConfig{Protocol: proto},
		})
		require.NoError(t, err)
	}
	to, err := eps[1].AddressVector().Insert(eps[0].Address())
	require.NoError(t, err)
	for i := range senders {
		w.Go(fmt.Sprint("sender ", i), func(ctx context.Context) error {
			b := make([]byte, size)
			for range each {
				if err := eps[1].Send(ctx, to, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	w.Go("receiver", func(ctx context.Context) error {
		b := make([]byte, size)
		for i := range senders * each {
			if i%100 == 0 {
				if err := w.Sleep(time.Second); err != nil {
					return err
				}
			}
			if m, err := eps[0].Recv(ctx, b); err != nil || m.N != size {
				return fmt.Errorf("message %d: %d bytes, %w", i, m.N, err)
			}
		}
		return nil
	})
	require.NoError(t, w.Run())
	require.NoError(t, errors.Join(eps[0].Close(), eps[1].Close()))
}
