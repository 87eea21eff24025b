package efa_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
)

// TestConfigInForce: what is in force can be read back, and made again from that.
func TestConfigInForce(t *testing.T) {
	f := newFabric(t, sim.Config{})
	dev, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, MaxRDMA: 50_000})
	require.NoError(t, err)
	dom := domainOn(t, dev, efa.DomainConfig{})
	s := newEndpoint(t, dom, efa.EndpointConfig{TxDepth: 7, Protocol: efa.ProtocolConfig{MinRead: 12345, PeerTimeout: time.Minute}})
	c := s.ep.Config()
	p := c.Protocol
	require.Equal(t, []int{7, 16384, 256}, []int{c.TxDepth, c.RxDepth, c.EventBacklog})
	require.Equal(t, efa.Transmitted, c.Level)
	raw, ok := s.ep.Address().Raw("sim")
	require.True(t, ok)
	require.Equal(t, raw.QPN(), c.QPN)
	l := dom.Limits()
	require.Equal(t, []int{256, 256, l.MaxMedium, 12345, l.MinReadWrite, 50_000, 0, 32, 16, 3, 1 << 20}, []int{
		p.SendQueue, p.RecvQueue, p.MaxMedium, p.MinRead, p.MinReadWrite, p.ReadSegment, p.RuntSize, p.Credits, p.RecvWindow,
		p.RNRRetry, p.DetachLimit,
	})
	require.Equal(t, []time.Duration{time.Second, time.Second, time.Minute}, []time.Duration{p.RNRMax, p.ProbeAfter, p.PeerTimeout})
	require.Equal(t, []int64{256 << 20, 1 << 30}, []int64{p.PeerMemory, p.TotalMemory})

	c.QPN = 0
	again := newEndpoint(t, dom, c).ep.Config()
	again.QPN = 0
	require.Equal(t, c, again)

	none := efa.EndpointConfig{AV: s.av, Protocol: efa.ProtocolConfig{RNRRetry: -1, MaxMedium: -1, MinRead: -1}}
	ep, err := dom.NewEndpoint(none)
	require.NoError(t, err)
	require.Equal(t, none, ep.Config(), "before Enable it is what was given")
	require.NoError(t, ep.Enable(testContext(t)))
	p = ep.Config().Protocol
	require.Equal(t, []int{-1, -1, -1}, []int{p.RNRRetry, p.MaxMedium, p.MinRead})
	require.NoError(t, ep.Close())
}

// TestInitiate: an endpoint begins the operations of its Initiate and no others, by calls that
// wait and by requests that are posted.
func TestInitiate(t *testing.T) {
	kinds := []efa.Caps{efa.CapMessages, efa.CapRead, efa.CapWrite, efa.CapAtomic}
	for _, may := range append(kinds, 0, efa.CapNothing, efa.CapRead|efa.CapAtomic) {
		t.Run(may.String(), func(t *testing.T) {
			a, b := lab{ep: efa.EndpointConfig{Initiate: may}}.open(t)
			ctx := testContext(t)
			m := alloc(t, b, 64, efa.AccessRemoteRead|efa.AccessRemoteWrite)
			at := a.ep.Memory(a.peer, m.Remote())
			word := make([]byte, 8)
			for kind, calls := range map[efa.Caps][]func() error{
				efa.CapMessages: {
					func() error { return a.ep.Send(ctx, a.peer, word) },
					func() error { return a.ep.SendTag(ctx, a.peer, 1, word) },
					func() error { return a.ep.Send(ctx, a.peer, word, efa.Inject) },
					func() error { return second(a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: word})) },
				},
				efa.CapRead: {
					func() error { return at.Read(ctx, word) },
					func() error { return second(a.ep.PostRead(&efa.ReadReq{From: a.peer, At: m.Remote(), Buf: word})) },
				},
				efa.CapWrite: {
					func() error { return at.Write(ctx, word) },
					func() error { return second(a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: m.Remote(), Buf: word})) },
				},
				efa.CapAtomic: {
					func() error { return second(efa.NewCell[uint64](at).FetchAdd(ctx, 1)) },
					func() error {
						return second(a.ep.PostAtomic(&efa.AtomicReq{To: a.peer, At: m.Remote(), Op: amo.Sum, Type: amo.Uint64, Operand: word}))
					},
				},
			} {
				for i, call := range calls {
					err := call()
					if may == 0 || may&kind != 0 {
						require.NoError(t, err, "%v %d", kind, i)
						continue
					}
					require.ErrorIs(t, err, efa.ErrNotSupported, "%v %d", kind, i)
					require.ErrorContains(t, err, "Initiate "+may.String())
				}
			}
			require.NoError(t, a.ep.Shutdown(ctx))
			require.ErrorIs(t, a.ep.Send(ctx, a.peer, word), efa.ErrClosed)
		})
	}
}

