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

// remotes makes a request of total bytes for n pieces of the peer's memory, which are as long as
// one another.
func remotes(kind Kind, total, n int) *Request {
	r := &Request{Kind: kind, Buf: make([]byte, total)}
	l := r.GetIOV()
	for i := range n {
		size := total / n
		l.Remote = append(l.Remote, wire.RMAIOV{Addr: uint64(1000 + i*100), Len: uint64(size), Key: uint64(i)})
	}
	return r
}

// TestSplits: a request takes several operations if a packet cannot name its pieces, or if data
// has to follow several RDMA writes.
func TestSplits(t *testing.T) {
	direct := Facts{Local: true, Target: true, CanWrite: true, CanRead: true, MaxRDMA: 25}
	for _, c := range []struct {
		name  string
		kind  Kind
		facts Facts
		edit  func(*Facts)
		n     int // pieces of 10 bytes
		last  uint64
		ok    bool
	}{
		{"a packet has room", KindWrite, Facts{}, nil, wire.MaxIOV, 0, false},
		{"a packet has none", KindWrite, Facts{}, nil, wire.MaxIOV + 1, 0, true},
		{"a read by packets", KindRead, Facts{}, nil, wire.MaxIOV + 1, 0, true},
		{"a direct write needs no packet", KindWrite, direct, nil, 20, 0, false},
		{"a direct read needs none", KindRead, direct, nil, 20, 0, false},
		{"a read of a device that only writes", KindRead, direct, func(f *Facts) { f.CanRead = false }, 20, 0, true},
		{"a write of a device that only reads", KindWrite, direct, func(f *Facts) { f.CanWrite = false }, 20, 0, true},
		{"memory here that is not registered", KindWrite, direct, func(f *Facts) { f.Local = false }, 20, 0, true},
		{"memory there that RDMA does not reach", KindWrite, direct, func(f *Facts) { f.Target = false }, 20, 0, true},
		{"data comes with the last of several writes", KindWrite, direct, func(f *Facts) { f.HasData, f.SameUnsolicited = true, true }, 2, 10, true},
		{"data comes with the only write", KindWrite, direct, func(f *Facts) { f.HasData, f.SameUnsolicited, f.MaxRDMA = true, true, 100 }, 1, 0, false},
		{"data that goes by packets", KindWrite, direct, func(f *Facts) { f.HasData = true }, 2, 0, false},
		{"data that goes by packets, which lack the room", KindWrite, direct, func(f *Facts) { f.HasData = true }, 20, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, q := c.facts, remotes(c.kind, 10*c.n, c.n)
			if c.edit != nil {
				c.edit(&f)
			}
			f.Remotes = c.n
			if f.MaxRDMA > 0 {
				f.Cuts, _ = q.cuts(uint64(f.MaxRDMA))
			}
			last, ok := f.splits(q)
			require.Equal(t, c.ok, ok)
			require.Equal(t, c.last, last)
		})
	}
}

// TestParts cuts requests into parts: each has at most wire.MaxIOV pieces of the peer's memory, or
// ends where the part with the data begins. Together the parts are the request.
func TestParts(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int // pieces of 10 bytes
		last uint64
		want []int // bytes of each part
	}{
		{"one piece", 1, 0, []int{10}},
		{"a packet full", wire.MaxIOV, 0, []int{10 * wire.MaxIOV}},
		{"one more", wire.MaxIOV + 1, 0, []int{10 * wire.MaxIOV, 10}},
		{"three packets", 2*wire.MaxIOV + 3, 0, []int{10 * wire.MaxIOV, 10 * wire.MaxIOV, 30}},
		{"data last", 20, 190, []int{190, 10}},
		{"data at a cut in a piece", 1, 5, []int{5, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole := remotes(KindWrite, 10*c.n, c.n)
			for i := range whole.Buf {
				whole.Buf[i] = byte(i)
			}
			g := &parts{req: *whole, last: c.last, link: new(peer.Link)}
			var sizes []int
			var bytes []byte
			var to []wire.RMAIOV
			for g.next < uint64(len(whole.Buf)) {
				require.Less(t, len(sizes), 100)
				q := &g.part
				g.cutNext(q)
				require.Same(t, g, q.Sink)
				require.Equal(t, KindWrite, q.Kind)
				sizes = append(sizes, q.Len())
				b := make([]byte, q.Len())
				q.Gather(b)
				bytes = append(bytes, b...)
				iov, n := [wire.MaxIOV]wire.RMAIOV{}, 0
				if c.last == 0 {
					var m uint32
					iov, m = q.rmaIOV(uint64(q.Len()))
					n = int(m)
				} else if q.More != nil {
					to = append(to, q.More.Remote...)
				} else {
					to = append(to, wire.RMAIOV{Addr: q.Addr, Len: uint64(q.Len()), Key: q.Key})
				}
				to = append(to, iov[:n]...)
			}
			require.Equal(t, c.want, sizes)
			require.Equal(t, len(sizes), g.flying)
			require.Equal(t, whole.Buf, bytes)
			if len(to) == c.n { // no cut in a piece
				require.Equal(t, whole.More.Remote, to)
			} else {
				require.Equal(t, []wire.RMAIOV{{Addr: 1000, Len: 5}, {Addr: 1005, Len: 5}}, to)
			}
		})
	}
}

