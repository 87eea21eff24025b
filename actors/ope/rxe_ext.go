package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// rxExt is what few rxes have: those that read the peer's memory, or write into
// registered memory here.
type rxExt struct {
	reader

	inUse
	dst   [wire.MaxIOV][]byte // where a peer's write goes; of other operations unused
	lkeys [wire.MaxIOV]uint32 // of dst
	ndst  int
	held  int // bytes accounted to the peer

	next *rxExt
}

// reader is the part of an rxe that gets data by asking for it: a read of ours, and RDMA
// reads of the peer's memory with what follows when one fails (§3.3, §4.1, §4.7).
type reader struct {
	r *Rxe

	src  [wire.MaxIOV]wire.RMAIOV // the peer's memory, in the order of the message
	nsrc int
	lkey uint32 // of the request's buffer

	piece uint64 // bytes that each of several paths reads at a time; 0: there is one path

	inLine   bool          // for a piece of bounce memory
	bouncing bool          // reads go by way of registered memory of ours
	refusing bool          // READ_NACK once the packets are in
	nacked   bool          // it was sent, the replacement is to come
	broken   device.Status // of a read that failed
	failure  error         // the same as an error

	turn peer.Turn // of our own read
}

func (r *Rxe) ext() *rxExt {
	if r.x == nil {
		p := r.pools
		if r.x = p.rxExts; r.x == nil {
			r.x = new(rxExt)
		} else {
			p.rxExts = r.x.next
		}
		r.x.r = r
		r.x.turn.Init(r.ref)
	}
	return r.x
}

func (p *Pools) putRxExt(x *rxExt, l *peer.Link) {
	x.doneWith()
	if x.held > 0 {
		l.Release(x.held)
	}
	turn := x.turn.Again()
	*x = rxExt{next: p.rxExts, inUse: x.inUse}
	x.turn = turn
	p.rxExts = x
}

// Concerns reports whether the operation has to do with a region that is being
// closed, see Txe.Concerns.
func (r *Rxe) Concerns(m *mr.Region) bool {
	if r.UsesRegion(m) {
		return true
	}
	if r.ord == nil || r.c.Told() || !r.ord.Req.Touches(m.Bytes()) {
		return false
	}
	r.ext().share(m)
	return true
}

// UsesRegion reports whether the operation has m in use.
func (r *incoming) UsesRegion(m *mr.Region) bool { return r.x != nil && r.x.uses(m) }
