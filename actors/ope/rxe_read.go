package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// startReading begins to read the peer's memory (§4.1), or sees that it cannot be
// done: then the sender is told with READ_NACK (§4.7), or, if it does not know
// that, the data goes by way of memory that can be read into.
func (r *Rxe) startReading() {
	room := r.m.Total
	if r.ord != nil {
		room = uint64(len(r.ord.Req.Buf))
	}
	if r.drop {
		room = 0
	}
	r.m.StartReading(room)
	if r.m.readAt == r.m.readEnd || r.link.Err != nil {
		return
	}
	x := r.ext()
	switch {
	case !r.pools.mayRDMARead():
		r.refuse(fmt.Errorf("%w: RDMA read", errno.ErrNotSupported))
	case r.ord == nil || !r.pools.Info.LocalKeys:
		// Registered, or need not be.
	default:
		if m := r.pools.Regions.Find(r.ord.Req.Buf); m != nil && writable(m) && x.use(m) {
			x.lkey = m.LKey()
		} else if r.canRefuse() {
			r.refuse(nil)
		} else {
			x.bouncing = true
		}
	}
}

// canRefuse tells whether the sender understands READ_NACK: for writes releases
// before 2.0 do not, although they say that they do for messages, and those after
// cannot be told from them but by PEER_ERROR.
func (r *Rxe) canRefuse() bool {
	if r.target && !r.link.Can(wire.FeaturePeerError) {
		return false
	}
	return r.link.Can(wire.FeatureReadNACK) && !r.asks() && r.m.Proto != DirectRead
}

// refuse asks the sender for the rest in packets, once those that are under way
// are in; if it does not know how, the operation ends with err.
func (r *Rxe) refuse(err error) {
	if !r.canRefuse() {
		r.endReading(err, device.StatusUnsupportedOp)
		return
	}
	r.x.refusing = true
	r.m.StopReading()
	r.checkRefused()
}

// checkRefused posts READ_NACK when all that comes without reading is in (§4.7).
func (r *Rxe) checkRefused() {
	x := r.x
	if x == nil || !x.refusing || !r.m.PacketsIn() || r.m.reading > 0 || r.m.State != RxMatched {
		return
	}
	x.refusing, x.nacked = false, true
	_ = r.m.Refuse() // from RXE_MATCHED
	r.owes |= owesNACK
	if r.ord != nil {
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Nacked{MsgID: r.msgID, Rx: r.ref})
	}
}

// onReplaced: the sender begins again with long-CTS.
func (r *Rxe) onReplaced(p *peer.Packet) {
	if r.x == nil || !r.x.nacked || r.m.State != RxMatched || r.ord == nil {
		r.strange(p)
		return
	}
	if p.Length != r.m.Total || len(p.Payload) > 0 {
		r.pools.env.Counters.BadLength++
		err := fmt.Errorf("%w: %w: a replacement of %d bytes", errno.ErrIO, ErrViolation, p.Length)
		p.Free()
		r.fail(err) // there will be no other one
		return
	}
	r.x.nacked = false
	r.sendID, r.dc = p.SendID, p.Type.IsDC()
	r.m.Replace(protoOf(p.Type))
	p.Free()
	r.goOn()
}

// pumpReads posts RDMA reads while there is room.
func (r *Rxe) pumpReads() {
	env := r.pools.env
	for n := 0; ; n++ {
		off, most, ok := r.m.NextRead(uint64(r.pools.maxRDMA()))
		if !ok {
			return
		}
		if n == burst {
			if !r.more {
				r.more = true
				env.Sh.Tell(r.ref, &r.again)
			}
			return
		}
		p := env.Q.Alloc()
		if p == nil {
			r.await()
			return
		}
		if !r.postRead(p, off, most) {
			env.Q.Free(p)
			return
		}
	}
}

func (r *Rxe) await() {
	r.slotWaits = true
	r.pools.env.Q.AwaitSlot(&r.slot)
}

// postRead posts a read of at most most bytes at off. False: none is possible now.
func (r *Rxe) postRead(p *device.Pke, off, most uint64) bool {
	x, env := r.x, r.pools.env
	src, at := x.source(off)
	most = min(most, src.Len-at)
	local, lkey := r.local(off, most)
	if local == nil {
		return false
	}
	p.FillRDMA(device.WRRead, local, lkey, src.Addr+at, uint32(src.Key))
	p.Off = off
	r.link.Address(p, r.ref)
	if err := env.Q.Post(p); err != nil {
		if x.bouncing {
			r.unbounce(local)
		}
		r.endReading(fmt.Errorf("%s: %w", r.m.Proto, err), device.StatusQPInternal)
		return false
	}
	r.m.Reads(uint64(len(local)))
	return true
}

