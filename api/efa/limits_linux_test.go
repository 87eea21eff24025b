//go:build linux

package efa_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// TestSettingsAreKept: a setting is in force as it was asked for, up to its limit, and refused
// by its name beyond.
func TestSettingsAreKept(t *testing.T) {
	f := newFabric(t, sim.Config{MaxSQ: 300, MaxRQ: 400})
	dev, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, MaxRDMA: 50_000})
	require.NoError(t, err)
	dom := domainOn(t, dev, efa.DomainConfig{})
	type proto = efa.ProtocolConfig
	for name, x := range map[string]struct {
		limit int
		set   func(c *proto, v int)
		get   func(c *proto) int
	}{
		"SendQueue":   {300, func(c *proto, v int) { c.SendQueue = v }, func(c *proto) int { return c.SendQueue }},
		"RecvQueue":   {400, func(c *proto, v int) { c.RecvQueue = v }, func(c *proto) int { return c.RecvQueue }},
		"Refill":      {128, func(c *proto, v int) { c.Refill = v }, func(c *proto) int { return c.Refill }},
		"ReadSegment": {50_000, func(c *proto, v int) { c.ReadSegment = v }, func(c *proto) int { return c.ReadSegment }},
		"Credits":     {1 << 20, func(c *proto, v int) { c.Credits = v }, func(c *proto) int { return c.Credits }},
		"RecvWindow":  {1 << 20, func(c *proto, v int) { c.RecvWindow = v }, func(c *proto) int { return c.RecvWindow }},
		"PeerMemory":  {1 << 60, func(c *proto, v int) { c.PeerMemory = int64(v) }, func(c *proto) int { return int(c.PeerMemory) }},
		"TotalMemory": {1 << 60, func(c *proto, v int) { c.TotalMemory = int64(v) }, func(c *proto) int { return int(c.TotalMemory) }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []int{1, x.limit - 1, x.limit} {
				var c efa.EndpointConfig
				x.set(&c.Protocol, v)
				s := newEndpoint(t, dom, c)
				got := s.ep.Config().Protocol
				require.Equal(t, v, x.get(&got))
			}
			for _, v := range []int{-1, x.limit + 1} {
				var c efa.EndpointConfig
				x.set(&c.Protocol, v)
				_, err := dom.NewEndpoint(c)
				require.ErrorIs(t, err, efa.ErrInvalid)
				require.ErrorContains(t, err, "Protocol."+name+" is")
			}
		})
	}
	small := newEndpoint(t, dom, efa.EndpointConfig{Protocol: proto{RecvQueue: 5}}).ep.Config()
	require.Equal(t, 2, small.Protocol.Refill)
	_, err = dom.NewEndpoint(efa.EndpointConfig{Protocol: proto{RecvQueue: 5, Refill: 3}})
	require.ErrorContains(t, err, "Protocol.Refill is 3, at most 2")
}

// TestManyPieces: Bufs of as many pieces as Limits say, whatever is done with them, and of no more.
func TestManyPieces(t *testing.T) {
	a, b := lab{}.open(t)
	most := a.dom.Limits().IOV
	require.GreaterOrEqual(t, most, 256)
	require.Equal(t, efa.RMAIOVLimit, a.dom.Limits().RMAIOV)
	m := alloc(t, b, most+1, efa.AccessRemoteRead|efa.AccessRemoteWrite)
	cut := func(p []byte) (out [][]byte) {
		for i := range p {
			out = append(out, p[i:i+1])
		}
		return out
	}
	from, to := make([]byte, most+1), make([]byte, most+1)
	for i := range from {
		from[i] = byte(i * 7 >> 3)
	}
	reqs := func(n int) (send, recv, write, read efa.Request) {
		return &efa.SendReq{To: a.peer, Bufs: cut(from[:n])}, &efa.RecvReq{Bufs: cut(to[:n])},
			&efa.WriteReq{To: a.peer, At: m.Remote(), Bufs: cut(from[:n]), Level: efa.Delivered}, &efa.ReadReq{From: a.peer, At: m.Remote(), Bufs: cut(to[:n])}
	}
	send, recv, write, read := reqs(most)
	op := start(t, b, recv)
	done(t, start(t, a, send))
	done(t, op)
	require.True(t, bytes.Equal(from[:most], to[:most]))
	done(t, start(t, a, write))
	require.True(t, bytes.Equal(from[:most], m.Bytes()[:most]))
	clear(to)
	done(t, start(t, a, read))
	require.True(t, bytes.Equal(from[:most], to[:most]))
	send, recv, write, read = reqs(most + 1)
	for _, r := range []efa.Request{send, recv, write, read} {
		_, err := a.ep.Start(r)
		require.ErrorIs(t, err, efa.ErrInvalid)
		require.ErrorContains(t, err, "pieces")
	}
}

