package ope

import (
	"errors"
	"slices"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// Which memory an operation uses. It lies in a region of the domain, or in none (plain). A device
// that wants registered memory gets plain memory registered where that pays: for accesses of its
// own by a registration that is kept, and for reads of the peer's by one of the message's bytes
// that ends with the message. Of memory in several pieces this holds for each piece.

// facts fills in the facts about the peer, the devices and the memory.
func (p *Pools) facts(f *Facts, l *peer.Link, q *Request) {
	f.UserQP, f.Remotes = l.Headerless, q.remotes()
	if q.Kind == KindSend && !p.mayRead(l, f.Total) {
		return
	}
	f.CanRead = p.mayRDMARead(l) && l.CanRDMA(wire.FeatureRDMARead)
	f.CanWrite = p.info(l).RDMAWrite && !p.Policy.NoRDMAWrite && l.CanRDMA(wire.FeatureRDMAWrite) &&
		q.Flags&p.byPacket == 0
	if f.MaxRDMA = q.stripeSize(p); f.MaxRDMA == 0 {
		f.MaxRDMA = p.maxRDMA(l)
	}
	f.Target = reachable(q.Kind, q.Key)
	f.SameUnsolicited = uint64(uint32(q.Data)) == q.Data && (l.Self || p.env.Config.Homogeneous ||
		l.Features.Has(wire.FeatureUnsolicitedWrite) == p.policy(l).Features.Has(wire.FeatureUnsolicitedWrite))
	if !f.CanRead && !f.CanWrite {
		return
	}
	if q.hasIOVs() {
		p.iovFacts(f, l, q)
	} else {
		p.bufferFacts(f, l, q)
	}
	if !f.Source {
		return
	}
	if f.CanRunt = l.Can(wire.FeatureRunt); p.reads == 0 {
		f.Runt = p.Policy.RuntSize - l.Runt()
	}
}

// bufferFacts fills in the facts about the memory of a request with one buffer.
func (p *Pools) bufferFacts(f *Facts, l *peer.Link, q *Request) {
	var r *mr.Region
	if q.Flags&Borrowed == 0 {
		r = p.Regions.Find(q.Buf)
	}
	plain := r == nil && q.Flags&Borrowed == 0 && p.registers(l, f.Total)
	f.Local = !p.keyed(l) || plain || r != nil && (q.Kind != KindRead || writable(r))
	f.Source = plain && p.lends(l, f.Total) || q.Flags&Borrowed == 0 && p.readable(l, r)
}

// iovFacts fills in the facts about the memory of a request with several pieces. All pieces must
// have a property for the operation to have it.
func (p *Pools) iovFacts(f *Facts, l *peer.Link, q *Request) {
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

// readable reports whether peers' devices can read a message from memory that lies in r, or in
// no region, as far as the device here is concerned.
func (p *Pools) readable(l *peer.Link, r *mr.Region) bool {
	if r == nil || !r.Remote(l.Path) && r.Access()&mr.Send != 0 {
		return p.lendsPlain(l)
	}
	return r.Remote(l.Path) && r.Access()&mr.Send != 0
}

// reachable reports whether the device may use the peer's memory by a key.
func reachable(k Kind, key uint64) bool {
	return key&mr.EmulatedOnly == 0 && (k != KindRead || key&mr.EmulatedRead == 0)
}

// writable reports whether the device may put what it reads into the region.
func writable(r *mr.Region) bool { return r.Access()&device.LocalWrite != 0 }

// mayRDMARead reports whether RDMA reads are possible on the peer's path, and allowed.
func (p *Pools) mayRDMARead(l *peer.Link) bool { return p.info(l).RDMARead && !p.Policy.NoRDMARead }

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

// info is the device's that carries to the peer.
func (p *Pools) info(l *peer.Link) *device.Info { return &p.Infos[l.Path] }

// policy is the settings in force on the peer's path.
func (p *Pools) policy(l *peer.Link) *Policy { return &p.Paths[l.Path] }

// maxRDMA is the most bytes of one RDMA request on the peer's path.
func (p *Pools) maxRDMA(l *peer.Link) int { return max(1, p.Paths[l.Path].ReadSegment) }

// inUse are the regions that an operation has in use: as many as a request can name, and more
// if its own memory is in many pieces.
type inUse struct {
	regions [wire.MaxIOV]*mr.Region
	n       int
	beyond  []*mr.Region
}

// use keeps a region for the operation; false: it is being closed.
func (u *inUse) use(r *mr.Region) bool {
	if !r.Use() {
		return false
	}
	u.add(r)
	return true
}

func (u *inUse) add(r *mr.Region) {
	if u.n < len(u.regions) {
		u.regions[u.n] = r
	} else {
		u.beyond = append(u.beyond, r)
	}
	u.n++
}

// useOnce is use for a region that may be in use already.
func (u *inUse) useOnce(r *mr.Region) bool { return u.uses(r) || u.use(r) }

// holding is the region that all of b lies in; nil: none of those in use.
func (u *inUse) holding(b []byte) *mr.Region {
	for _, r := range u.regions[:min(u.n, len(u.regions))] {
		if Holds(r.Bytes(), b) {
			return r
		}
	}
	for _, r := range u.beyond {
		if Holds(r.Bytes(), b) {
			return r
		}
	}
	return nil
}

func (u *inUse) uses(r *mr.Region) bool {
	for _, x := range u.regions[:min(u.n, len(u.regions))] {
		if x == r {
			return true
		}
	}
	return slices.Contains(u.beyond, r)
}

// share keeps a region that is being closed, since the operation's memory lies in it.
func (u *inUse) share(r *mr.Region) {
	r.Share()
	u.add(r)
}

// release ends the use of the regions.
func (u *inUse) release() {
	if u.n == 0 {
		return
	}
	for _, r := range u.regions[:min(u.n, len(u.regions))] {
		r.Done()
	}
	for _, r := range u.beyond {
		r.Done()
	}
	clear(u.beyond)
	*u = inUse{beyond: u.beyond[:0]}
}

// useSource sees that the device, or that of the peer, may read the buffer.
func (t *Txe) useSource(p Proto) bool {
	if t.q.Flags&HasIOV != 0 {
		return t.useIOVs(p.readBased())
	}
	r := t.pools.Regions.Find(t.q.Buf)
	switch {
	case r != nil:
		if !t.ext().used.use(r) {
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
		t.ext().used.add(r)
	default:
		if r = t.pools.Plain.Hold(t.q.Buf, 0); r == nil {
			return false
		}
		t.ext().used.add(r)
	}
	return !p.readBased() || t.lend(r)
}

// lend gives the peer leave to read the message, and nothing else of the region. On a
// device without windows it gets the region's own key.
func (t *Txe) lend(r *mr.Region) bool {
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
func (t *Txe) lendBytes(r *mr.Region, b []byte) (key uint64, lent, ok bool) {
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

// lendPlain gives the peer leave to read the message where it lies in memory that others do not
// reach by RDMA.
func (t *Txe) lendPlain() bool {
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
func (t *Txe) source() *mr.Region {
	if t.x == nil || t.x.used.n == 0 {
		return nil
	}
	return t.x.used.regions[0]
}

// lentIOVs are the pieces of a message that the peer reads.
type lentIOVs struct {
	iov  [wire.MaxIOV]wire.RMAIOV
	lent [wire.MaxIOV]bool // the key is that of a window, to be returned
	n    uint32
}

// useIOVs is useSource for a request with several pieces.
func (t *Txe) useIOVs(read bool) bool {
	x, p := t.ext(), t.pools
	for i, b := range t.q.More.Local {
		r := p.Regions.Find(b)
		switch {
		case r != nil:
			if !x.used.useOnce(r) {
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
			x.used.add(r)
		case x.used.holding(b) == nil:
			if r = p.Plain.Hold(b, 0); r == nil {
				return false
			}
			x.used.add(r)
		}
		if read && !t.lendIOV(i, r, b) {
			return false
		}
	}
	return true
}

// lendIOV gives the peer leave to read piece i, see lend.
func (t *Txe) lendIOV(i int, r *mr.Region, b []byte) bool {
	key, lent, ok := t.lendBytes(r, b)
	if !ok {
		return false
	}
	x := t.x
	if x.iovs == nil {
		x.iovs = new(lentIOVs)
	}
	path := t.link.Path
	x.path = path
	x.iovs.iov[i] = wire.RMAIOV{Addr: r.Addr(path) + offsetIn(r.Bytes(), b), Len: uint64(len(b)), Key: key}
	x.iovs.lent[i] = lent
	x.iovs.n = uint32(i + 1)
	return true
}

// giveBack ends the leave to read the pieces.
func (l *lentIOVs) giveBack(q *device.Queue, path uint8) {
	for i := range l.iov[:l.n] {
		if l.lent[i] {
			q.Return(path, l.iov[i].Key)
		}
	}
	*l = lentIOVs{}
}

// gathering is where the payloads of an operation's packets come from, if not from a buffer
// by a copy.
type gathering uint8

const (
	gathersMemory gathering = 1 << iota // the device takes them from their place
	gathersIOVs                         // the request has lists
)

// gather has the device take the payloads of an operation's packets from its buffer, if that
// is registered or worth it.
func (t *Txe) gather() {
	p, n := t.pools, t.q.Len()
	if d := &protos[t.m.Proto]; n <= p.Paths[t.link.Path].MaxCopy || t.q.Flags&Borrowed != 0 || d.rdma || d.rta ||
		t.m.Proto == LongRead || t.m.Proto == LongReadWrite {
		return
	}
	if t.q.Flags&HasIOV != 0 {
		if !t.gatherIOVs() {
			return
		}
	} else if t.source() == nil {
		r := p.Regions.Find(t.q.Buf)
		switch {
		case r != nil:
			if !t.ext().used.use(r) {
				return
			}
		case !p.registers(t.link, n):
			return
		default:
			if r = p.Plain.Hold(t.q.Buf, 0); r == nil {
				return
			}
			t.ext().used.add(r)
		}
	}
	t.marks.gathers |= gathersMemory
}

// gatherIOVs has the device take what it can from the pieces, see gather.
func (t *Txe) gatherIOVs() bool {
	p, found := t.pools, false
	for _, b := range t.q.More.Local {
		if len(b) <= p.Paths[t.link.Path].MaxCopy || t.x != nil && t.x.used.holding(b) != nil {
			continue
		}
		r := p.Regions.Find(b)
		if r != nil && !t.ext().used.useOnce(r) {
			continue
		}
		if r == nil && p.registers(t.link, len(b)) {
			if r = p.Plain.Hold(b, 0); r != nil {
				t.ext().used.add(r)
			}
		}
		found = found || r != nil
	}
	return found || t.x != nil && t.x.used.n > 0
}

// gatherFrom has the device take a packet's payload from the region that it lies in.
func (t *Txe) gatherFrom(p *device.Pke) {
	if p.Kind() != device.WRSend {
		return
	}
	if t.m.Proto == Eager && t.q.Flags&HasIOV != 0 {
		t.q.pack(p, 0, t.m.Total)
	}
	if t.x == nil || t.marks.gathers&gathersMemory == 0 {
		return
	}
	if r := t.x.used.holding(p.Local()); r != nil {
		p.From(r.LKey(t.link.Path))
	}
}

// copied has the device take the bytes of the packets that it was given, and reports whether it keeps no
// reference to the buffer then.
func (t *Txe) copied() bool {
	q := t.pools.env.Q
	if !t.pools.Info.CopiesAtPost || t.marks.gathers&gathersMemory != 0 || q.Broken() {
		return false
	}
	q.Ring()
	return true
}

// useTarget sees that the device may put n bytes into the request's memory.
func (d *rxExt) useTarget(q *Request, n uint64) bool {
	if q.Flags&HasIOV != 0 {
		return d.useTargetIOVs(q, n)
	}
	return d.useTargetBuf(q.Buf[:n])
}

// useTargetBuf sees that the device may put what it reads to b. False: it may not.
func (d *rxExt) useTargetBuf(b []byte) bool {
	r := d.r
	p, l, x := r.pools, r.link, r.ext()
	m := p.Regions.Find(b)
	switch {
	case m != nil && (writable(m) || !p.keyed(l)) && x.used.use(m):
	case !p.keyed(l):
		return true
	case m != nil || !p.registers(l, len(b)):
		return false
	default:
		if m = p.Plain.Hold(b, device.LocalWrite); m == nil {
			return false
		}
		x.used.add(m)
	}
	d.lkey = m.LKey(l.Path)
	return true
}

// useTargetIOVs is useTarget for the first n bytes of a request with several pieces.
func (d *rxExt) useTargetIOVs(q *Request, n uint64) bool {
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
		case m != nil && (writable(m) || !p.keyed(l)) && x.used.useOnce(m):
		case !p.keyed(l):
		case m != nil || !p.registers(l, len(b)):
			return false
		case x.used.holding(b) == nil:
			if m = p.Plain.Hold(b, device.LocalWrite); m == nil {
				return false
			}
			x.used.add(m)
		}
	}
	return true
}

// targetIOV is where at most most bytes at off of a request with several pieces are read to.
func (d *rxExt) targetIOV(q *Request, off, most uint64) ([]byte, uint32) {
	b := q.from(off)
	b = b[:min(most, uint64(len(b)))]
	if r := d.r.x.used.holding(b); r != nil {
		return b, r.LKey(d.r.link.Path)
	}
	return b, 0
}

// bounce is registered memory to read into where the application's is not
// registered and the peer does not know READ_NACK.
type bounce struct {
	mr   device.MR
	free [][]byte
	line []*Rxe // operations that wait for a piece
	err  error
}

const (
	bouncePieces = 16
	bounceSize   = 64 << 10
)

// bounceMemory makes the memory if it is not there yet.
func (p *Pools) bounceMemory() *bounce {
	b := &p.bounce
	if b.mr == nil && b.err == nil {
		if b.mr, b.err = p.Device.Alloc(bouncePieces*bounceSize, device.LocalWrite); b.err == nil {
			mem := b.mr.Bytes()
			for i := range bouncePieces {
				b.free = append(b.free, mem[i*bounceSize:][:bounceSize:bounceSize])
			}
		}
	}
	return b
}

// get takes a piece, nil if there is none.
func (b *bounce) get() []byte {
	n := len(b.free)
	if n == 0 {
		return nil
	}
	p := b.free[n-1]
	b.free = b.free[:n-1]
	return p
}

// put gives a piece back.
func (b *bounce) put(p []byte) { b.free = append(b.free, p[:bounceSize]) }

// next takes the operation that has waited longest out of the line.
func (b *bounce) next() *Rxe {
	if len(b.line) == 0 {
		return nil
	}
	r := b.line[0]
	b.line = append(b.line[:0], b.line[1:]...)
	return r
}

// Reserve takes the memory that reads go by way of where neither the application's
// is registered nor the sender knows READ_NACK. Without it such messages could not
// be received, so an endpoint that cannot have it must not say that it reads.
func (p *Pools) Reserve() error { return p.bounceMemory().err }

// CloseMemory gives back what the operations had registered for themselves, after
// the queue pair is closed.
func (p *Pools) CloseMemory() {
	if b := &p.bounce; b.mr != nil {
		_ = b.mr.Close() // nothing to be done about it
		b.mr, b.free = nil, nil
	}
}

// Overlap reports whether two pieces of memory have a byte in common.
func Overlap(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	x, y := base(a), base(b)
	return x < y+uintptr(len(b)) && y < x+uintptr(len(a))
}

// Holds reports whether part, which is not empty, lies in whole.
func Holds(whole, part []byte) bool {
	off := base(part) - base(whole)
	return len(part) > 0 && base(part) >= base(whole) && off < uintptr(len(whole)) && uintptr(len(part)) <= uintptr(len(whole))-off
}

// offsetIn is where part, a slice of whole, begins in it.
func offsetIn(whole, part []byte) uint64 { return uint64(base(part) - base(whole)) }

func base(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