// TestTarget: what an endpoint is no target of is refused although the region allows it, with
// the error that a region without the right gives and an event; the rest goes on. Devices with
// and without RDMA.
func TestTarget(t *testing.T) {
	for name, dev := range map[string]sim.DeviceConfig{
		"packets": {}, "RDMA": {RDMARead: true, RDMAWrite: true, UnsolicitedWrite: true, MinReadWrite: 1, MinRead: 1},
	} {
		for _, may := range []efa.Caps{efa.CapRead, efa.CapWrite, efa.CapAtomic, efa.CapNothing, efa.CapRead | efa.CapAtomic, 0} {
			t.Run(name+" "+may.String(), func(t *testing.T) {
				a, b := lab{dev: dev, ep: efa.EndpointConfig{Target: may}}.open(t)
				ctx := testContext(t)
				m := alloc(t, b, 1<<16, efa.AccessRemoteRead|efa.AccessRemoteWrite)
				copy(m.Bytes(), "before")
				at := a.ep.Memory(a.peer, m.Remote())
				for _, n := range []int{8, 1 << 16} {
					buf := make([]byte, n)
					for kind, call := range map[efa.Caps]func() error{
						efa.CapRead:   func() error { return at.Read(ctx, buf) },
						efa.CapWrite:  func() error { return at.Write(ctx, buf, efa.Complete(efa.Delivered)) },
						efa.CapAtomic: func() error { return second(efa.NewCell[uint64](at).FetchAdd(ctx, 0)) },
					} {
						err := call()
						if may == 0 || may&kind != 0 {
							require.NoError(t, err, "%v", kind)
							continue
						}
						require.ErrorIs(t, err, efa.ErrAccess, "%v", kind)
						ev, err := b.ep.NextEvent(ctx)
						require.NoError(t, err)
						for ev.Kind == efa.NewPeer {
							ev, err = b.ep.NextEvent(ctx)
							require.NoError(t, err)
						}
						require.Equal(t, efa.AccessRefused, ev.Kind)
						require.ErrorIs(t, ev.Err, efa.ErrAccess)
						require.ErrorContains(t, ev.Err, "no target")
					}
				}
				if may != 0 && may&efa.CapWrite == 0 {
					require.Equal(t, "before", string(m.Bytes()[:6]))
				}
				c := b.ep.Config()
				require.Equal(t, may != 0 && may&efa.CapRead == 0, c.Protocol.NoRDMARead)
				require.Equal(t, may != 0 && may&efa.CapWrite == 0, c.Protocol.NoRDMAWrite)
				require.Equal(t, may, c.Target)

				// Messages are not meant by it, whatever way they go.
				long := make([]byte, 1<<21)
				op := start(t, a, &efa.SendReq{To: a.peer, Buf: long})
				require.NoError(t, second(b.ep.Recv(ctx, make([]byte, 1<<21))))
				done(t, op)
			})
		}
	}
}

// TestCapsRefused: what cannot be had is an error that says so.
func TestCapsRefused(t *testing.T) {
	dom := openDomain(t, newFabric(t, sim.Config{}), efa.DomainConfig{})
	for _, x := range []struct {
		cfg  efa.EndpointConfig
		want error
		text string
	}{
		{efa.EndpointConfig{Initiate: efa.CapNothing << 1}, efa.ErrInvalid, "Initiate has"},
		{efa.EndpointConfig{Target: efa.CapDirected}, efa.ErrInvalid, "Target has directed"},
		{efa.EndpointConfig{Target: efa.CapNothing | efa.CapRead}, efa.ErrInvalid, "Target is read|nothing"},
		{efa.EndpointConfig{Target: efa.CapRead, Direct: true}, efa.ErrNotSupported, "Target of a direct endpoint"},
	} {
		_, err := dom.NewEndpoint(x.cfg)
		require.ErrorIs(t, err, x.want)
		require.ErrorContains(t, err, x.text)
	}
	require.Equal(t, "messages|0x8000", (efa.CapMessages | 1<<15).String())
}

// TestFenceAfterWrites: the receiver of a fenced message sees all writes before it, of any
// size, on every kind of device, with and without a confirmation of each.
func TestFenceAfterWrites(t *testing.T) {
	everywhere(t, efa.EndpointConfig{}, func(t *testing.T, a, b *side) {
		for _, level := range []efa.Level{efa.Transmitted, efa.Delivered} {
			notify(t, a, b, level, efa.Fence)
		}
	})
}

// TestSendAfterWrite: the same of messages without a fence, by an order of the endpoint.
func TestSendAfterWrite(t *testing.T) {
	everywhere(t, efa.EndpointConfig{Order: efa.SendAfterWrite}, func(t *testing.T, a, b *side) {
		notify(t, a, b, efa.Transmitted)
	})
}

