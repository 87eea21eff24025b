package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// rxExt holds the state that only few rxes need. It gets data by asking for it: a read of ours,
// and RDMA reads of the peer's memory, with READ_NACK or PEER_ERROR when one fails (§3.3, §4.1,
// §4.7). A write of the peer's has the registered memory here that it goes to.
type rxExt struct {
	r *Rxe

	src  [wire.MaxIOV]wire.RMAIOV // the peer's memory, in the order of the message
	nsrc int
	lkey uint32 // of the request's buffer

	stripe uint64 // bytes that each of several paths reads at a time; 0: there is one path

	inLine   bool          // for a piece of bounce memory
	bouncing bool          // reads go by way of registered memory of ours
	refusing bool          // READ_NACK once the packets are in
	nacked   bool          // READ_NACK was sent, the replacement is to come
	broken   device.Status // of a read that failed
	failure  error         // broken as an error

	ticket peer.Turn // of our own read

	used    inUse
	dst     [wire.MaxIOV][]byte // where a peer's write goes; of other operations unused
	lkeys   [wire.MaxIOV]uint32 // of dst
	ndst    int
	charged int // bytes accounted to the peer

	next *rxExt
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
		r.x.ticket.Init(r.ref)
	}
	return r.x
}

// ask arms the rxe for a read and sets what it asks of the peer's line.
func (r *Rxe) ask(entry *Entry, l *peer.Link) {
	r.arm(l)
	r.entry = entry
	r.m.Begin(RxAsk, ProtoNone, uint64(entry.Req.Len()), 0)
	r.stored, r.first = 0, wire.Eager{}
	entry.Follow(r.pools.env.Trail, l)
	r.span = entry.Span
	r.keep()
	r.member.BoundInLine(l)
	t := &r.ext().ticket
	t.Span = r.span
	t.Ask(true, r.pools.waits.rma)
	r.member.Of(t)
	if entry.Req.Flags&(Fence|Ordered|Follows) != 0 {
		awaitEarlier(t, &entry.Req)
	}
}

// submit asks the peer for the read's turn and handles it if it comes at once, see
// Pools.Send.
func (d *rxExt) submit() {
	sh := d.r.pools.env.Sh
	if !sh.Enter(d.r.ref) {
		d.r.link.SubmitLater(&d.ticket)
		return
	}
	defer sh.Leave(d.r.ref)
	if pke := d.r.link.Submit(&d.ticket); pke != nil {
		d.onGrant(pke)
	}
}

// onGrant: it is this read's turn. Choose the subprotocol and ask for the data
// (§3.3), or read it (§4.1).
func (d *rxExt) onGrant(p *device.Pke) {
	r := d.r
	d.ticket.Taken()
	q := r.pools.env.Q
	if r.m.State != RxAsk {
		q.Free(p)
		r.settle()
		return
	}
	req := &r.entry.Req
	rawAddr, connID := r.link.HasRawAddr, r.link.HasConnID
	f := d.facts()
	s, err := d.shape(&f)
	if err == nil && s.Proto == DirectRead && !d.useTarget(req, s.Total) {
		f.Local = false
		s, err = d.shape(&f)
	}
	if err != nil {
		q.Free(p)
		r.fail(err)
		return
	}
	if !r.step(RxAsked) {
		q.Free(p)
		return
	}
	r.pools.Mix.Chosen[s.Proto]++
	ids := uint64(0)
	if s.Proto != DirectRead {
		ids = requestConnids(r.link)
	}
	r.note(trail.Chosen, uint8(s.Proto), ids, r.id)
	r.member.Bound(r.link)
	if s.Proto == DirectRead {
		d.readDirect(p, s.Total)
		return
	}
	r.m.Begin(RxMatched, s.Proto, s.Total, s.Total)
	r.m.Granted(s.Window)
	h := wire.RTR{
		MsgLength: s.Total, RecvID: r.id, RecvLength: uint32(s.Window), LongCTS: s.Proto == LongCTSRead,
	}
	h.RMAIOV, h.RMAIOVCount = req.rmaIOV(s.Total)
	r.link.Options(&h.Options, rawAddr, connID)
	p.Fill(h.Append(p.Header()), nil)
	r.link.Address(p, r.ref)
	p.Span = r.span
	if err := q.Post(p); err != nil {
		q.Free(p)
		r.link.Unposted(&d.ticket)
		r.fail(fmt.Errorf("%s: %w", s.Proto, err))
		return
	}
	r.note(trail.Sent, p.Type(), 0, 1)
	r.note(trail.Window, 0, s.Window, 0)
	r.flying++
	r.pools.env.Counters.PacketsSent[p.Type()]++
}