// TestCQData: all of Limits.CQData arrives with messages and writes; a write with more than
// CQDataDirect goes by packets, and a direct endpoint refuses it.
func TestCQData(t *testing.T) {
	const long = uint64(0x8877665544332211)
	a, b := lab{dev: devices["reads and writes"]}.open(t)
	ctx := testContext(t)
	l := a.dom.Limits()
	require.Equal(t, []int{8, 4, 8}, []int{l.CQData, l.CQDataDirect, l.KeySize})
	op := start(t, a, &efa.SendReq{To: a.peer, HasData: true, Data: long})
	got, err := b.ep.Recv(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, long, got.Data)
	done(t, op)
	m, from := alloc(t, b, 8, efa.AccessRemoteWrite), alloc(t, a, 8, 0)
	for _, x := range []struct {
		data   uint64
		direct bool
	}{{1<<32 - 1, true}, {1 << 32, false}, {long, false}} {
		op := start(t, a, &efa.WriteReq{To: a.peer, At: m.Remote(), Buf: from.Bytes(), HasData: true, Data: x.data})
		require.Equal(t, x.direct, done(t, op).Protocol.String() == "direct write", "%#x", x.data)
		var cs [1]efa.Completion
		_, err := b.ep.RecvQueue().Read(ctx, cs[:])
		require.NoError(t, err)
		require.Equal(t, x.data, cs[0].Data)
	}

	d, e := lab{dev: devices["reads and writes"], ep: efa.EndpointConfig{Direct: true}}.open(t)
	recv := start(t, e, &efa.RecvReq{})
	require.ErrorIs(t, d.ep.Send(ctx, d.peer, nil, efa.Data(1<<32)), efa.ErrNotSupported)
	require.NoError(t, d.ep.Send(ctx, d.peer, nil, efa.Data(1<<32-1)))
	require.EqualValues(t, 1<<32-1, done(t, recv).Data)
}

// TestLevelOfCall: the level that a call asks for replaces the endpoint's, in both directions and
// for every kind of call; one that asks for nothing has the endpoint's.
func TestLevelOfCall(t *testing.T) {
	for _, of := range []efa.Level{efa.Transmitted, efa.Delivered} {
		a, b := lab{ep: efa.EndpointConfig{Level: of}}.open(t)
		ctx := testContext(t)
		m := alloc(t, b, 8, efa.AccessRemoteWrite)
		p := make([]byte, 8)
		for _, level := range []efa.Level{0, efa.Transmitted, efa.Delivered} {
			dc := level == efa.Delivered || level == 0 && of == efa.Delivered
			name := map[bool]string{false: "", true: "DC "}[dc]
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: p, Level: level})
			require.NoError(t, second(b.ep.Recv(ctx, p)))
			require.Equal(t, name+"eager", done(t, op).Protocol.String())
			op = start(t, a, &efa.WriteReq{To: a.peer, At: m.Remote(), Buf: p, Level: level})
			require.Equal(t, name+"eager write", done(t, op).Protocol.String())
			op = start(t, a, &efa.AtomicReq{To: a.peer, At: m.Remote(), Op: 2, Type: 7, Operand: p, Level: level})
			require.Equal(t, name+"write atomic", done(t, op).Protocol.String())

			// Blocking calls end before there is a receive, or not.
			sent := make(chan error, 1)
			go func() {
				if level == 0 {
					sent <- a.ep.Send(ctx, a.peer, p)
				} else {
					sent <- a.ep.Send(ctx, a.peer, p, efa.Complete(level))
				}
			}()
			if !dc {
				require.NoError(t, <-sent)
			}
			require.NoError(t, second(b.ep.Recv(ctx, p)))
			if dc {
				require.NoError(t, <-sent)
			}
		}
		require.NoError(t, a.ep.Send(ctx, a.peer, p, efa.Inject, efa.Complete(efa.Delivered)))
		require.NoError(t, second(b.ep.Recv(ctx, p)))
	}
}

// TestDeviceLimitsOfEach: a domain on several devices says what holds on all of them.
func TestDeviceLimitsOfEach(t *testing.T) {
	f := newFabric(t, sim.Config{})
	dev, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, MaxRDMA: 50_000, MaxRegions: 7})
	require.NoError(t, err)
	one := domainOn(t, dev, efa.DomainConfig{})
	require.Equal(t, 7, one.Limits().MaxRegions)
	require.Equal(t, efa.CapMessages|efa.CapRead|efa.CapWrite|efa.CapAtomic|efa.CapDirected|efa.CapSource, one.Limits().Caps)

	dom := namedDomain(t, "auto")
	all := dom.Limits()
	for _, l := range []efa.Limits{namedDomain(t, "shm").Limits(), namedDomain(t, "tcp").Limits()} {
		require.NotEqual(t, all.Device, l.Device)
		require.LessOrEqual(t, all.MTU, l.MTU)
		require.LessOrEqual(t, all.MaxSQ, l.MaxSQ)
		require.LessOrEqual(t, all.MaxRegions, l.MaxRegions)
		require.LessOrEqual(t, all.MaxRDMA, l.MaxRDMA)
	}
}

// TestMaxRegions: as many regions as Limits.MaxRegions, and one more when one was closed.
func TestMaxRegions(t *testing.T) {
	dev := closed(t)(tcp.Open(tcp.Config{}))
	if raceEnabled || testenv.Short() { // 65,536 take too long
		dev = closed(t)(newFabric(t, sim.Config{}).OpenDevice(sim.DeviceConfig{MaxRegions: 4096}))
	}
	dom := domainOn(t, dev, efa.DomainConfig{})
	most := dom.Limits().MaxRegions
	mem := make([]byte, most)
	all := make([]*efa.MemoryRegion, most)
	var err error
	for i := range all {
		all[i], err = dom.Register(mem[i:i+1], efa.AccessRemoteRead)
		require.NoError(t, err)
	}
	require.ErrorIs(t, second(dom.Register(mem, 0)), efa.ErrNoMR)
	require.NoError(t, all[most/2].Close())
	all[most/2], err = dom.Register(mem, 0)
	require.NoError(t, err)
	for _, m := range all {
		require.NoError(t, m.Close())
	}
}