// notify has a write to b's memory in many parts, and tell it; b looks then.
func notify(t *testing.T, a, b *side, level efa.Level, opts ...efa.OpOption) {
	const parts, size = 50, 3000
	m, ctx := alloc(t, b, parts*size+200_000, remote), testContext(t)
	for round := range less(8) {
		want := bytes.Repeat([]byte{byte(round + 1)}, len(m.Bytes()))
		var ops []*efa.Op
		for i := range parts {
			at, n := i*size, size
			if i == parts-1 {
				n += 200_000
			}
			ops = append(ops, start(t, a, &efa.WriteReq{
				To: a.peer, At: m.Remote().Slice(uint64(at), uint64(n)), Buf: want[at : at+n], Level: level,
			}))
		}
		got := make(chan error, 1)
		go func() {
			_, err := b.ep.RecvTag(ctx, efa.Match{Tag: 5}, nil)
			got <- err
		}()
		require.NoError(t, a.ep.SendTag(ctx, a.peer, 5, nil, opts...))
		require.NoError(t, <-got)
		require.True(t, bytes.Equal(want, m.Bytes()), "round %d: the message came before the bytes", round)
		for _, op := range ops {
			done(t, op)
		}
	}
}

// TestFenceShuffled: on a network that keeps no order a fenced write, read or atomic of each
// kind follows what it is to follow.
func TestFenceShuffled(t *testing.T) {
	for name, dev := range someDevices(t) {
		t.Run(name, func(t *testing.T) {
			f := newFabric(t, sim.Config{Seed: 11})
			mk := func() *side {
				d, err := f.OpenDevice(dev)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, d.Close()) })
				dom := domainOn(t, d, efa.DomainConfig{})
				q := newQueue(t, dom, 0)
				return newEndpoint(t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
			}
			a, b := mk(), mk()
			introduce(t, a, b)
			m, ctx := alloc(t, b, 40_000, remote), testContext(t)
			mem := a.ep.Memory(a.peer, m.Remote())
			cell := efa.NewCell[uint64](mem)
			for i := range less(200) {
				n := []int{8, 5000, 40_000}[i%3]
				old, now := bytes.Repeat([]byte{byte(i)}, n), bytes.Repeat([]byte{byte(i + 1)}, n)
				first := start(t, a, &efa.WriteReq{To: a.peer, At: m.Remote(), Buf: old})
				got, want := make([]byte, n), now
				require.NoError(t, mem.Write(ctx, now, efa.Fence))
				switch i % 4 {
				case 0, 1:
				case 2: // an atomic between
					require.NoError(t, cell.Update(ctx, amo.Sum, []uint64{1}, efa.Fence))
					want = bytes.Clone(now)
					binary.NativeEndian.PutUint64(want, binary.NativeEndian.Uint64(now)+1)
				default: // and one that fetches
					was := []uint64{0}
					require.NoError(t, cell.Fetch(ctx, amo.Write, []uint64{7}, was, efa.Fence))
					assert.Equal(t, binary.NativeEndian.Uint64(now), was[0])
					want = bytes.Clone(now)
					binary.NativeEndian.PutUint64(want, 7)
				}
				require.NoError(t, mem.Read(ctx, got, efa.Fence))
				require.True(t, bytes.Equal(want, got), "round %d, %d bytes", i, n)
				done(t, first)
			}
		})
	}
}

// TestOrderSettings: what is in force can be read, and what there is not is refused.
func TestOrderSettings(t *testing.T) {
	f := newFabric(t, sim.Config{})
	dom := domainOn(t, newDevice(t, f), efa.DomainConfig{})
	_, err := dom.NewEndpoint(efa.EndpointConfig{Order: efa.ReadAfterRead << 1})
	require.ErrorIs(t, err, efa.ErrInvalid)
	_, err = dom.NewEndpoint(efa.EndpointConfig{Order: efa.SendAfterWrite, Direct: true})
	require.ErrorIs(t, err, efa.ErrNotSupported)

	const o = efa.SendAfterWrite | efa.WriteAfterWrite
	s := newEndpoint(t, dom, efa.EndpointConfig{Order: o, Unordered: true})
	cfg := s.ep.Config()
	assert.Equal(t, o, cfg.Order)
	assert.True(t, cfg.Unordered)
	assert.Equal(t, "SendAfterWrite|WriteAfterWrite", cfg.Order.String())
	assert.Equal(t, math.MaxInt, cfg.MaxOrdered(efa.WriteAfterWrite))
	assert.Zero(t, cfg.MaxOrdered(efa.WriteAfterWrite|efa.ReadAfterWrite))
}