// TestPartOfPieces: a part of memory that lies in pieces has pieces, too, unless it lies in one.
func TestPartOfPieces(t *testing.T) {
	q := threePieces() // abc defgh ij, to pieces of 4 and 6 bytes
	g := &parts{req: *q, last: 8, link: new(peer.Link)}
	g.cutNext(&g.part)
	require.NotZero(t, g.part.Flags&HasIOV)
	require.Len(t, g.part.More.Local, 2)
	require.Equal(t, []wire.RMAIOV{{Addr: 1000, Len: 4, Key: 1}, {Addr: 2000, Len: 4, Key: 2}}, g.part.More.Remote)
	var second Request
	g.cutNext(&second)
	require.Zero(t, second.Flags&HasIOV)
	require.Equal(t, "ij", string(second.Buf))
	require.Equal(t, uint64(2004), second.Addr)
	require.EqualValues(t, 2, second.Key)
	require.Nil(t, second.More)
}

// TestStripeSize: what each of several paths moves of an access at a time.
func TestStripeSize(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name  string
		kind  Kind
		total int
		paths int
		edit  func(*Pools, *Request)
		want  int
	}{
		{"one path", KindRead, mb, 1, nil, 0},
		{"no path of its own", KindRead, mb, 0, nil, 0},
		{"two paths", KindRead, mb, 2, nil, mb / 2},
		{"two paths, a write", KindWrite, mb, 2, nil, mb / 2},
		{"three paths, whole pages", KindRead, mb, 3, nil, 352256},
		{"the least that pays", KindRead, 2 * MinStripe, 2, nil, MinStripe},
		{"less than pays", KindRead, 2*MinStripe - 8192, 2, nil, 0},
		{"a byte more than that", KindRead, 2*MinStripe - 8191, 2, nil, MinStripe},
		{"limit of one path", KindRead, mb, 2, func(p *Pools, _ *Request) { p.Paths[1].ReadSegment = MinStripe }, MinStripe},
		{"limit below what pays", KindRead, mb, 2, func(p *Pools, _ *Request) { p.Paths[1].ReadSegment = MinStripe - 1 }, 0},
		{"a path that does not read", KindRead, mb, 2, func(p *Pools, _ *Request) { p.Infos[1].RDMARead = false }, 0},
		{"a path that does not read, of a write", KindWrite, mb, 2, func(p *Pools, _ *Request) { p.Infos[1].RDMARead = false }, mb / 2},
		{"a path that does not write", KindWrite, mb, 2, func(p *Pools, _ *Request) { p.Infos[0].RDMAWrite = false }, 0},
		{"memory that no device reaches", KindRead, mb, 2, func(_ *Pools, q *Request) { q.More.Stripes[1].Key = mr.EmulatedOnly }, 0},
		{"data", KindWrite, mb, 2, func(_ *Pools, q *Request) { q.Flags |= HasData }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Pools{}
			q := &Request{Kind: c.kind, Buf: make([]byte, c.total), More: new(More)}
			for i := range c.paths {
				on := policyOf(settings.Settings{})
				on.ReadSegment = mb
				p.Paths = append(p.Paths, on)
				p.Infos = append(p.Infos, device.Info{RDMARead: true, RDMAWrite: true})
				q.More.Stripes = append(q.More.Stripes, Stripe{Path: uint8(i)})
			}
			if c.edit != nil {
				c.edit(p, q)
			}
			require.Equal(t, c.want, q.stripeSize(p))
			require.Zero(t, (&Request{Kind: c.kind, Buf: q.Buf}).stripeSize(p), "no list of paths")
		})
	}
}
