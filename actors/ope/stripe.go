package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// RDMA between two hosts with several devices of one kind each goes over all of them in
// pieces. Messages do not: they keep their peer's path.

// Stripe is where a request finds the peer's memory on one of several paths. Of those of a
// request the first is the peer's own path.
type Stripe struct {
	Path uint8
	To   wire.RawAddr // the peer on the path
	Addr uint64       // of what Request.Addr is on the peer's path
	Key  uint64
}

// MinStripe is the fewest bytes that are worth a request on a path of their own.
const MinStripe = 128 << 10

// stripeAlign keeps pieces from sharing pages.
const stripeAlign = 4096

// piece is how many bytes of a request each path moves at a time; 0: one path carries it
// all. A write with data is one request by nature.
func (p *Pools) piece(q *Request) int {
	if q.More == nil || len(q.More.Stripes) < 2 || q.Flags&HasData != 0 {
		return 0
	}
	n := len(q.More.Stripes)
	size := ((len(q.Buf)+n-1)/n + stripeAlign - 1) / stripeAlign * stripeAlign
	for i := range q.More.Stripes {
		s := &q.More.Stripes[i]
		info := &p.Infos[s.Path]
		if q.Kind == KindRead && !info.RDMARead || q.Kind == KindWrite && !info.RDMAWrite || s.Key&(mr.EmulatedOnly|mr.EmulatedRead) != 0 {
			return 0
		}
		size = min(size, p.Paths[s.Path].ReadSegment)
	}
	if size < MinStripe {
		return 0
	}
	return size
}

// spread makes the entry, an RDMA request of q's at off that begins a piece, go by the path
// whose turn it is. A path on which the peer has no handle leaves it to the peer's own.
func (p *Pools) spread(e *device.Pke, l *peer.Link, q *Request, off uint64, r *mr.Region) {
	size := p.piece(q)
	if size == 0 {
		return
	}
	s := &q.More.Stripes[off/uint64(size)%uint64(len(q.More.Stripes))]
	if s.Path == l.Path {
		return
	}
	ah, err := l.Rails.Handle(p.env.Q.QP(), s.Path, s.To.GID())
	if err != nil {
		return
	}
	var lkey uint32
	if r != nil {
		lkey = r.LKey(s.Path)
	}
	e.FillRDMA(e.Kind(), e.Local(), lkey, s.Addr+off, mr.DeviceKey(s.Key))
	e.To(ah, s.To.QPN(), s.To.ConnID())
}
