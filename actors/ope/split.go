package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// parts carries out a write or a read that one operation cannot: one that names more pieces of
// the peer's memory than a packet has room for, or a direct write of several requests with
// data, which may only come after all of them. Each part is an operation like any other, with
// the request's id, a trail and a place in the Tally, and parts is its sink; the caller gets one outcome when all have ended.
// After one that failed none begins. The part with the data begins when all others have ended.
//
// It belongs to its endpoint's shard.
type parts struct {
	pools *Pools
	link  *peer.Link
	req   Request // the caller's
	part  Request // the next, while it is begun

	last     uint64 // where the part with data has to begin; 0: anywhere
	next     uint64 // first byte that is in no part yet
	flying   int
	busy     bool // start runs
	n        int  // bytes of the parts that ended well
	proto    Proto
	err      error
	own      bool // err is no part's
	canceled error

	free *parts
}

// mostParts is how many parts of a request are in progress at a time.
const mostParts = 16

// splits reports whether a write or a read takes several operations, and where the part with
// data has to begin if that matters.
func (f *Facts) splits(q *Request) (last uint64, ok bool) {
	direct := f.Local && f.Target && (q.Kind == KindWrite && f.CanWrite || q.Kind == KindRead && f.CanRead)
	if direct && f.HasData && f.SameUnsolicited && f.Cuts > 1 {
		_, last = q.cuts(uint64(f.MaxRDMA))
		return last, true
	}
	return 0, f.Remotes > wire.MaxIOV && (!direct || f.HasData)
}

// split makes the request, which an operation has already begun to carry out, the first part of
// itself.
// last is where the part with data has to begin, 0 if that does not matter.
func (r *Request) split(p *Pools, l *peer.Link, last uint64) {
	g := p.parts
	if g == nil {
		g = &parts{pools: p}
	} else {
		p.parts = g.free
	}
	g.free, g.link, g.req, g.last = nil, l, *r, last
	l.Begin()
	g.cutNext(r)
	g.req.Flags = g.req.Flags&^Fence | Follows // the first part had its turn
}

// end is where the part ends that begins at next.
func (g *parts) end() uint64 {
	total := uint64(g.req.Len())
	if g.next < g.last {
		return g.last
	}
	if g.last > 0 {
		return total
	}
	to := g.next
	for range wire.MaxIOV {
		if to < total {
			to += g.req.at(to, total).Len
		}
	}
	return to
}

// cutNext makes q the next part.
func (g *parts) cutNext(q *Request) {
	from, to, total := g.next, g.end(), uint64(g.req.Len())
	*q = g.req
	q.Sink, q.More, q.Buf = g, nil, nil
	q.Flags &^= HasIOV | Inject
	if to < total && q.Flags&HasData != 0 {
		q.Flags &^= HasData
		if g.link.Can(wire.FeatureDeliveryComplete) {
			q.Flags |= Deliver // its data is in place before the last part is sent
		}
	}
	first := g.req.at(from, total)
	if b := g.req.from(from); uint64(len(b)) >= to-from {
		q.Buf = b[:to-from]
	} else {
		l := q.GetIOV()
		q.Flags |= HasIOV
		for off := from; off < to; {
			b := g.req.from(off)
			b = b[:min(uint64(len(b)), to-off)]
			l.AddLocal(b)
			off += uint64(len(b))
		}
	}
	if q.Addr, q.Key = first.Addr, first.Key; first.Len < to-from {
		l := q.GetIOV()
		for off := from; off < to; {
			x := g.req.at(off, total)
			x.Len = min(x.Len, to-off)
			l.Remote = append(l.Remote, x)
			off += x.Len
		}
	}
	g.next = to
	g.flying++
}

// Done implements Sink: a part has ended.
func (g *parts) Done(_ *Request, r *Result) {
	g.flying--
	g.n += r.N
	g.proto = r.Proto
	g.err = firstError(g.err, r.Err)
	if !g.busy {
		g.start()
	}
}

