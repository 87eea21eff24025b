package efa_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
)

// zeroCopy makes a pair of which b receives without headers.
func zeroCopy(t testing.TB, da, db efa.Device, ca efa.EndpointConfig, mode efa.Progress) (a, b *side) {
	t.Helper()
	mk := func(dev efa.Device, c efa.EndpointConfig) *side {
		dom := domainOn(t, dev, efa.DomainConfig{Progress: mode})
		c.SendQueue = newQueue(t, dom, 0)
		c.RecvQueue = c.SendQueue
		return newEndpoint(t, dom, c)
	}
	a, b = mk(da, ca), mk(db, efa.EndpointConfig{ZeroCopyRecv: true})
	introduce(t, a, b)
	return a, b
}

// zeroCopyDevices are those on which endpoints can receive without headers.
func zeroCopyDevices(t testing.TB) map[string]func() efa.Device {
	f, dir := newFabric(t, sim.Config{Seed: 5}), t.TempDir()
	sims := func(c sim.DeviceConfig) func() efa.Device {
		return func() efa.Device {
			d, err := f.OpenDevice(c)
			require.NoError(t, err)
			return d
		}
	}
	return map[string]func() efa.Device{
		"sim": sims(sim.DeviceConfig{}), "sim keys": sims(sim.DeviceConfig{LocalKeys: true, RDMARead: true}),
		"shm": func() efa.Device {
			d, err := efa.OpenDevice("shm:" + dir + "/fabric")
			require.NoError(t, err)
			return d
		},
		"tcp": func() efa.Device {
			d, err := tcp.Open(tcp.Config{})
			require.NoError(t, err)
			return d
		},
	}
}

func onZeroCopy(t *testing.T, ca efa.EndpointConfig, f func(t *testing.T, a, b *side)) {
	for _, name := range []string{"sim", "sim keys", "shm", "tcp"} {
		t.Run(name, func(t *testing.T) {
			open := zeroCopyDevices(t)[name]
			da, db := open(), open()
			t.Cleanup(func() {
				require.NoError(t, da.Close())
				require.NoError(t, db.Close())
			})
			a, b := zeroCopy(t, da, db, ca, efa.ProgressAuto)
			f(t, a, b)
		})
	}
}

// TestZeroCopyRecv: a sender's first message may come in the ordinary way; as soon as it knows, its
// messages have no header. Each lands in one receive, with its data.
func TestZeroCopyRecv(t *testing.T) {
	onZeroCopy(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		region, err := b.dom.Alloc(64<<10, 0)
		require.NoError(t, err)
		defer func() { require.NoError(t, region.Close()) }()
		headerless := 0
		for i := range 200 {
			n := []int{0, 1, 64, 4000, b.dom.Limits().MTU}[i%5]
			buf := make([]byte, b.dom.Limits().MTU)
			if i%2 == 0 {
				buf = region.Bytes()[:len(buf)]
			}
			_, err := b.ep.PostRecv(&efa.RecvReq{Buf: buf, Token: uint64(i)})
			require.NoError(t, err)
			m := pattern(n)
			var opts []efa.OpOption
			if i%3 == 0 {
				opts = append(opts, efa.Data(uint64(i)))
			}
			if i == 0 && n > 4000 {
				n = 0
			}
			require.NoError(t, a.ep.Send(ctx, a.peer, m, opts...), "message %d", i)
			c := read(t, b.ep.RecvQueue())
			require.NoError(t, c.Err)
			require.EqualValues(t, i, c.Token)
			require.Equal(t, n, c.N)
			require.Equal(t, m, buf[:n])
			require.Equal(t, b.peer, c.From)
			require.Equal(t, i%3 == 0, c.HasData)
			if c.HasData {
				require.EqualValues(t, i, c.Data)
			}
			if c.Protocol.String() == "headerless" {
				headerless++
			}
		}
		require.GreaterOrEqual(t, headerless, 198)
		require.ErrorIs(t, a.ep.Send(ctx, a.peer, make([]byte, b.dom.Limits().MTU+1)), efa.ErrMsgSize)
		require.ErrorIs(t, a.ep.SendTag(ctx, a.peer, 1, nil), efa.ErrNotSupported)
		// The other direction is as ever, in which b waits for a's HANDSHAKE.
		op := start(t, b, &efa.SendReq{To: b.peer, Buf: pattern(100_000), Tagged: true, Tag: 7})
		buf := make([]byte, 100_000)
		got, err := a.ep.RecvTag(ctx, efa.Match{Tag: 7}, buf)
		require.NoError(t, err)
		require.Equal(t, 100_000, got.N)
		require.Equal(t, pattern(100_000), buf)
		done(t, op)
	})
}

