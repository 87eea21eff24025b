package efa_test

import (
	"context"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// closers are devices that tell of an orderly end.
var closers = map[string]func(t *testing.T) func() efa.Device{
	"sim": func(t *testing.T) func() efa.Device {
		f := newFabric(t, sim.Config{Seed: 9, ReportGone: true})
		return func() efa.Device { return newDevice(t, f) }
	},
	"shm": func(t *testing.T) func() efa.Device {
		dir := t.TempDir() + "/fabric"
		return func() efa.Device {
			d, err := shm.Open(shm.Config{Dir: dir})
			require.NoError(t, err)
			return d
		}
	},
	"tcp": func(t *testing.T) func() efa.Device {
		return func() efa.Device {
			d, err := efa.OpenDevice("tcp")
			require.NoError(t, err)
			return d
		}
	},
}

// unhurried leaves it to the device to tell of an end, however slow the machine.
var unhurried = efa.ProtocolConfig{ProbeAfter: time.Minute, PeerTimeout: 2 * time.Minute}

// TestPeerClosed: all that a peer has sent before Close is received, whatever its length,
// before the news; receives from it alone end with that, those from anybody stay, and
// another endpoint of that device is a new peer.
func TestPeerClosed(t *testing.T) {
	for name, devices := range closers {
		t.Run(name, func(t *testing.T) {
			open := devices(t)
			newSide := func() *side {
				dev := open()
				t.Cleanup(func() { require.NoError(t, dev.Close()) })
				dom := domainOn(t, dev, efa.DomainConfig{})
				q := newQueue(t, dom, 0)
				return newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q, Protocol: unhurried})
			}
			b := newSide()
			ctx := testContext(t)
			for round := range 3 {
				a := newSide()
				introduce(t, a, b)
				const messages = 20
				if round == 1 { // one from anybody, which stays
					_, err := b.ep.PostRecv(&efa.RecvReq{Tagged: true, Tag: 99, Buf: make([]byte, 8), Token: 99})
					require.NoError(t, err)
				}
				for i := range messages {
					require.NoError(t, a.ep.SendTag(ctx, a.peer, uint64(i), pattern(8+50*i*round)))
				}
				directed := start(t, b, &efa.RecvReq{From: b.peer, Directed: true, Tagged: true, Tag: 77, Buf: make([]byte, 8)})
				require.NoError(t, a.ep.Close())
				ev, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, efa.PeerClosed, ev.Kind, "%v", ev.Err)
				require.Equal(t, b.peer, ev.Peer)
				require.ErrorIs(t, ev.Err, efa.ErrPeerClosed)
				for i := range messages {
					buf := make([]byte, 8+50*i*round)
					m, err := b.ep.RecvTag(ctx, efa.Match{Tag: uint64(i)}, buf, efa.From(b.peer))
					require.NoError(t, err, "message %d", i)
					require.Equal(t, len(buf), m.N)
					require.Equal(t, pattern(len(buf)), buf)
				}
				_, err = directed.Wait(ctx)
				require.ErrorIs(t, err, efa.ErrPeerClosed)
				require.ErrorIs(t, err, efa.ErrPeerFailed)
				err = b.ep.Send(ctx, b.peer, []byte("x"))
				require.ErrorIs(t, err, efa.ErrPeerClosed)
				_, err = b.ep.ClaimTag(ctx, efa.AnyTag, efa.Wait, efa.From(b.peer))
				require.ErrorIs(t, err, efa.ErrPeerClosed)
				require.NoError(t, b.av.Remove(ctx, b.peer))
			}
			a := newSide()
			introduce(t, a, b)
			require.NoError(t, a.ep.SendTag(ctx, a.peer, 99, []byte("stayed")))
			c := next(t, b)
			require.NoError(t, c.Err)
			require.EqualValues(t, 99, c.Token)
		})
	}
}

// closedEnv makes the child one that closes its endpoint, see closedChild.
const closedEnv = "EFACTOR_TEST_CHILD_CLOSED"

// closedLengths are what closedChild sends.
var closedLengths = []int{8, 8000, 200_000, 0}

// closedChild sends some messages and closes its endpoint.
func closedChild(dir string) error {
	ep, parent, err := childOf(dir, efa.DomainConfig{})
	if err != nil {
		return err
	}
	for _, n := range closedLengths {
		if err := ep.Send(context.Background(), parent, pattern(n)); err != nil {
			return err
		}
	}
	return ep.Close()
}

// TestPeerProcessClosed: another process closes its endpoint and ends; that is no death.
func TestPeerProcessClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the shm device needs Linux")
	}
	for _, place := range []string{"shm", "tcp"} {
		t.Run(place, func(t *testing.T) {
			dir := "tcp"
			if place == "shm" {
				dir = t.TempDir()
				require.NoError(t, os.Chmod(dir, 0o700))
			}
			dev, err := meet(dir)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, dev.Close()) })
			me := newEndpoint(t, domainOn(t, dev, efa.DomainConfig{}), efa.EndpointConfig{Protocol: unhurried})
			cmd, addr := startChild(t, dir, me.ep.Address(), closedEnv+"=1")
			peer, err := me.av.Insert(addr)
			require.NoError(t, err)
			ctx := testContext(t)
			buf := make([]byte, 1<<20)
			for _, n := range closedLengths {
				m, err := me.ep.Recv(ctx, buf, efa.From(peer))
				require.NoError(t, err)
				require.Equal(t, n, m.N)
			}
			_, err = me.ep.Recv(ctx, buf, efa.From(peer))
			require.ErrorIs(t, err, efa.ErrPeerClosed)
			require.NoError(t, cmd.Wait())
			ev, err := me.ep.NextEvent(ctx)
			require.NoError(t, err)
			if ev.Kind == efa.NewPeer { // it sent before its address was inserted
				ev, err = me.ep.NextEvent(ctx)
				require.NoError(t, err)
			}
			require.Equal(t, efa.PeerClosed, ev.Kind)
			require.Equal(t, peer, ev.Peer)
		})
	}
}
