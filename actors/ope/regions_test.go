package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/wire"
)

// testMR is a region of no device.
type testMR struct {
	mem   []byte
	key   uint64
	local bool
}

func (m *testMR) Bytes() []byte      { return m.mem }
func (m *testMR) Addr() uint64       { return 1 << 20 }
func (m *testMR) LKey() uint32       { return uint32(m.key) }
func (m *testMR) RKey() uint64       { return m.key }
func (m *testMR) Remote() bool       { return !m.local }
func (m *testMR) Parts() []device.MR { return nil }
func (m *testMR) Close() error       { return nil }

// TestOverlap: two pieces of memory have a byte in common, or one lies in the other.
func TestOverlap(t *testing.T) {
	mem := make([]byte, 100)
	for _, c := range []struct {
		a, b           []byte
		overlap, holds bool
	}{
		{mem[0:10], mem[0:10], true, true},
		{mem[0:10], mem[2:5], true, true},
		{mem[0:10], mem[0:1], true, true},
		{mem[0:10], mem[9:10], true, true},
		{mem[0:10], mem[9:11], true, false},
		{mem[5:10], mem[4:6], true, false},
		{mem[5:10], mem[0:50], true, false},
		{mem[0:10], mem[10:20], false, false},
		{mem[10:20], mem[0:10], false, false},
		{mem[0:10], mem[5:5], false, false},
		{mem[0:10], nil, false, false},
		{nil, mem[0:10], false, false},
		{mem[0:10], make([]byte, 5), false, false},
	} {
		require.Equal(t, c.overlap, Overlap(c.a, c.b), "%d and %d bytes", len(c.a), len(c.b))
		require.Equal(t, c.overlap, Overlap(c.b, c.a), "%d and %d bytes", len(c.b), len(c.a))
		require.Equal(t, c.holds, Holds(c.a, c.b), "%d bytes in %d", len(c.b), len(c.a))
	}
	require.EqualValues(t, 7, offsetIn(mem, mem[7:9]))
}

// TestInUse: an operation has any number of regions in use, and gives each back once.
func TestInUse(t *testing.T) {
	const n = 3 * wire.MaxIOV
	table := new(mr.Table)
	var u inUse
	var all []*mr.Region
	for i := range n {
		r := table.Add(&testMR{mem: make([]byte, 100), key: uint64(i)}, mr.Send)
		all = append(all, r)
		require.False(t, u.uses(r))
		require.Nil(t, u.holding(r.Bytes()))
		require.True(t, u.useOnce(r))
		require.True(t, u.useOnce(r), "it is in use already")
		require.EqualValues(t, 1, r.Users())
	}
	require.Equal(t, n, u.n)
	for i, r := range all {
		require.True(t, u.uses(r), "region %d", i)
		require.Same(t, r, u.holding(r.Bytes()[20:30]), "region %d", i)
	}
	require.Nil(t, u.holding(make([]byte, 10)))
	closing := all[1]
	closing.Retire()
	require.False(t, new(inUse).use(closing))
	other := new(inUse)
	other.share(closing)
	require.EqualValues(t, 2, closing.Users())
	other.release()
	u.release()
	for _, r := range all {
		require.Zero(t, r.Users())
	}
	require.Zero(t, u.n)
	require.Nil(t, u.holding(all[0].Bytes()))
	require.NotPanics(t, u.release)
}

// TestReachable: the two high bits of a key say what the device may do with it.
func TestReachable(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		key  uint64
		want bool
	}{
		{KindWrite, 5, true},
		{KindRead, 5, true},
		{KindWrite, 5 | mr.EmulatedOnly, false},
		{KindRead, 5 | mr.EmulatedOnly, false},
		{KindWrite, 5 | mr.EmulatedRead, true},
		{KindRead, 5 | mr.EmulatedRead, false},
	} {
		require.Equal(t, c.want, reachable(c.kind, c.key), "%+v", c)
	}
}