// TestZeroCopyRecvOldPeer: a peer that knows nothing of it sends as ever, messages of any size; each
// takes a receive back from the device, also the last that there is.
func TestZeroCopyRecvOldPeer(t *testing.T) {
	for _, release := range []string{"1.10", "1.17.0"} {
		var cfg efa.EndpointConfig
		cfg.Protocol.Knobs().Era = release
		onZeroCopy(t, cfg, func(t *testing.T, a, b *side) {
			ctx := testContext(t)
			for i, n := range []int{0, 1, 5000, 20_000, 300_000, 64} {
				bufs := make([][]byte, 1+i%3)
				for k := range bufs {
					bufs[k] = make([]byte, 300_000)
					_, err := b.ep.PostRecv(&efa.RecvReq{Buf: bufs[k], Token: uint64(k)})
					require.NoError(t, err)
				}
				for range bufs {
					op := start(t, a, &efa.SendReq{To: a.peer, Buf: pattern(n)})
					c := read(t, b.ep.RecvQueue())
					require.NoError(t, c.Err)
					require.NotEqual(t, "headerless", c.Protocol.String())
					require.Equal(t, pattern(n), bufs[c.Token][:c.N])
					bufs[c.Token] = nil // once each
					require.Equal(t, n, c.N)
					done(t, op)
				}
			}
			// It came before the receive.
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: pattern(64)})
			unexpected(t, b.ep, 1)
			m, err := b.ep.Recv(ctx, make([]byte, 64))
			require.NoError(t, err)
			require.Equal(t, 64, m.N)
			done(t, op)
		})
	}
}

// TestZeroCopyRecvEnds: receives that the device has end once: canceled, with the region that
// they lie in, too short, with the endpoint.
func TestZeroCopyRecvEnds(t *testing.T) {
	onZeroCopy(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		region, err := b.dom.Alloc(4096, 0)
		require.NoError(t, err)
		buf, ids := make([]byte, 64), []efa.OpID(nil)
		post := func(token uint64, p []byte) {
			id, err := b.ep.PostRecv(&efa.RecvReq{Buf: p, Token: token})
			require.NoError(t, err)
			ids = append(ids, id)
		}
		post(0, buf)
		post(1, buf)
		post(2, region.Bytes())
		post(3, buf)
		require.NoError(t, b.ep.Cancel(ids[1]))
		c := read(t, b.ep.RecvQueue())
		require.ErrorIs(t, c.Err, efa.ErrCanceled)
		require.EqualValues(t, 1, c.Token)
		require.NoError(t, region.Close())
		c = read(t, b.ep.RecvQueue())
		require.ErrorIs(t, c.Err, efa.ErrCanceled)
		require.EqualValues(t, 2, c.Token)

		tokens := map[uint64]bool{}
		for range 2 {
			require.NoError(t, a.ep.Send(ctx, a.peer, pattern(64)))
			c = read(t, b.ep.RecvQueue())
			require.NoError(t, c.Err)
			tokens[c.Token] = true
		}
		require.Equal(t, map[uint64]bool{0: true, 3: true}, tokens)

		post(4, buf[:8])
		require.NoError(t, a.ep.Send(ctx, a.peer, pattern(64)))
		require.ErrorIs(t, read(t, b.ep.RecvQueue()).Err, efa.ErrTruncated)

		short, cancel := context.WithCancel(ctx)
		cancel()
		_, err = b.ep.Recv(short, buf)
		require.ErrorIs(t, err, efa.ErrCanceled)

		post(5, buf)
		require.NoError(t, b.ep.Close())
		c = read(t, b.ep.RecvQueue())
		require.ErrorIs(t, c.Err, efa.ErrClosed)
		require.EqualValues(t, 5, c.Token)
		var none [1]efa.Completion
		require.Zero(t, b.ep.RecvQueue().TryRead(none[:]))
	})
}

