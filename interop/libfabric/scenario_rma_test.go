//go:build linux

package libfabric_test

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

// access is a subprotocol of writes or reads, with a size at which both sides choose
// it.
type access struct {
	name       string
	kind       party.Kind
	size       int
	where      func(environment) bool
	level      party.Level
	from, back []wire.Type
	never      []wire.Type
	read       bool // by a device, into or from registered memory
}

var (
	rtws = []wire.Type{
		wire.TypeEagerRTW, wire.TypeLongCTSRTW, wire.TypeLongReadRTW, wire.TypeDCEagerRTW, wire.TypeDCLongCTSRTW,
	}
	rtrs = []wire.Type{wire.TypeShortRTR, wire.TypeLongCTSRTR, wire.TypeREADRSP}
)

var accesses = []access{
	{name: "eager write", kind: party.Write, size: 1, where: emulated, from: []wire.Type{wire.TypeEagerRTW}},
	{name: "eager write", kind: party.Write, size: 4000, where: emulated, from: []wire.Type{wire.TypeEagerRTW}},
	{
		name: "long-CTS write", kind: party.Write, size: 20000, where: emulated,
		from: []wire.Type{wire.TypeLongCTSRTW, wire.TypeCTSData}, back: []wire.Type{wire.TypeCTS},
	},
	{
		name: "long-CTS write", kind: party.Write, size: 600000, where: noRDMA,
		from: []wire.Type{wire.TypeLongCTSRTW, wire.TypeCTSData}, back: []wire.Type{wire.TypeCTS},
	},
	{
		name: "long-read write", kind: party.Write, size: 100000, where: readOnly, read: true,
		from: []wire.Type{wire.TypeLongReadRTW}, back: []wire.Type{wire.TypeEOR},
	},
	{
		name: "long-read write", kind: party.Write, size: 2 << 20, where: readOnly, read: true, level: party.Delivered,
		from: []wire.Type{wire.TypeLongReadRTW}, back: []wire.Type{wire.TypeEOR},
	},
	{
		name: "DC eager write", kind: party.Write, size: 4000, where: emulated, level: party.Delivered,
		from: []wire.Type{wire.TypeDCEagerRTW}, back: []wire.Type{wire.TypeReceipt},
	},
	{
		name: "DC long-CTS write", kind: party.Write, size: 50000, where: emulated, level: party.Delivered,
		from: []wire.Type{wire.TypeDCLongCTSRTW, wire.TypeCTSData}, back: []wire.Type{wire.TypeCTS, wire.TypeReceipt},
	},
	{
		name: "short read", kind: party.Read, size: 1, where: noRDMA,
		from: []wire.Type{wire.TypeShortRTR}, back: []wire.Type{wire.TypeREADRSP},
	},
	{
		name: "short read", kind: party.Read, size: 8000, where: noRDMA,
		from: []wire.Type{wire.TypeShortRTR}, back: []wire.Type{wire.TypeREADRSP},
	},
	{
		name: "long-CTS read", kind: party.Read, size: 20000, where: noRDMA,
		from: []wire.Type{wire.TypeLongCTSRTR}, back: []wire.Type{wire.TypeREADRSP, wire.TypeCTSData},
	},
	{ // more than one window, of either side
		name: "long-CTS read", kind: party.Read, size: 600000, where: noRDMA,
		from: []wire.Type{wire.TypeLongCTSRTR, wire.TypeCTS}, back: []wire.Type{wire.TypeREADRSP, wire.TypeCTSData},
	},
	{name: "direct read", kind: party.Read, size: 1, where: rdma, never: rtrs, read: true},
	{name: "direct read", kind: party.Read, size: 5000, where: rdma, never: rtrs, read: true},
	{name: "direct read", kind: party.Read, size: 1 << 20, where: rdma, never: rtrs, read: true},
	{name: "direct write", kind: party.Write, size: 1, where: writes, never: rtws, read: true},
	{name: "direct write", kind: party.Write, size: 5000, where: writes, never: rtws, read: true},
	{name: "direct write", kind: party.Write, size: 5000, where: writes, never: rtws, read: true, level: party.Delivered},
	{name: "direct write", kind: party.Write, size: 1 << 20, where: writes, never: rtws, read: true},
}

// manners are what is done with each subprotocol of writes and reads.
var manners = []struct {
	name, feature string
	is            func(access) bool
	play          func(*play, party.Op)
}{
	{"", "", func(access) bool { return true }, func(p *play, op party.Op) { p.reach(op) }},
	{"registered", "registered buffers", func(access) bool { return true }, func(p *play, op party.Op) {
		op.Registered = true
		p.reach(op)
	}},
	{"pieces", "pieces", func(access) bool { return true }, func(p *play, op party.Op) {
		op.Pieces = 2
		p.reach(op)
	}},
	{"data", "CQ data", isWrite, func(p *play, op party.Op) {
		op.HasData, op.Data = true, exchangeData
		p.reach(op)
	}},
	{"inject", "inject", func(a access) bool { return isWrite(a) && a.size <= 4000 && a.level == party.Default }, func(p *play, op party.Op) {
		op.Inject = true
		p.reach(op)
		op.HasData, op.Data = true, exchangeData
		p.reach(op)
	}},
	{"many", "", func(a access) bool { return a.size <= 100000 }, manyAccesses},
}