// TestFencesAllocateNothing: neither do fences, with operations before them under way, nor
// operations under an order.
func TestFencesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	a, b := lab{
		dev: sim.DeviceConfig{}, mode: efa.ProgressManual, ep: efa.EndpointConfig{Order: efa.SendAfterWrite | efa.WriteAfterWrite},
	}.open(t)
	at, ctx := alloc(t, b, 4096, remote).Remote(), context.Background()
	buf := make([]byte, 64)
	var cs [8]efa.Completion
	one := func() {
		if _, err := b.ep.PostRecv(&efa.RecvReq{Buf: buf}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := a.ep.PostWrite(&efa.WriteReq{To: a.peer, At: at, Buf: buf, Fence: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := a.ep.PostRead(&efa.ReadReq{From: a.peer, At: at, Buf: buf}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.ep.PostSend(&efa.SendReq{To: a.peer, Buf: buf, Fence: true}); err != nil {
			t.Fatal(err)
		}
		for s, n := range map[*side]int{a: 7, b: 1} {
			for n > 0 {
				k, err := s.ep.SendQueue().Read(ctx, cs[:n])
				if err != nil {
					t.Fatal(err)
				}
				n -= k
			}
		}
	}
	for range 100 {
		one()
	}
	assert.Zero(t, testing.AllocsPerRun(100, one))
}

// network opens an endpoint on devices of one simulated fabric that have kinds of their own.
type network struct {
	t *testing.T
	f *sim.Fabric
}

func (n network) open(devs ...sim.DeviceConfig) *side {
	n.t.Helper()
	var ds []efa.Device
	for _, c := range devs {
		d, err := n.f.OpenDevice(c)
		require.NoError(n.t, err)
		ds = append(ds, d)
	}
	dev := ds[0]
	if len(ds) > 1 {
		var err error
		dev, err = efa.JoinDevices(ds...)
		require.NoError(n.t, err)
	}
	n.t.Cleanup(func() { require.NoError(n.t, dev.Close()) })
	return open(n.t, dev, efa.DomainConfig{})
}

func (n network) meet(from, to *side) efa.Addr {
	n.t.Helper()
	h, err := from.av.Insert(to.ep.Address())
	require.NoError(n.t, err)
	return h
}

// rdma is how many RDMA requests an endpoint has posted.
func rdma(t *testing.T, s *side) uint64 {
	t.Helper()
	stats, err := s.ep.Stats(testContext(t))
	require.NoError(t, err)
	return stats["Queue.RDMAPosted"]
}

// TestAbilitiesByPath: RDMA is each device's own. A card without it takes nothing from the
// paths beside it, and the other way round; each peer hears what is so on its path.
func TestAbilitiesByPath(t *testing.T) {
	net := network{t, newFabric(t, sim.Config{Seed: 9})}
	able := sim.DeviceConfig{Name: "near", Net: 1, RDMARead: true, RDMAWrite: true}
	poor := sim.DeviceConfig{Name: "far", Net: 2, LocalKeys: true}
	pick := sim.DeviceConfig{Name: "far", Net: 2, RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true}
	for _, c := range []struct {
		name      string
		far       sim.DeviceConfig
		near, off uint64 // RDMA requests of a write and a read
	}{
		{"the card has none", poor, 2, 0},
		{"the card has all, for registered memory", pick, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := net.open(able, c.far), net.open(able, c.far)
			x := net.open(c.far) // on the network alone
			ctx := testContext(t)
			for _, to := range []struct {
				peer *side
				want uint64
			}{{b, c.near}, {x, c.off}} {
				h := net.meet(a, to.peer)
				net.meet(to.peer, a)
				op := start(t, to.peer, &efa.SendReq{To: 0}) // a knows what it can from then on
				_, err := a.ep.Recv(ctx, nil)
				require.NoError(t, err)
				done(t, op)
				m := alloc(t, to.peer, 200_000, remote)
				local := alloc(t, a, 200_000, 0)
				before := rdma(t, a)
				mem := a.ep.Memory(h, m.Remote())
				require.NoError(t, mem.Write(ctx, local.Bytes(), efa.Complete(efa.Delivered)))
				got := alloc(t, a, 200_000, 0)
				clear(got.Bytes())
				require.NoError(t, mem.Read(ctx, got.Bytes()))
				require.Equal(t, pattern(200_000), got.Bytes())
				require.Equal(t, to.want, rdma(t, a)-before)
				require.NoError(t, mem.Write(ctx, local.Bytes()[:1000], efa.Data(5)))
				ev, err := to.peer.ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Equal(t, efa.RemoteWritten, ev.Kind)
				require.EqualValues(t, 5, ev.Data)
				// Plain memory is good enough where the device takes it.
				before = rdma(t, a)
				require.NoError(t, mem.Read(ctx, make([]byte, 200_000)))
				plain := uint64(0)
				if to.peer == b {
					plain = 1
				}
				require.Equal(t, plain, rdma(t, a)-before)
			}
		})
	}
}
