package tcp

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
)

// onFrame handles a frame; b begins after its header.
func (p *port) onFrame(l *lane, f *frame, b []byte) error {
	switch f.kind {
	case kindSend:
		p.onSend(l, f, b[:f.length])
	case kindRead:
		p.onRead(l, f)
	case kindWrite:
		p.onWrite(l, f)
	case kindData:
		return p.onData(l, f)
	case kindStatus:
		return p.onStatus(l, f)
	case kindPing:
		p.answer(l, &frame{kind: kindPong, token: f.token})
	case kindPong: // it only counts as heard
	case kindBye:
		p.onBye(l)
		return nil
	}
	if len(l.out.buf)-l.out.head > p.outBytes || len(l.out.segs)-l.out.first > p.outSegs {
		return fmt.Errorf("%w: more requests than a queue pair may have outstanding", errFrame)
	}
	return nil
}

// answer appends a frame to the output. It is written with the next Poll, Doorbell
// or Arm, perhaps together with a packet in the same direction.
func (p *port) answer(l *lane, f *frame) {
	l.out.frame(f)
	p.soil(l)
}

// status ends the request f of the other side.
func (p *port) status(l *lane, f *frame, st device.Status) {
	p.answer(l, &frame{kind: kindStatus, token: f.token, status: st})
}

func (p *port) onSend(l *lane, f *frame, b []byte) {
	l.s.used = true
	if f.qkey != p.qkey {
		p.status(l, f, device.StatusBadDestQPN)
		return
	}
	slot, ok := p.inbox.take()
	if !ok {
		p.status(l, f, device.StatusRNR)
		return
	}
	copy(p.inbox.slot(slot, len(b)), b)
	c := p.inbox.arrival(device.OpRecv, &l.s.r.at)
	c.ID, c.Len, c.HasImm, c.Imm = uint64(slot), len(b), f.imm, f.data
	p.status(l, f, device.StatusOK)
}

// admit checks a request for n bytes of a region.
func (p *port) admit(l *lane, f *frame, a device.Access) device.Status {
	l.s.used = true
	if f.qkey != p.qkey {
		return device.StatusBadDestQPN
	}
	r, _ := p.dev.regions.Hold(f.rkey, f.addr, f.length, a)
	if r == nil {
		p.inbox.refused(&l.s.r.at, f.rkey)
		return device.StatusBadAddress
	}
	r.Release()
	return device.StatusOK
}

func (p *port) onRead(l *lane, f *frame) {
	st := p.admit(l, f, device.RemoteRead)
	if st != device.StatusOK || f.length == 0 {
		p.status(l, f, st)
		return
	}
	l.out.region(f.rkey, f.addr, f.length, f.token)
	p.soil(l)
}

// onWrite decides, before the bytes arrive, what to do with them.
func (p *port) onWrite(l *lane, f *frame) {
	st := p.admit(l, f, device.RemoteWrite)
	slot := int32(-1)
	if st == device.StatusOK && f.imm {
		var ok bool
		if slot, ok = p.inbox.take(); !ok {
			slot, st = -1, device.StatusRNR
		}
	}
	l.sink = sink{left: f.length, kind: kindWrite, frame: *f, slot: slot, ok: st == device.StatusOK}
	l.sink.frame.status = st
	if f.length == 0 {
		p.onSunk(l)
	}
}

// onSunk: all bytes of a write, or of the answer to a read, have arrived.
func (p *port) onSunk(l *lane) {
	k := &l.sink
	if k.kind != kindWrite {
		return
	}
	slot := k.slot
	k.slot = -1
	st := k.frame.status
	if st == device.StatusOK && !k.ok {
		st = device.StatusBadAddress
		p.inbox.refused(&l.s.r.at, k.frame.rkey)
	}
	switch {
	case slot >= 0 && st == device.StatusOK:
		c := p.inbox.arrival(device.OpWritten, &l.s.r.at)
		c.ID, c.Len, c.HasImm, c.Imm = uint64(slot), k.frame.length, true, k.frame.data
	case slot >= 0:
		p.inbox.giveBack(slot)
	}
	p.status(l, &k.frame, st)
}

// onData: the answer to a read of ours begins.
func (p *port) onData(l *lane, f *frame) error {
	r := p.request(f.token)
	if r == nil || r.lane != l || r.data || f.length == 0 || f.length != len(r.dst) {
		return fmt.Errorf("%w: %d bytes that were not requested", errFrame, f.length)
	}
	r.data = true
	l.sink = sink{left: f.length, kind: kindData, dst: r.dst, slot: -1}
	return nil
}

// onStatus: a request of ours has ended.
func (p *port) onStatus(l *lane, f *frame) error {
	r := p.request(f.token)
	if r == nil || r.lane != l {
		return fmt.Errorf("%w: status of a request that is not under way", errFrame)
	}
	if f.status == device.StatusOK && r.dst != nil && !r.data {
		return fmt.Errorf("%w: a read ended well without data", errFrame)
	}
	if l.sent < r.end { // for a write, the caller's memory would be left to be written
		return fmt.Errorf("%w: a request ended before it was sent", errFrame)
	}
	p.finish(r, f.status)
	return nil
}