// facts are those of the request.
func (d *rxExt) facts() Facts {
	r := d.r
	q := &r.entry.Req
	f := Facts{
		MTU: r.pools.env.MTU, RawAddr: r.link.HasRawAddr, ConnID: r.link.HasConnID,
		Kind: KindRead, Total: q.Len(),
	}
	r.pools.facts(&f, r.link, q)
	if q.Flags&(Fence|Ordered|Follows) != 0 && unconfirmedRMA(r.pools.env) {
		f.CanRead = false // see adjustOrdered
	}
	return f
}

// shape chooses by the facts. A read that takes several operations becomes the first of them.
func (d *rxExt) shape(f *Facts) (Shape, error) {
	r := d.r
	q := &r.entry.Req
	if last, ok := f.splits(q); ok {
		q.split(r.pools, r.link, last)
		r.m.Begin(RxAsk, ProtoNone, uint64(q.Len()), 0)
		local := f.Local
		*f = d.facts()
		f.Local = f.Local && local
	}
	return f.Choose(r.pools.policy(r.link))
}

// readDirect has the device read the peer's memory. p is an entry for the first
// request.
func (d *rxExt) readDirect(p *device.Pke, total uint64) {
	r := d.r
	req := &r.entry.Req
	r.m.Begin(RxMatched, DirectRead, total, 0)
	d.src[0], d.nsrc = wire.RMAIOV{Addr: req.Addr, Len: total, Key: req.Key}, 1
	d.stripe = uint64(req.stripeSize(r.pools))
	r.m.StartReading(total)
	if total > 0 {
		r.pools.env.Q.Free(p)
		r.resume()
		return
	}
	p.FillRDMA(device.WRRead, nil, d.lkey, req.Addr, mr.DeviceKey(req.Key))
	p.Off, p.Span = 0, r.span
	r.link.Address(p, r.ref)
	if err := r.pools.env.Q.Post(p); err != nil {
		r.pools.env.Q.Free(p)
		r.fail(fmt.Errorf("%s: %w", DirectRead, err))
		return
	}
	r.note(trail.Segment, uint8(device.WRRead), 0, 0)
	r.m.Reads(0)
}

// onREADRSP: the responder's first data, and its id for CTS (§3.3). The offset is
// 0 always.
func (d *rxExt) onREADRSP(p *peer.Packet) {
	r := d.r
	if !r.asks() || r.rsp {
		r.dropBadID(p)
		return
	}
	id := p.SendID
	if !r.storePacket(p) {
		return
	}
	r.rsp, r.first.SendID = true, id
	r.note(trail.Answer, uint8(wire.TypeREADRSP), 0, 1)
	r.gotData()
}

// startReading begins to read the peer's memory (§4.1), or sees that it cannot be
// done: then the sender gets READ_NACK (§4.7), or, if it does not know
// that, the data goes by way of memory that can be read into.
func (d *rxExt) startReading() {
	r := d.r
	room := r.m.Total
	if r.entry != nil {
		room = uint64(r.entry.Req.Len())
	}
	if r.drops() {
		room = 0
	}
	r.m.StartReading(room)
	if r.m.readAt == r.m.readEnd || r.link.Err != nil {
		return
	}
	switch {
	case !r.pools.mayRDMARead(r.link):
		d.refuse(fmt.Errorf("%w: RDMA read", errno.ErrNotSupported))
	case r.entry == nil || !r.pools.keyed(r.link):
		// Registered, or need not be.
	case d.useTarget(&r.entry.Req, min(room, r.m.Total)):
	case r.canRefuse():
		d.refuse(nil)
	default:
		d.bouncing = true
	}
}

// pumpReads posts RDMA reads while there is room.
func (d *rxExt) pumpReads() {
	r := d.r
	env := r.pools.env
	for n := 0; ; n++ {
		off, most, ok := r.m.NextRead(d.longest())
		if !ok {
			return
		}
		if n == burst {
			if !r.resumeQueued {
				r.resumeQueued = true
				env.Sh.Tell(r.ref, &r.resumeMsg)
			}
			return
		}
		p := env.Q.Alloc()
		if p == nil {
			r.await()
			return
		}
		if !d.postRead(p, off, most) {
			env.Q.Free(p)
			return
		}
	}
}

func (r *Rxe) await() {
	if !r.slotWaits {
		r.note(trail.Waits, uint8(trail.ForRoom), 0, 0)
	}
	r.slotWaits = true
	r.pools.env.Q.AwaitSlot(&r.slot)
}

