package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// startReading begins to read the peer's memory (§4.1), or sees that it cannot be
// done: then the sender gets READ_NACK (§4.7), or, if it does not know
// that, the data goes by way of memory that can be read into.
func (d *reader) startReading() {
	r := d.r
	room := r.m.Total
	if r.ord != nil {
		room = uint64(r.ord.Req.Len())
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
	case r.ord == nil || !r.pools.keyed(r.link):
		// Registered, or need not be.
	case d.landAll(&r.ord.Req, min(room, r.m.Total)):
	case r.canRefuse():
		d.refuse(nil)
	default:
		d.bouncing = true
	}
}

// pumpReads posts RDMA reads while there is room.
func (d *reader) pumpReads() {
	r := d.r
	env := r.pools.env
	for n := 0; ; n++ {
		off, most, ok := r.m.NextRead(d.longest())
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
		if !d.postRead(p, off, most) {
			env.Q.Free(p)
			return
		}
	}
}

func (r *incoming) await() {
	if !r.slotWaits {
		r.note(trail.Waits, uint8(trail.ForRoom), 0, 0)
	}
	r.slotWaits = true
	r.pools.env.Q.AwaitSlot(&r.slot)
}

// postRead posts a read of at most most bytes at off. False: none is possible now.
func (d *reader) postRead(p *device.Pke, off, most uint64) bool {
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
	if d.piece > 0 {
		r.pools.spread(p, r.link, &r.ord.Req, off, d.region())
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
func (d *reader) longest() uint64 {
	if d.piece > 0 {
		return d.piece
	}
	return uint64(d.r.pools.maxRDMA(d.r.link))
}

// region is that of the request's buffer, if it lies in one.
func (d *reader) region() *mr.Region {
	if d.r.x == nil || d.r.x.n == 0 {
		return nil
	}
	return d.r.x.regions[0]
}

// source finds the piece of the peer's memory that holds byte off of the message.
// The pieces are as long as the message.
func (d *reader) source(off uint64) (src wire.RMAIOV, at uint64) {
	if r := d.r; r.m.Proto == DirectRead && r.ord.Req.listed() {
		return r.ord.Req.at(off, r.m.Total), 0
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
func (d *reader) local(off, most uint64) ([]byte, uint32) {
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
				r.told++ // until it is this operation's turn
				r.note(trail.Waits, uint8(trail.ForMemory), 0, 0)
			}
			return nil, 0
		}
		return p[:min(most, bounceSize)], device.Part(b.mr, r.link.Path).LKey()
	}
	if r.ord != nil {
		if q := &r.ord.Req; q.Flags&Pieced != 0 {
			return d.into(q, off, most)
		}
		return r.ord.Req.Buf[off : off+most], d.lkey
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
func (d *reader) onRead(p *device.Pke) {
	r := d.r
	data := p.Local()
	r.link.Reached()
	r.gotOn()
	if d.bouncing {
		if !r.drops() {
			r.pools.env.Counters.Copied += uint64(len(data))
			r.put(p.Off, data)
		}
		d.unbounce(data)
	}
	r.note(trail.SegmentDone, uint8(device.WRRead), p.Off, uint32(len(data)))
	r.m.ReadDone(uint64(len(data)))
	if d.broken != 0 {
		d.onBroken()
	}
}

func (d *reader) unbounce(p []byte) {
	r := d.r
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
