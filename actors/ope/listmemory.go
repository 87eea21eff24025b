package ope

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// Where the memory of an operation with several pieces lies, see plain.go: what is said
// there of a buffer holds for each piece.

// listFacts fills in what is known of the pieces of a request.
func (p *Pools) listFacts(f *Facts, l *peer.Link, q *Request) {
	f.Remotes = q.remotes()
	if q.More != nil {
		for i := range q.More.Remote {
			key := q.More.Remote[i].Key
			f.Target = f.Target && reachable(q.Kind, key)
		}
	}
	if q.Kind == KindWrite || q.Kind == KindRead {
		f.Cuts, _ = q.cuts(uint64(f.MaxRDMA))
	}
	var one [1][]byte
	local := q.locals(&one)
	f.Pieces = len(local)
	f.Local, f.Source = true, len(local) <= wire.MaxIOV
	for _, b := range local {
		if !f.Local && !f.Source {
			return
		}
		r := p.Regions.Find(b)
		plain := r == nil && p.registers(l, len(b))
		f.Local = f.Local && (!p.keyed(l) || plain || r != nil && (q.Kind != KindRead || writable(r)))
		f.Source = f.Source && (plain && p.lends(l, f.Total) || r != nil && r.Remote(l.Path) && r.Access()&mr.Send != 0)
	}
}

// reachable reports whether the device may use the peer's memory by a key.
func reachable(k Kind, key uint64) bool {
	return key&mr.EmulatedOnly == 0 && (k != KindRead || key&mr.EmulatedRead == 0)
}

// lentPieces are the pieces of a message that the peer reads.
type lentPieces struct {
	iov  [wire.MaxIOV]wire.RMAIOV
	lent [wire.MaxIOV]bool // the key is that of a window, to be returned
	n    uint32
}

// usePieces is useSource for a request with several pieces.
func (t *outgoing) usePieces(read bool) bool {
	x, p := t.ext(), t.pools
	for i, b := range t.q.More.Local {
		r := p.Regions.Find(b)
		switch {
		case r != nil:
			if !x.once(r) {
				return false
			}
		case !p.keyed(t.link):
			if read {
				return false
			}
			continue
		case !p.registers(t.link, len(b)):
			return false
		case read:
			if r = p.Plain.Lend(b); r == nil {
				return false
			}
			x.add(r)
		case x.holding(b) == nil:
			if r = p.Plain.Hold(b, 0); r == nil {
				return false
			}
			x.add(r)
		}
		if read && !t.lendPiece(i, r, b) {
			return false
		}
	}
	return true
}

// lendPiece gives the peer leave to read piece i, see lend.
func (t *outgoing) lendPiece(i int, r *mr.Region, b []byte) bool {
	key, lent, ok := t.lendBytes(r, b)
	if !ok {
		return false
	}
	x := t.x
	if x.pieces == nil {
		x.pieces = new(lentPieces)
	}
	path := t.link.Path
	x.path = path
	x.pieces.iov[i] = wire.RMAIOV{Addr: r.Addr(path) + offsetIn(r.Bytes(), b), Len: uint64(len(b)), Key: key}
	x.pieces.lent[i] = lent
	x.pieces.n = uint32(i + 1)
	return true
}

// giveBack ends the leave to read the pieces.
func (l *lentPieces) giveBack(q *device.Queue, path uint8) {
	for i := range l.iov[:l.n] {
		if l.lent[i] {
			q.Return(path, l.iov[i].Key)
		}
	}
	*l = lentPieces{}
}

// gatherPieces has the device take what it can from the pieces, see gather.
func (t *outgoing) gatherPieces() bool {
	p, found := t.pools, false
	for _, b := range t.q.More.Local {
		if len(b) <= p.Paths[t.link.Path].MaxCopy || t.x != nil && t.x.holding(b) != nil {
			continue
		}
		r := p.Regions.Find(b)
		if r != nil && !t.ext().once(r) {
			continue
		}
		if r == nil && p.registers(t.link, len(b)) {
			if r = p.Plain.Hold(b, 0); r != nil {
				t.ext().add(r)
			}
		}
		found = found || r != nil
	}
	return found || t.x != nil && t.x.n > 0
}

// fillCut makes the entry a write of what lies in one piece on both sides, which the segment
// becomes.
func (t *outgoing) fillCut(p *device.Pke, seg Segment) Segment {
	q := t.q
	to := q.at(seg.Off, t.m.Total)
	local := q.from(seg.Off)
	seg.Len = min(seg.Len, uint64(len(local)), to.Len)
	local = local[:seg.Len]
	var lkey uint32
	if t.x != nil {
		if r := t.x.holding(local); r != nil {
			lkey = r.LKey(t.link.Path)
		}
	}
	p.FillRDMA(device.WRWrite, local, lkey, to.Addr, mr.DeviceKey(to.Key))
	return seg
}

// landPieces is land for the first n bytes of a request with several pieces.
func (d *reader) landPieces(q *Request, n uint64) bool {
	r := d.r
	p, l, x := r.pools, r.link, r.ext()
	for _, b := range q.More.Local {
		if n == 0 {
			break
		}
		b = b[:min(n, uint64(len(b)))]
		n -= uint64(len(b))
		m := p.Regions.Find(b)
		switch {
		case m != nil && (writable(m) || !p.keyed(l)) && x.once(m):
		case !p.keyed(l):
		case m != nil || !p.registers(l, len(b)):
			return false
		case x.holding(b) == nil:
			if m = p.Plain.Hold(b, device.LocalWrite); m == nil {
				return false
			}
			x.add(m)
		}
	}
	return true
}

// landAll sees that the device may put n bytes into the request's memory.
func (d *reader) landAll(q *Request, n uint64) bool {
	if q.Flags&Pieced != 0 {
		return d.landPieces(q, n)
	}
	return d.land(q.Buf[:n])
}

// into is where at most most bytes at off of a request with several pieces are read to.
func (d *reader) into(q *Request, off, most uint64) ([]byte, uint32) {
	b := q.from(off)
	b = b[:min(most, uint64(len(b)))]
	if r := d.r.x.holding(b); r != nil {
		return b, r.LKey(d.r.link.Path)
	}
	return b, 0
}