// postRead posts a read of at most most bytes at off. False: none is possible now.
func (d *rxExt) postRead(p *device.Pke, off, most uint64) bool {
	r := d.r
	env := r.pools.env
	src, at := d.source(off)
	most = min(most, src.Len-at)
	local, lkey := d.local(off, most)
	if local == nil {
		return false
	}
	p.FillRDMA(device.WRRead, local, lkey, src.Addr+at, mr.DeviceKey(src.Key))
	p.Off, p.Span = off, r.span
	r.link.Address(p, r.ref)
	if d.stripe > 0 {
		r.entry.Req.spread(r.pools, p, r.link, off, d.region())
	}
	if err := env.Q.Post(p); err != nil {
		if d.bouncing {
			d.unbounce(local)
		}
		d.endReading(fmt.Errorf("%s: %w", r.m.Proto, err), device.StatusQPInternal)
		return false
	}
	r.noteReceived()
	r.note(trail.Segment, uint8(device.WRRead), off, uint32(len(local)))
	r.m.Reads(uint64(len(local)))
	return true
}

// longest is the most bytes of one request.
func (d *rxExt) longest() uint64 {
	if d.stripe > 0 {
		return d.stripe
	}
	return uint64(d.r.pools.maxRDMA(d.r.link))
}

// region is that of the request's buffer, if it lies in one.
func (d *rxExt) region() *mr.Region {
	if d.r.x == nil || d.r.x.used.n == 0 {
		return nil
	}
	return d.r.x.used.regions[0]
}

// source finds the piece of the peer's memory that holds byte off of the message.
// The pieces are as long as the message.
func (d *rxExt) source(off uint64) (src wire.RMAIOV, at uint64) {
	if r := d.r; r.m.Proto == DirectRead && r.entry.Req.hasIOVs() {
		return r.entry.Req.at(off, r.m.Total), 0
	}
	for _, s := range d.src[:d.nsrc] {
		if off < s.Len {
			return s, off
		}
		off -= s.Len
	}
	return wire.RMAIOV{}, 0 // not reached
}

// local is where at most most bytes at off are to be read to; nil: wait.
func (d *rxExt) local(off, most uint64) ([]byte, uint32) {
	r := d.r
	if d.bouncing {
		b := r.pools.bounceMemory()
		if b.err != nil {
			d.endReading(fmt.Errorf("%w: %w", errno.ErrNoMR, b.err), device.StatusQPInternal)
			return nil, 0
		}
		p := b.get()
		if p == nil {
			if !d.inLine {
				d.inLine = true
				b.line = append(b.line, r)
				r.underWay++ // until it is this operation's turn
				r.note(trail.Waits, uint8(trail.ForMemory), 0, 0)
			}
			return nil, 0
		}
		return p[:min(most, bounceSize)], device.Part(b.mr, r.link.Path).LKey()
	}
	if r.entry != nil {
		if q := &r.entry.Req; q.Flags&HasIOV != 0 {
			return d.targetIOV(q, off, most)
		}
		return r.entry.Req.Buf[off : off+most], d.lkey
	}
	x := r.x
	for i, mem := range x.dst[:x.ndst] {
		size := uint64(len(mem))
		if off < size {
			return mem[off:min(off+most, size)], x.lkeys[i]
		}
		off -= size
	}
	return nil, 0 // not reached
}

// onRead: a read has ended well.
func (d *rxExt) onRead(p *device.Pke) {
	r := d.r
	data := p.Local()
	r.link.Reached()
	r.progressed()
	if d.bouncing {
		if !r.drops() {
			r.pools.env.Counters.Copied += uint64(len(data))
			r.store(p.Off, data)
		}
		d.unbounce(data)
	}
	r.note(trail.SegmentDone, uint8(device.WRRead), p.Off, uint32(len(data)))
	r.m.ReadDone(uint64(len(data)))
	if d.broken != 0 {
		d.onBroken()
	}
}

func (d *rxExt) unbounce(p []byte) {
	r := d.r
	b := &r.pools.bounce
	b.put(p)
	for next := b.next(); next != nil; next = b.next() {
		next.underWay--
		next.x.inLine = false
		next.note(trail.GoesOn, uint8(trail.ForMemory), 0, 0)
		if next.m.State.over() { // it failed while it waited
			next.settle()
			continue
		}
		if !next.resumeQueued {
			next.resumeQueued = true
			r.pools.env.Sh.Tell(next.ref, &next.resumeMsg)
		}
		return
	}
}

// expects reports whether an operation that has all its bytes is still to hear from its peer: the
// replacement of a message that it cannot read, or the answer to a read of nothing.
func (d *rxExt) expects() bool {
	return d.nacked || d.refusing || d.r.asks() && !d.r.rsp
}

// reads reports whether some of the operation's data was to be read: a runt that is the whole
// message is all that comes (§4.5).
func (d *rxExt) reads() bool {
	m := &d.r.m
	return m.Proto.readBased() && (m.Proto != RuntRead || m.packets < m.Total)
}

// canRefuse reports whether the sender understands READ_NACK: for writes releases
// before 2.0 do not, although they say that they do for messages, and those after
// cannot be told from them but by PEER_ERROR.
func (r *Rxe) canRefuse() bool {
	if r.target && !r.link.Can(wire.FeaturePeerError) {
		return false
	}
	return (r.link.Can(wire.FeatureReadNACK) || r.pools.unasked(r.link)) && !r.asks() && r.m.Proto != DirectRead
}

