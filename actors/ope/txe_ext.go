package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// txExt is what few txes have: those that use registered memory, answer a request,
// or whose caller has left.
type txExt struct {
	late     lateMsg
	canceled error // what the caller's context said

	inUse
	key   uint64 // by which the peer reads the message; 0: it does not
	addr  uint64 // where
	lent  bool   // that is the key of a window, to be returned, on
	path  uint8
	moves bool                // another memory can take the place of the buffer meanwhile
	src   [wire.MaxIOV][]byte // memory of a read response, in the order of the request
	nsrc  int
	block []byte // of an atomic response, from the packets' pool
	held  int    // bytes accounted to the peer
	runt  int    // bytes of a runt under way, counted in the link
	errno uint32 // of PEER_ERROR
	ref   wire.RefKind

	pieces *lentPieces // in place of key, of a message in several pieces

	next *txExt
}

func (t *outgoing) ext() *txExt {
	if t.x == nil {
		p := t.pools
		if t.x = p.txExts; t.x == nil {
			t.x = new(txExt)
		} else {
			p.txExts = t.x.next
		}
	}
	return t.x
}

func (p *Pools) putTxExt(x *txExt, l *peer.Link) {
	p.env.Sh.StopTimer(&x.late.timer)
	x.letMemoryGo(p)
	if x.block != nil {
		p.env.Pool.PutBlock(x.block)
	}
	if x.held > 0 {
		l.Release(x.held)
	}
	x.runtOver(l, x.runt)
	*x = txExt{next: p.txExts, pieces: x.pieces, inUse: x.inUse}
	p.txExts = x
}

// unlend ends the leave.
func (x *txExt) unlend(p *Pools) {
	if x.lent {
		p.env.Q.Return(x.path, x.key)
		x.lent, x.moves = false, false
	}
	if x.pieces != nil {
		x.pieces.giveBack(p.env.Q, x.path)
	}
}

// letMemoryGo ends the use of registered memory.
func (x *txExt) letMemoryGo(p *Pools) {
	x.unlend(p)
	x.doneWith()
}

// runtOver takes n bytes of the runt out of what is under way to the peer.
func (x *txExt) runtOver(l *peer.Link, n int) {
	n = min(n, x.runt)
	x.runt -= n
	l.Runt -= n
}

// isRunt reports whether a packet carries a part of a runt.
func isRunt(p *device.Pke) bool {
	t := wire.Type(p.Type())
	return t == wire.TypeRuntReadMsgRTM || t == wire.TypeRuntReadTagRTM
}

// Concerns reports whether the operation has to do with a region that is being
// closed: it has it in use, or, from now on, since its buffer lies there.
func (t *outgoing) Concerns(r *mr.Region) bool {
	if t.UsesRegion(r) {
		return true
	}
	if t.c.Told() || !t.q.Touches(r.Bytes()) {
		return false
	}
	t.ext().share(r)
	return true
}

// UsesRegion reports whether the operation has r in use.
func (t *outgoing) UsesRegion(r *mr.Region) bool { return t.x != nil && t.x.uses(r) }
