package efatest_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efatest"
	"github.com/efactor/efactor/wire"
)

// liar is a queue pair that sends first messages, each of them as another endpoint: the
// connid is another one every time. Nobody receives their tag.
type liar struct {
	t    *testing.T
	w    *efatest.World
	qp   device.QP
	from wire.RawAddr
	to   wire.RawAddr
	ah   device.AH
	sent int
}

func newLiar(t *testing.T, w *efatest.World, dev *efatest.Device, to *seat) *liar {
	t.Helper()
	qp, err := dev.Device.OpenQP(device.QPConfig{SQDepth: 64, RQDepth: 64})
	require.NoError(t, err)
	at, ok := to.ep.Address().Raw("sim")
	require.True(t, ok)
	ah, err := qp.CreateAH(at.GID())
	require.NoError(t, err)
	return &liar{t: t, w: w, qp: qp, to: at, ah: ah, from: wire.MakeRawAddr(dev.Info().GID, qp.QPN(), 0x4000_0000)}
}

// lie sends a packet, and takes nothing that comes back.
func (l *liar) lie() {
	var c [16]device.Completion
	l.qp.Poll(c[:])
	l.sent++
	m := wire.EagerRTM{Tagged: true, Tag: 1 << 40}
	m.Options = wire.Options{HasRawAddr: true, RawAddr: wire.MakeRawAddr(l.from.GID(), l.from.QPN(), l.from.ConnID()+uint32(l.sent))}
	// A full queue is his loss.
	_ = l.qp.PostSend(&device.SendWR{AH: l.ah, QPN: l.to.QPN(), QKey: l.to.ConnID(), Header: append(m.Append(nil), 1, 2, 3)})
	l.qp.Doorbell()
}

// TestManyConnidsOfOne: a peer that says with every packet that it is another one hurts
// itself alone. Others, which nobody knows before, get through at once.
func TestManyConnidsOfOne(t *testing.T) {
	forSeeds(t, func(t *testing.T, seed uint64) {
		const fresh = 58
		perFresh := 100
		if underRace {
			perFresh = 20
		}
		w := newWorld(t, efatest.Config{Seed: seed})
		bob := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
		foe := newLiar(t, w, deviceOf(t, w, sim.DeviceConfig{}), bob)
		over := 0
		w.Go("liar", func(context.Context) error {
			for over < fresh {
				foe.lie()
				if err := w.Sleep(time.Microsecond); err != nil {
					return err
				}
			}
			return nil
		})
		worst := time.Duration(0)
		for i := range fresh {
			w.Go(fmt.Sprint("fresh ", i), func(ctx context.Context) error {
				defer func() { over++ }()
				if err := w.Sleep(time.Duration(i*perFresh) * time.Microsecond); err != nil {
					return err
				}
				s := seatOn(t, deviceOf(t, w, sim.DeviceConfig{}), efa.EndpointConfig{})
				to, began := s.knows(bob), w.Elapsed()
				ctx, cancel := w.WithTimeout(ctx, time.Second)
				defer cancel()
				if err := s.ep.SendTag(ctx, to, uint64(i), fill(8, byte(i)), efa.Complete(efa.Delivered)); err != nil {
					return fmt.Errorf("after %d packets of the liar: %w", foe.sent, err)
				}
				worst = max(worst, w.Elapsed()-began)
				return s.ep.Close()
			})
		}
		w.Go("bob", func(ctx context.Context) error {
			for i := range fresh {
				buf := make([]byte, 8)
				if _, err := bob.ep.RecvTag(ctx, efa.Match{Tag: uint64(i)}, buf); err != nil {
					return err
				}
				require.Equal(t, fill(8, byte(i)), buf)
			}
			return nil
		})
		require.NoError(t, w.Run())
		require.Greater(t, foe.sent, fresh*perFresh*9/10)
		require.Less(t, worst, 10*time.Millisecond)
		t.Logf("%d packets of the liar; a fresh peer waited for %v at most", foe.sent, worst)
	})
}

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
		Protocol: efa.ProtocolConfig{MaxUnlistedPeers: 8},
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