// refuse asks the sender for the rest in packets, once those that are under way
// are in; if it does not know how, the operation ends with err.
func (d *rxExt) refuse(err error) {
	r := d.r
	if !r.canRefuse() {
		d.endReading(err, device.StatusUnsupportedOp)
		return
	}
	d.refusing = true
	r.m.StopReading()
	d.checkRefused()
}

// checkRefused posts READ_NACK when all that comes without reading is in (§4.7).
func (d *rxExt) checkRefused() {
	r := d.r
	if !d.refusing || !r.m.PacketsIn() || r.m.reading > 0 || r.m.State != RxMatched {
		return
	}
	d.refusing, d.nacked = false, true
	if !r.must(r.m.Refuse()) {
		return
	}
	r.pending |= pendingNACK
	if r.entry != nil {
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Nacked{MsgID: r.first.MsgID, Rx: r.ref})
	}
}

// nackSent: a refused message waits for its replacement, a refused write is over:
// the requester begins again.
func (d *rxExt) nackSent() {
	r := d.r
	r.pools.env.Counters.NACKsSent++
	if r.entry == nil {
		r.first.HasData = false
		r.step(RxLast)
	}
}

// onReplaced: the sender begins again with long-CTS.
func (d *rxExt) onReplaced(p *peer.Packet) {
	r := d.r
	if !d.nacked || r.m.State != RxMatched || r.entry == nil {
		r.dropBadID(p)
		return
	}
	if p.Length != r.m.Total || len(p.Payload) > 0 {
		r.pools.env.Counters.BadLength++
		err := fmt.Errorf("%w: %w: a replacement of %d bytes", errno.ErrIO, ErrViolation, p.Length)
		p.Free()
		r.fail(err) // there will be no other one
		return
	}
	d.nacked = false
	r.first.SendID = p.SendID
	r.m.Replace(protoOf[p.Type])
	r.pools.Mix.Served[r.m.Proto]++
	r.note(trail.Chosen, uint8(r.m.Proto), responderConnids(r.link), r.first.MsgID)
	p.Free()
	r.resume()
}

// onLost: a packet of the operation's own will never arrive, or a read failed.
func (r *Rxe) onLost(m *peer.SendFailed) {
	read, data, t := m.Pke.Kind() == device.WRRead, m.Pke.Local(), wire.Type(m.Pke.Type())
	r.pools.env.Q.Free(m.Pke)
	if !r.busy {
		return
	}
	if !read {
		r.flying--
		r.lostPacket(t, m.Err)
		return
	}
	if r.x.bouncing {
		r.x.unbounce(data)
	}
	if !r.must(r.m.ReadFailed()) {
		return
	}
	if r.x.broken == 0 {
		r.x.broken, r.x.failure = m.Status, m.Err
	}
	r.x.onBroken()
}

// onBroken: reading has failed. Once no read is under way the sender gets PEER_ERROR,
// or is asked for the data in packets.
func (d *rxExt) onBroken() {
	r := d.r
	if r.m.reading > 0 || r.m.State != RxMatched {
		r.settle()
		return
	}
	if r.m.Proto != DirectRead && !r.link.Known() && r.link.Err == nil && !r.drops() {
		if !r.blocked.Queued() {
			r.note(trail.Waits, uint8(trail.ForHandshake), 0, 0)
		}
		r.blocked.Await(r.link, r.ref, false) // HANDSHAKE says what the sender understands
		return
	}
	failed, status := d.failure, d.broken
	d.broken, d.failure = 0, nil
	switch {
	case r.link.Err != nil:
		r.fail(r.link.Err)
	case r.drops():
		r.m.ForgoAll()
		r.gotData()
	case r.m.Proto != DirectRead && r.canRefuse() &&
		!(status == device.StatusBadAddress && r.link.TakesAbort(r.target)):
		d.refuse(failed)
		r.resume()
	default:
		d.endReading(failed, status)
	}
}

// endReading ends an operation that cannot be read to its end. Its sender waits for
// EOR: it gets PEER_ERROR, or is failed if it does not know that.
func (d *rxExt) endReading(err error, s device.Status) {
	r := d.r
	if r.m.State.over() {
		return
	}
	if r.m.Proto != DirectRead && r.link.Err == nil {
		if r.link.TakesAbort(r.target) {
			r.sendError(errno.Provider(s))
		} else {
			r.pools.env.Sh.Tell(r.link.Peer, &peer.Remove{
				Err: fmt.Errorf("%w: it cannot be told that its memory was not read: %w", peer.ErrPeerFailed, err), Tell: true,
			})
		}
	}
	r.m.StopReading()
	r.end(err)
}