// TestZeroCopyRecvBoth: of two endpoints that receive so each waits for the other's HANDSHAKE.
func TestZeroCopyRecvBoth(t *testing.T) {
	onZeroCopy(t, efa.EndpointConfig{ZeroCopyRecv: true}, func(t *testing.T, a, b *side) {
		ctx := testContext(t)
		for i := range 20 {
			for _, x := range [][2]*side{{a, b}, {b, a}} {
				buf := make([]byte, 64)
				_, err := x[1].ep.PostRecv(&efa.RecvReq{Buf: buf})
				require.NoError(t, err)
				op := start(t, x[0], &efa.SendReq{To: x[0].peer, Buf: []byte{byte(i)}})
				_, err = op.Wait(ctx)
				require.NoError(t, err)
				for {
					c := read(t, x[1].ep.RecvQueue())
					require.NoError(t, c.Err)
					require.Equal(t, "headerless", c.Protocol.String(), fmt.Sprint(i))
					require.EqualValues(t, i, buf[0])
					break
				}
			}
		}
	})
}

// TestZeroCopyRecvRefuses: what cannot be is an error of the call.
func TestZeroCopyRecvRefuses(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	_, err := dom.NewEndpoint(efa.EndpointConfig{ZeroCopyRecv: true, Direct: true})
	require.ErrorIs(t, err, efa.ErrNotSupported)
	q := newQueue(t, dom, 0)
	pool, err := dom.NewRecvPool(efa.RecvPoolConfig{Queue: q})
	require.NoError(t, err)
	_, err = dom.NewEndpoint(efa.EndpointConfig{ZeroCopyRecv: true, RecvPool: pool})
	require.ErrorIs(t, err, efa.ErrNotSupported)
	require.NoError(t, pool.Close())
	s := newEndpoint(t, dom, efa.EndpointConfig{ZeroCopyRecv: true, RecvQueue: q})
	_, err = s.ep.PostRecv(&efa.RecvReq{Tagged: true})
	require.ErrorIs(t, err, efa.ErrNotSupported)
	_, err = s.ep.PostRecv(&efa.RecvReq{Directed: true})
	require.ErrorIs(t, err, efa.ErrNotSupported)
	_, err = s.ep.Peek(testContext(t))
	require.ErrorIs(t, err, efa.ErrNotSupported)
	_, err = s.ep.RecvTag(testContext(t), efa.AnyTag, nil)
	require.ErrorIs(t, err, efa.ErrNotSupported)
}

// TestZeroCopyRecvAllocatesNothing: from the posting of a receive to its completion.
func TestZeroCopyRecvAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	f := newFabric(t, sim.Config{InOrder: true})
	a, b := zeroCopy(t, newDevice(t, f), newDevice(t, f), efa.EndpointConfig{}, efa.ProgressManual)
	buf, m, ctx := make([]byte, 64), make([]byte, 64), context.Background()
	var cs [1]efa.Completion
	one := func() {
		_, _ = b.ep.PostRecv(&efa.RecvReq{Buf: buf, Token: 1})
		_ = a.ep.Send(ctx, a.peer, m)
		_, _ = b.ep.RecvQueue().Read(ctx, cs[:])
	}
	for range 200 {
		one()
		require.NoError(t, cs[0].Err)
	}
	require.Equal(t, "headerless", cs[0].Protocol.String())
	require.Less(t, fewestAllocs(100, one), 0.1)
}