// source finds the piece of the peer's memory that holds byte off of the message.
// The pieces are as long as the message.
func (x *rxExt) source(off uint64) (src wire.RMAIOV, at uint64) {
	for _, s := range x.src[:x.nsrc] {
		if off < s.Len {
			return s, off
		}
		off -= s.Len
	}
	return wire.RMAIOV{}, 0 // not reached
}

// local is where at most most bytes at off are to be read to; nil: wait.
func (r *Rxe) local(off, most uint64) ([]byte, uint32) {
	x := r.x
	if x.bouncing {
		b := r.pools.bounceMemory()
		if b.err != nil {
			r.endReading(fmt.Errorf("%w: %w", errno.ErrNoMR, b.err), device.StatusQPInternal)
			return nil, 0
		}
		p := b.get()
		if p == nil {
			if !x.inLine {
				x.inLine = true
				b.line = append(b.line, r)
				r.told++ // until it is this operation's turn
			}
			return nil, 0
		}
		return p[:min(most, bounceSize)], b.mr.LKey()
	}
	if r.ord != nil {
		return r.ord.Req.Buf[off : off+most], x.lkey
	}
	for i, d := range x.dst[:x.ndst] {
		if size := uint64(len(d)); off < size {
			return d[off:min(off+most, size)], x.lkeys[i]
		} else {
			off -= size
		}
	}
	return nil, 0 // not reached
}

// onRead: a read has ended well.
func (r *Rxe) onRead(p *device.Pke) {
	data := p.Local()
	if !r.busy {
		return // the queue pair was closed meanwhile
	}
	r.link.Heard()
	r.member.GotOn()
	if r.x.bouncing {
		r.place(p.Off, data)
		r.unbounce(data)
	}
	r.m.ReadDone(uint64(len(data)))
	if r.x.broken != 0 {
		r.onBroken()
	}
}

func (r *Rxe) unbounce(p []byte) {
	b := &r.pools.bounce
	b.put(p)
	for next := b.next(); next != nil; next = b.next() {
		next.told--
		next.x.inLine = false
		if next.m.State.over() { // it failed while it waited
			next.settle()
			continue
		}
		if !next.more {
			next.more = true
			r.pools.env.Sh.Tell(next.ref, &next.again)
		}
		return
	}
}

// endReading ends an operation that cannot be read to its end. Its sender waits for
// EOR: it is told, or failed if it does not know how.
func (r *Rxe) endReading(err error, s device.Status) {
	if r.m.State.over() {
		return
	}
	if r.m.Proto != DirectRead && r.link.Err == nil {
		if r.link.Can(wire.FeaturePeerError) {
			r.pools.SendError(r.link, wire.RefOpe, r.sendID, uint32(s))
		} else {
			r.pools.env.Sh.Tell(r.link.Peer, &peer.Remove{
				Err: fmt.Errorf("%w: it cannot be told that its memory was not read: %w", peer.ErrPeerFailed, err), Tell: true,
			})
		}
	}
	r.m.StopReading()
	r.end(err)
}

// onLost: a packet of the operation's own will never arrive, or a read failed.
func (r *Rxe) onLost(m *peer.SendFailed) {
	read, data := m.Pke.Kind() == device.WRRead, m.Pke.Local()
	r.pools.env.Q.Free(m.Pke)
	if !r.busy {
		return
	}
	if !read {
		r.flying--
		r.lostPacket(m.Err)
		return
	}
	if r.x.bouncing {
		r.unbounce(data)
	}
	r.m.reading--
	r.m.StopReading()
	if r.x.broken == 0 {
		r.x.broken, r.x.failure = m.Status, m.Err
	}
	r.onBroken()
}

// onBroken: reading has failed. Once no read is under way the sender is told, or
// asked for the data in packets.
func (r *Rxe) onBroken() {
	if r.m.reading > 0 || r.m.State != RxMatched {
		r.settle()
		return
	}
	failed, status := r.x.failure, r.x.broken
	r.x.broken, r.x.failure = 0, nil
	switch {
	case r.link.Err != nil:
		r.fail(r.link.Err)
	case r.drop: // nobody wants the rest
		r.m.ForgoAll()
		r.checkComplete()
		r.goOn()
	case r.m.Proto != DirectRead && r.canRefuse() &&
		!(status == device.StatusBadAddress && r.link.Can(wire.FeaturePeerError)):
		r.refuse(failed)
		r.goOn()
	default:
		r.endReading(failed, status)
	}
}