// TestBufferFacts: whether a device may use the memory of a request, and the peer's may read it.
func TestBufferFacts(t *testing.T) {
	const least = 1000 // bytes for which it pays to register, and to be read
	buf := make([]byte, 2*least)
	for _, c := range []struct {
		name          string
		kind          Kind
		n             int
		region        bool
		access        mr.Access
		local         bool // it is a region that the devices of others do not reach
		keys, lends   bool // the device wants keys; it lends memory without them
		borrowed      bool
		asLocal, asIt bool // Local and Source
	}{
		{name: "a region", kind: KindSend, n: 10, region: true, access: mr.Send, keys: true, asLocal: true, asIt: true},
		{name: "a region that is not for sending", kind: KindSend, n: 10, region: true, keys: true, asLocal: true},
		{name: "a region for the other processes' packets alone", kind: KindSend, n: 10, region: true, access: mr.Send, local: true, keys: true, asLocal: true},
		{name: "the same where memory is lent", kind: KindSend, n: 10, region: true, access: mr.Send, local: true, keys: true, lends: true, asLocal: true, asIt: true},
		{name: "to read into a region", kind: KindRead, n: 10, region: true, access: device.LocalWrite, keys: true, asLocal: true},
		{name: "to read into a region that is not written", kind: KindRead, n: 10, region: true, access: mr.Send, keys: true, asIt: true},
		{name: "the same without keys", kind: KindRead, n: 10, region: true, access: mr.Send, asLocal: true, asIt: true},
		{name: "plain memory, short", kind: KindSend, n: least - 1, keys: true},
		{name: "plain memory, long", kind: KindSend, n: least, keys: true, asLocal: true, asIt: true},
		{name: "plain memory without keys", kind: KindWrite, n: 10, asLocal: true},
		{name: "plain memory where it is lent", kind: KindSend, n: 10, lends: true, asLocal: true, asIt: true},
		{name: "borrowed memory", kind: KindSend, n: least, borrowed: true, keys: true},
		{name: "borrowed memory in a region", kind: KindSend, n: 10, region: true, access: mr.Send, borrowed: true, keys: true},
		{name: "borrowed memory where it is lent", kind: KindSend, n: 10, borrowed: true, lends: true, asLocal: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := policyOf(settings.Settings{})
			on.MinRead, on.MinRegister = least, least
			if c.lends {
				on.Features.Set(wire.FeatureReadNACK)
			}
			p := &Pools{Policy: &on, Regions: new(mr.Table), Plain: mr.NewCache(mr.CacheConfig{})}
			p.OnPaths([]Policy{on})
			p.Infos = []device.Info{{LocalKeys: c.keys, Plain: c.lends, RDMARead: true}}
			if c.region {
				p.Regions.Add(&testMR{mem: buf, key: 7, local: c.local}, c.access)
			}
			q := &Request{Kind: c.kind, Buf: buf[:c.n]}
			if c.borrowed {
				q.Flags |= Borrowed
			}
			f := Facts{Total: c.n}
			p.bufferFacts(&f, new(peer.Link), q)
			require.Equal(t, c.asLocal, f.Local, "Local")
			require.Equal(t, c.asIt, f.Source, "Source")
		})
	}
}

// TestBounce: the pieces of bounce memory are lent and come back; operations that wait for one are
// served in the order of their coming.
func TestBounce(t *testing.T) {
	mem := make([]byte, 2*bounceSize)
	b := &bounce{free: [][]byte{mem[:bounceSize:bounceSize], mem[bounceSize:]}}
	first, second := b.get(), b.get()
	require.Len(t, first, bounceSize)
	require.False(t, Overlap(first, second))
	require.Nil(t, b.get())
	b.put(first[:100])
	again := b.get()
	require.Len(t, again, bounceSize, "a piece comes back whole")
	require.True(t, Holds(first, again))

	require.Nil(t, b.next())
	one, two := new(Rxe), new(Rxe)
	b.line = append(b.line, one, two)
	require.Same(t, one, b.next())
	b.line = append(b.line, one)
	require.Same(t, two, b.next())
	require.Same(t, one, b.next())
	require.Nil(t, b.next())
}

// TestIOVFacts: memory in several pieces is fit for what all of its pieces are fit for.
func TestIOVFacts(t *testing.T) {
	sends, writes, neither := mr.Send, device.LocalWrite, mr.Access(0)
	both := sends | writes
	for _, c := range []struct {
		name          string
		kind          Kind
		pieces        []*mr.Access // of the regions that they lie in; nil: in none
		keys          []uint64     // of the peer's pieces
		keyed         bool
		local, source bool
		target        bool
	}{
		{"all in regions", KindSend, []*mr.Access{&both, &sends}, nil, true, true, true, true},
		{"one is not for sending", KindSend, []*mr.Access{&both, &neither}, nil, true, true, false, true},
		{"one is in none", KindSend, []*mr.Access{&both, nil}, nil, true, false, false, true},
		{"one is in none, without keys", KindWrite, []*mr.Access{&both, nil}, nil, false, true, false, true},
		{"a read into regions", KindRead, []*mr.Access{&both, &writes}, nil, true, true, false, true},
		{"a read into one that is not written", KindRead, []*mr.Access{&both, &sends}, nil, true, false, true, true},
		{"a write from it", KindWrite, []*mr.Access{&both, &sends}, nil, true, true, true, true},
		{"the peer's pieces", KindWrite, []*mr.Access{&both}, []uint64{1, 2}, true, true, true, true},
		{"one of them is not reached", KindWrite, []*mr.Access{&both}, []uint64{1, 2 | mr.EmulatedOnly, 3}, true, true, true, false},
		{"one of them is not read", KindRead, []*mr.Access{&both}, []uint64{1 | mr.EmulatedRead, 2}, true, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := policyOf(settings.Settings{})
			on.MinRegister = 0
			p := &Pools{Policy: &on, Regions: new(mr.Table)}
			p.OnPaths([]Policy{on})
			p.Infos = []device.Info{{LocalKeys: c.keyed, RDMARead: true}}
			q := &Request{Kind: c.kind, Flags: HasIOV}
			l := q.GetIOV()
			for i, a := range c.pieces {
				mem := make([]byte, 10)
				if a != nil {
					p.Regions.Add(&testMR{mem: mem, key: uint64(i)}, *a)
				}
				l.AddLocal(mem)
			}
			for _, k := range c.keys {
				l.Remote = append(l.Remote, wire.RMAIOV{Len: 10, Key: k})
			}
			f := Facts{Kind: c.kind, Total: q.Len(), Target: true, MaxRDMA: 100}
			p.iovFacts(&f, new(peer.Link), q)
			require.Equal(t, c.local, f.Local, "Local")
			require.Equal(t, c.source, f.Source, "Source")
			require.Equal(t, c.target, f.Target, "Target")
			require.Equal(t, len(c.pieces), f.Pieces)
			require.Equal(t, max(1, len(c.keys)), f.Remotes)
		})
	}
}
