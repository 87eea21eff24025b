package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/trail"
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

// pumpReads posts RDMA reads while there is room.
func (r *Rxe) pumpReads() {
	env := r.pools.env
	for n := 0; ; n++ {
		off, most, ok := r.m.NextRead(uint64(r.pools.maxRDMA(r.link)))
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
	if !r.slotWaits {
		r.note(trail.Waits, uint8(trail.ForRoom), 0, 0)
	}
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
	p.Off, p.Span = off, r.span
	r.link.Address(p, r.ref)
	if err := env.Q.Post(p); err != nil {
		if x.bouncing {
			r.unbounce(local)
		}
		r.endReading(fmt.Errorf("%s: %w", r.m.Proto, err), device.StatusQPInternal)
		return false
	}
	r.noteReceived()
	r.note(trail.Segment, uint8(device.WRRead), off, uint32(len(local)))
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
				r.note(trail.Waits, uint8(trail.ForMemory), 0, 0)
			}
			return nil, 0
		}
		return p[:min(most, bounceSize)], b.mr.LKey()
	}
	if r.ord != nil {
		return r.ord.Req.Buf[off : off+most], x.lkey
	}
	for i, d := range x.dst[:x.ndst] {
		size := uint64(len(d))
		if off < size {
			return d[off:min(off+most, size)], x.lkeys[i]
		}
		off -= size
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
	r.gotOn()
	if r.x.bouncing {
		r.place(p.Off, data)
		r.unbounce(data)
	}
	r.note(trail.SegmentDone, uint8(device.WRRead), p.Off, uint32(len(data)))
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
		next.note(trail.GoesOn, uint8(trail.ForMemory), 0, 0)
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
