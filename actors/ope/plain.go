package ope

import (
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// Where the memory of an operation lies: in a region of the domain, or in none (plain). A
// device that wants registered memory gets plain memory registered where that pays: for
// accesses of its own by a registration that is kept, and for reads of the peer's by one of
// the message's bytes that ends with the message.

// keyed reports whether the device that carries to the peer wants registered memory.
func (p *Pools) keyed(l *peer.Link) bool { return p.info(l).LocalKeys }

// registers reports whether n bytes of plain memory are worth it on the peer's path.
func (p *Pools) registers(l *peer.Link, n int) bool {
	least := p.Paths[l.Path].MinRegister
	return least > 0 && n >= least && p.Plain != nil
}

// lends reports whether it pays to register n bytes for the peer to read them, and for
// nothing else. A write can be read from fewer bytes on if they are in a region.
func (p *Pools) lends(l *peer.Link, n int) bool { return p.mayRead(l, n) }

// lendsPlain reports whether memory that others do not reach by RDMA can be lent on the peer's path.
// A peer that finds that it cannot read it asks for packets.
func (p *Pools) lendsPlain(l *peer.Link) bool {
	return p.info(l).Plain && p.policy(l).Features.Has(wire.FeatureReadNACK)
}

// useSource sees that the device, or that of the peer, may read the buffer.
func (t *outgoing) useSource(p Proto) bool {
	if t.q.Flags&Pieced != 0 {
		return t.usePieces(p.readBased())
	}
	r := t.pools.Regions.Find(t.q.Buf)
	switch {
	case r != nil:
		if !t.ext().use(r) {
			return false
		}
	case !t.pools.keyed(t.link):
		if !p.readBased() {
			return protos[p].rdma
		}
	case !t.pools.registers(t.link, len(t.q.Buf)):
		return false
	case p.readBased():
		if r = t.pools.Plain.Lend(t.q.Buf); r == nil {
			return false
		}
		t.ext().add(r)
	default:
		if r = t.pools.Plain.Hold(t.q.Buf, 0); r == nil {
			return false
		}
		t.ext().add(r)
	}
	return !p.readBased() || t.lend(r)
}

// lendPlain gives the peer leave to read the message where it lies in memory that others do not
// reach by RDMA.
func (t *outgoing) lendPlain() bool {
	l, x := t.link, t.ext()
	key, addr, err := t.pools.env.Q.LendPlain(l.AH, l.QPN, t.q.Buf)
	if err != nil {
		return false // the peer cannot read it, or there are too many: it goes another way
	}
	x.key, x.addr, x.path = key, addr, l.Path
	x.lent, x.moves = true, true
	return true
}

// source is the region of the buffer, nil if it has none in use.
func (t *outgoing) source() *mr.Region {
	if t.x == nil || t.x.n == 0 {
		return nil
	}
	return t.x.regions[0]
}

// gathering is where the payloads of an operation's packets come from, if not from a buffer
// by a copy.
type gathering uint8

const (
	gathersMemory gathering = 1 << iota // the device takes them from their place
	gathersList                         // the request has lists
)

// gather has the device take the payloads of an operation's packets from its buffer, if that
// is registered or worth it.
func (t *outgoing) gather() {
	p, n := t.pools, t.q.Len()
	if d := &protos[t.m.Proto]; n <= p.Paths[t.link.Path].MaxCopy || t.q.Flags&Borrowed != 0 || d.rdma || d.rta ||
		t.m.Proto == LongRead || t.m.Proto == LongReadWrite {
		return
	}
	if t.q.Flags&Pieced != 0 {
		if !t.gatherPieces() {
			return
		}
	} else if t.source() == nil {
		r := p.Regions.Find(t.q.Buf)
		switch {
		case r != nil:
			if !t.ext().use(r) {
				return
			}
		case !p.registers(t.link, n):
			return
		default:
			if r = p.Plain.Hold(t.q.Buf, 0); r == nil {
				return
			}
			t.ext().add(r)
		}
	}
	t.gathers |= gathersMemory
}

// gatherFrom has the device take a packet's payload from the region that it lies in.
func (t *outgoing) gatherFrom(p *device.Pke) {
	if p.Kind() != device.WRSend {
		return
	}
	if t.m.Proto == Eager && t.q.Flags&Pieced != 0 {
		t.q.pack(p, 0, t.m.Total)
	}
	if t.x == nil || t.gathers&gathersMemory == 0 {
		return
	}
	if r := t.x.holding(p.Local()); r != nil {
		p.From(r.LKey(t.link.Path))
	}
}

// copied reports whether the device keeps no reference to the buffer after it was given a
// packet.
func (t *outgoing) copied() bool { return t.pools.Info.CopiesAtPost && t.gathers&gathersMemory == 0 }

// lend gives the peer leave to read the message, and nothing else of the region. On a
// device without windows it gets the region's own key.
func (t *outgoing) lend(r *mr.Region) bool {
	if r == nil || !r.Remote(t.link.Path) {
		return t.lendPlain()
	}
	key, lent, ok := t.lendBytes(r, t.q.Buf)
	if ok {
		t.x.key, t.x.lent, t.x.path = key, lent, t.link.Path
		t.x.addr = r.Addr(t.link.Path) + offsetIn(r.Bytes(), t.q.Buf)
	}
	return ok
}

// lendBytes gives the peer leave to read a part of the region. lent: by a window.
func (t *outgoing) lendBytes(r *mr.Region, b []byte) (key uint64, lent, ok bool) {
	path := t.link.Path
	key, err := t.pools.env.Q.Lend(path, r.LKey(path), b)
	switch {
	case errors.Is(err, device.ErrNotSupported): // the path's device; that of another may have windows
		return mr.DeviceKey(r.Key(path)), false, true
	case err != nil:
		return 0, false, false // there are too many, or the region is being closed: it goes another way
	}
	return key, true, true
}

// land sees that the device may put what it reads to b. False: it may not.
func (d *reader) land(b []byte) bool {
	r := d.r
	p, l, x := r.pools, r.link, r.ext()
	m := p.Regions.Find(b)
	switch {
	case m != nil && (writable(m) || !p.keyed(l)) && x.use(m):
	case !p.keyed(l):
		return true
	case m != nil || !p.registers(l, len(b)):
		return false
	default:
		if m = p.Plain.Hold(b, device.LocalWrite); m == nil {
			return false
		}
		x.add(m)
	}
	d.lkey = m.LKey(l.Path)
	return true
}