func isWrite(a access) bool { return a.kind == party.Write }

// rmaScenarios are each subprotocol in each manner.
func rmaScenarios() (all []scenario) {
	for _, a := range accesses {
		for _, m := range manners {
			if !m.is(a) {
				continue
			}
			name := a.name
			if m.name != "" {
				name += ", " + m.name
			}
			one := scenario{
				name: name + " " + bytesOf(a.size), proves: []string{a.name}, where: a.where,
				from: a.from, back: a.back, never: a.never,
				play: func(p *play) {
					m.play(p, party.Op{Kind: a.kind, Size: a.size, Level: a.level, Registered: a.read})
				},
			}
			if m.feature != "" {
				one.proves = append(one.proves, m.feature)
			}
			if isWrite(a) && m.name == "data" && a.size > 1<<18 {
				one.never = nil // shared memory takes 256 KiB at a time, and data goes with one request
			}
			one.gathers = m.name == "pieces" && a.kind == party.Read ||
				a.name == "direct write" && (m.name == "pieces" || m.name == "inject")
			if m.name == "pieces" && a.read && a.kind == party.Write {
				one.proves, one.from, one.back = []string{m.feature}, nil, nil // we gather pieces, which costs the copy
			}
			all = append(all, one)
		}
	}
	return append(all, nothingScenarios()...)
}

// nothingScenarios are accesses of no bytes.
func nothingScenarios() []scenario {
	return []scenario{
		{
			name: "write of nothing", where: everywhere, play: func(p *play) {
				p.reach(party.Op{Kind: party.Write})
				p.reach(party.Op{Kind: party.Write, Level: party.Delivered})
				p.reach(party.Op{Kind: party.Write, HasData: true, Data: exchangeData})
			},
		},
		{name: "read of nothing", where: noRDMA, play: readNothing},
		{
			name: "direct read of nothing", where: rdma, play: readNothing,
			gaps: []gap{{begins: efactorBegins, why: "libfabric crashes at a read of 0 bytes by the device"}},
		},
	}
}

func readNothing(p *play) { p.reach(party.Op{Kind: party.Read}) }

// margin is memory around the place that is written or read.
const margin = 128

// reach writes or reads memory of b.
func (p *play) reach(op party.Op) {
	p.Helper()
	mem, end := p.region(p.b, op.Size+2*margin, party.AccessRemoteRead|party.AccessRemoteWrite)
	defer end()
	op.Peer, op.At, op.Seed = p.toB, mem.Remote().Slice(margin, op.Size), p.next()
	if op.Kind == party.Read {
		require.NoError(p, mem.Fill(p.ctx, margin, op.Size, op.Seed))
		out := p.done(p.start(p.a, op))
		require.NoError(p, out.Content.Whole(op.Seed, op.Size))
		return
	}
	p.done(p.start(p.a, op))
	if op.HasData {
		p.noticed(op)
	}
	p.written(mem, op)
}

// noticed waits for b's word of a write with data.
func (p *play) noticed(op party.Op) {
	p.Helper()
	select {
	case n := <-p.b.Notices():
		require.NoError(p, n.Err())
		require.True(p, n.HasData)
		require.Equal(p, op.Data, n.Data)
		require.Equal(p, op.Size, n.N)
	case <-p.ctx.Done():
		require.Fail(p, "no word of a write with data")
	}
}

// written polls the memory until all bytes are there, and checks those beside it.
func (p *play) written(mem party.Region, op party.Op) {
	p.Helper()
	p.lands(mem, margin, op)
	for _, off := range []int{0, margin + op.Size} {
		c, err := mem.Check(p.ctx, off, margin)
		require.NoError(p, err)
		require.True(p, c.Untouched, "memory beside the write")
	}
}

// lands waits for the bytes of a write: one without delivery complete arrives at some
// time.
func (p *play) lands(mem party.Region, at int, op party.Op) {
	p.Helper()
	for {
		c, err := mem.Check(p.ctx, at, op.Size)
		require.NoError(p, err)
		wrong := c.Whole(op.Seed, op.Size)
		if wrong == nil {
			return
		}
		require.NotEqual(p, party.Delivered, op.Level, "%v: %v", op, wrong)
		require.False(p, op.HasData, "%v was told of before it was there: %v", op, wrong)
		require.NoError(p, p.ctx.Err(), "%v", wrong)
		p.mark()
	}
}

// manyAccesses are under way at once.
func manyAccesses(p *play, op party.Op) {
	const n = 10
	mem, _ := p.region(p.b, n*op.Size, party.AccessRemoteRead|party.AccessRemoteWrite)
	var started []*party.Pending
	for i := range n {
		op.Peer, op.At, op.Seed = p.toB, mem.Remote().Slice(i*op.Size, op.Size), i+1
		if op.Kind == party.Read {
			require.NoError(p, mem.Fill(p.ctx, i*op.Size, op.Size, op.Seed))
		}
		started = append(started, p.start(p.a, op))
	}
	for i, s := range started {
		out := p.done(s)
		op.Seed = i + 1
		if op.Kind == party.Read {
			require.NoError(p, out.Content.Whole(op.Seed, op.Size))
		} else {
			p.lands(mem, i*op.Size, op)
		}
	}
}
