package efatest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
)

// TestMoreStrangersThanPlaces: of many more senders in no address vector than there are places
// for, each has all of its messages received, once and in order: while the receiver sleeps,
// while it receives, and after all were idle for long. The device holds senders back, or it is
// as EFA and cannot.
func TestMoreStrangersThanPlaces(t *testing.T) {
	for _, noHold := range []bool{false, true} {
		t.Run(fmt.Sprint("noHold=", noHold), func(t *testing.T) {
			forSeeds(t, func(t *testing.T, seed uint64) { moreStrangers(t, seed, noHold) })
		})
	}
}

func moreStrangers(t *testing.T, seed uint64, noHold bool) {
	const senders, each, rounds = 40, 6, 3
	w := newWorld(t, efatest.Config{Seed: seed})
	bob := seatOn(t, deviceOf(t, w, sim.DeviceConfig{NoHoldBack: noHold}), efa.EndpointConfig{
		Protocol: efa.ProtocolConfig{MaxStrangers: 8},
	})
	for i := range senders {
		s := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
		to := s.knows(bob)
		w.Go(fmt.Sprint("sender ", i), func(ctx context.Context) error {
			for n := range uint32(each * rounds) {
				if n%each == 0 {
					if err := w.Sleep(w.Elapsed().Truncate(time.Minute) + time.Minute - w.Elapsed()); err != nil {
						return err
					}
				}
				var b [8]byte
				binary.LittleEndian.PutUint32(b[:], uint32(i))
				binary.LittleEndian.PutUint32(b[4:], n)
				if err := s.ep.Send(ctx, to, b[:]); err != nil {
					return fmt.Errorf("message %d: %w", n, err)
				}
			}
			return nil
		})
	}
	w.Go("bob", func(ctx context.Context) error {
		var next [senders]uint32
		for n := range senders * each * rounds {
			if n%(senders*each) == 0 { // asleep when they begin
				if err := w.Sleep(w.Elapsed().Truncate(time.Minute) + time.Minute + 3*time.Second - w.Elapsed()); err != nil {
					return err
				}
			}
			var b [8]byte
			m, err := bob.ep.Recv(ctx, b[:])
			if err != nil {
				return err
			}
			require.Equal(t, efa.NoAddr, m.From)
			i, x := binary.LittleEndian.Uint32(b[:]), binary.LittleEndian.Uint32(b[4:])
			require.Equal(t, next[i], x, "of sender %d", i)
			next[i]++
		}
		return nil
	})
	if err := w.Run(); err != nil {
		st, _ := bob.ep.Stats(context.Background())
		for k, v := range st {
			if v != 0 {
				t.Log(k, v)
			}
		}
		require.NoError(t, err)
	}
	require.Zero(t, bob.counter("Crowded"))
	require.Zero(t, bob.counter("StaleConnID"))
	require.Positive(t, bob.counter("StrangersHeld"))
	require.Positive(t, bob.counter("StrangersRested"))
	seen := map[efa.EventKind]int{}
	for ev, ok := bob.ep.TryEvent(); ok; ev, ok = bob.ep.TryEvent() {
		seen[ev.Kind]++
	}
	require.Equal(t, senders, seen[efa.NewPeer], "each is new once")
	require.Zero(t, seen[efa.PeerFailed])
	require.Zero(t, seen[efa.BadPacket])
	require.Positive(t, seen[efa.StrangersCrowded])
	require.Positive(t, seen[efa.StrangersRelieved])
}