// start begins the parts that may begin, and gives the outcome when there are none left.
func (g *parts) start() {
	g.busy = true
	total := uint64(g.req.Len())
	for g.next < total && g.flying < mostParts {
		if g.err != nil || g.ends(firstError(g.canceled, g.link.Closed())) {
			break
		}
		if g.pools.Closing {
			g.ends(errno.ErrClosed)
			break
		}
		if g.req.Flags&HasData != 0 && g.flying > 0 && g.end() == total {
			break
		}
		g.cutNext(&g.part)
		var begun bool
		if g.req.Kind == KindRead {
			begun = g.pools.Read(&g.part, g.link)
		} else {
			begun = g.pools.Send(&g.part, g.link)
		}
		if !begun {
			g.flying--
			g.part.PutIOV()
			g.ends(errno.ErrAgain)
			break
		}
	}
	g.busy = false
	if g.flying == 0 {
		g.over()
	}
}

// ends notes an error that no part has had, if it is one, and reports whether it is.
func (g *parts) ends(err error) bool {
	if err != nil {
		g.err, g.own = err, true
	}
	return err != nil
}

// reportOwn counts and traces an error that no part has had, as one of an operation that never began.
func (g *parts) reportOwn() {
	g.pools.Tally.Count(g.req.Kind, 0, g.err)
	if l := g.pools.env.Trail; l != nil {
		span := follow(l, &g.req, g.link)
		l.Outcome(span, trail.Told, 0, g.err)
		l.Outcome(span, trail.End, 0, g.err)
	}
}

// over gives the caller its outcome.
func (g *parts) over() {
	g.link.Begun()
	if g.own {
		g.reportOwn()
	}
	res := &g.pools.res
	*res = Result{}
	res.Err, res.N, res.Proto, res.Peer = g.err, g.n, g.proto, g.req.Peer
	if g.err != nil && g.req.Kind == KindRead {
		res.N = 0
	}
	g.req.Sink.Done(&g.req, res)
	g.req.PutIOV()
	p := g.pools
	*g = parts{pools: p, free: p.parts}
	p.parts = g
}

// Stripe is where a request finds the peer's memory on one of several paths. RDMA between two
// hosts with several devices of one kind each goes over all of them, in stripes of stripeSize
// bytes; messages keep their peer's path. The first stripe of a request is that of the peer's own
// path.
type Stripe struct {
	Path uint8
	To   wire.RawAddr // the peer on the path
	Addr uint64       // of what Request.Addr is on the peer's path
	Key  uint64
}

// MinStripe is the fewest bytes that are worth a request on a path of their own.
const MinStripe = 128 << 10

// stripeAlign keeps stripes from sharing pages.
const stripeAlign = 4096

// stripeSize is how many bytes of the request each path moves at a time; 0: one path carries it
// all. A write with data is one request by nature.
func (r *Request) stripeSize(p *Pools) int {
	if r.More == nil || len(r.More.Stripes) < 2 || r.Flags&HasData != 0 {
		return 0
	}
	n := len(r.More.Stripes)
	size := ((len(r.Buf)+n-1)/n + stripeAlign - 1) / stripeAlign * stripeAlign
	for i := range r.More.Stripes {
		s := &r.More.Stripes[i]
		info := &p.Infos[s.Path]
		if r.Kind == KindRead && !info.RDMARead || r.Kind == KindWrite && !info.RDMAWrite || s.Key&(mr.EmulatedOnly|mr.EmulatedRead) != 0 {
			return 0
		}
		size = min(size, p.Paths[s.Path].ReadSegment)
	}
	if size < MinStripe {
		return 0
	}
	return size
}

// spread makes the entry, an RDMA request at off that begins a stripe, go by the path that is
// next. A path on which the peer has no handle leaves it to the peer's own.
func (r *Request) spread(p *Pools, e *device.Pke, l *peer.Link, off uint64, from *mr.Region) {
	size := r.stripeSize(p)
	if size == 0 {
		return
	}
	s := &r.More.Stripes[off/uint64(size)%uint64(len(r.More.Stripes))]
	if s.Path == l.Path {
		return
	}
	ah, err := l.Multipath.Handle(p.env.Q.QP(), s.Path, s.To.GID())
	if err != nil {
		return
	}
	var lkey uint32
	if from != nil {
		lkey = from.LKey(s.Path)
	}
	e.FillRDMA(e.Kind(), e.Local(), lkey, s.Addr+off, mr.DeviceKey(s.Key))
	e.To(ah, s.To.QPN(), s.To.ConnID())
}
