package tcp

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/nic"
)

// request is one of our requests in progress. Its index in the table is the low half
// of its token.
type request struct {
	token uint64
	lane  *lane  // nil: no request is in progress here
	dst   []byte // kindRead: where the answer goes, unless it is empty
	data  bool   // kindRead: the answer has begun
	end   uint64 // end of its bytes on the lane: no answer before lane.sent is as far
}

// requests are the table of them.
type requests struct {
	list  []request
	under int    // that are in progress
	inbox *inbox // for their completions
}

// find finds the one with a token.
func (q *requests) find(token uint64) *request {
	i := uint32(token)
	if uint(i) >= uint(len(q.list)) || q.list[i].lane == nil || q.list[i].token != token {
		return nil
	}
	return &q.list[i]
}

// begin notes a request that is the last in l.out.
func (q *requests) begin(l *lane, token uint64) *request {
	r := &q.list[uint32(token)]
	r.token, r.lane, r.end = token, l, l.sent+uint64(l.out.size)
	l.under++
	q.under++
	l.s.used = true
	return r
}

// finish ends a request.
func (q *requests) finish(r *request, st device.Status) {
	c := q.inbox.add(device.OpSend)
	c.ID, c.Status = r.token, st
	r.lane.under--
	q.under--
	*r = request{}
}

// move makes the requests on a lane those of another, of which the same bytes are to be sent.
func (q *requests) move(from, to *lane) {
	for i := range q.list {
		if from.under == 0 {
			return
		}
		if r := &q.list[i]; r.lane == from {
			r.lane = to
			from.under--
			to.under++
		}
	}
}

// fail ends all requests in progress on l.
func (q *requests) fail(l *lane, st device.Status) {
	for i := range q.list {
		if l.under == 0 {
			return
		}
		if r := &q.list[i]; r.lane == l {
			q.finish(r, st)
		}
	}
}

// minLent is from how many bytes on a reference costs less than a copy.
const minLent = 2 << 10

// Send implements nic.Carrier. The packet is copied, but for a payload that stays until Doorbell: that is
// written from its place if the connection has room.
func (p *port) Send(wr *device.SendWR, token uint64) device.Status {
	s, st := p.reach(wr)
	if s == nil {
		return st
	}
	l := s.lanes[0]
	f := frame{
		kind: kindSend, imm: wr.HasImm, length: len(wr.Header) + len(wr.Payload), token: token, qkey: wr.QKey,
	}
	switch {
	case wr.HasImm:
		f.data = wr.Imm
	case wr.Begins:
		f.begins, f.data = true, wr.MsgID
	}
	l.out.frame(&f)
	l.out.bytes(wr.Header)
	if wr.Stays && len(wr.Payload) >= minLent && l.state == laneUp && l.writable {
		l.out.lend(wr.Payload)
	} else {
		l.out.bytes(wr.Payload)
	}
	p.reqs.begin(l, token)
	p.skip, p.idle = 0, 0
	p.ready.queueWrite(l)
	if l.out.size >= earlyWrite {
		l.write()
	}
	return nic.Pending
}

// earlyWrite is from how many pending bytes on a lane does not wait for the
// doorbell.
const earlyWrite = 64 << 10

// smallRDMA is the size up to which RDMA uses the lane of the packets.
const smallRDMA = 4 << 10

// RDMA implements nic.Carrier. The bytes are not copied.
func (p *port) RDMA(wr *device.SendWR, token uint64) device.Status {
	if wr.Whole != 0 { // takes Info.Foreign
		return device.StatusUnsupportedOp
	}
	s, st := p.reach(wr)
	if s == nil {
		return st
	}
	l := s.lanes[0]
	if len(wr.Payload) > smallRDMA {
		l = s.bulk()
	}
	f := frame{
		kind: kindRead, length: len(wr.Payload), token: token, qkey: wr.QKey,
		rkey: wr.RKey, addr: wr.Remote,
	}
	if wr.Kind == device.WRRead {
		l.out.frame(&f)
	} else {
		f.kind, f.imm = kindWrite, wr.HasImm
		if f.imm {
			f.data = wr.Imm
		}
		l.out.frame(&f)
		l.out.memory(wr.Payload)
	}
	p.skip, p.idle = 0, 0
	if r := p.reqs.begin(l, token); wr.Kind == device.WRRead && len(wr.Payload) > 0 {
		r.dst = wr.Payload
	}
	p.ready.queueWrite(l)
	return nic.Pending
}

// onFrame handles a frame; b begins after its header.
func (l *lane) onFrame(f *frame, b []byte) error {
	switch f.kind {
	case kindSend:
		l.onSend(f, b[:f.length])
	case kindRead:
		l.onRead(f)
	case kindWrite:
		l.onWrite(f)
	case kindData:
		return l.onData(f)
	case kindStatus:
		return l.onStatus(f)
	case kindPing:
		l.answer(&frame{kind: kindPong, token: f.token})
	case kindPong: // it only counts as heard
	case kindBye:
		if f.status != device.StatusOK {
			return errSentAway
		}
		l.onBye()
		return nil
	}
	if l.tooManyWrongKeys {
		return errWrongKeys
	}
	if len(l.out.buf)-l.out.head > l.p.outBytes || len(l.out.segs)-l.out.first > l.p.outSegs {
		return fmt.Errorf("%w: more requests than a queue pair may have outstanding", errFrame)
	}
	return nil
}

// answer appends a frame to the output. It is written with the next Poll, Doorbell
// or Arm, perhaps together with a packet in the same direction.
func (l *lane) answer(f *frame) {
	l.out.frame(f)
	l.p.ready.queueWrite(l)
}

// status ends the request f of the other side.
func (l *lane) status(f *frame, st device.Status) {
	l.answer(&frame{kind: kindStatus, token: f.token, status: st})
}

// acknowledge ends a send of the other side whose packet lies in a receive. That needs no write
// of its own as long as a packet in the same direction may come soon, and several leave
// together.
func (l *lane) acknowledge(f *frame) {
	l.out.frame(&frame{kind: kindStatus, token: f.token, status: device.StatusOK})
	l.p.ready.delayStatus(l)
}

const (
	minPlaced = 2 << 10 // a copy of fewer bytes costs less than to ask for their place
	mostHead  = 128     // bytes of the headers of a packet that is placed
)

// placed has the payload of a packet, of which b has come, go to its place, and returns how many bytes of b
// are its headers. 0: the packet goes to a slot, or it is to wait (l.late).
func (l *lane) placed(f *frame, b []byte) int {
	p := l.p
	if p.place == nil || f.imm || f.length < minPlaced || len(b) < mostHead || f.qkey != p.qkey || l.s.r.hold != notHeld {
		return 0
	}
	dst, later := l.placeOf(f, b[:mostHead])
	if len(dst) == 0 {
		l.late = later && !p.inbox.polled() && !l.s.breaking
		return 0
	}
	slot, ok := l.takeSlot()
	if !ok {
		return 0
	}
	head := f.length - len(dst)
	copy(p.inbox.slot(slot, head), b)
	l.s.used = true
	l.sink = sink{left: len(dst), kind: kindSend, frame: *f, slot: slot, head: head, ok: true, dst: dst}
	return head
}

// placeOf asks for the place of a packet's payload.
func (l *lane) placeOf(f *frame, head []byte) (dst []byte, later bool) {
	from := &l.s.r.at
	return l.p.place(&from.gid, from.qpn, head, f.length)
}

// onPlaced: the payload of a packet has come. Of one that has lost its place the rest of the bytes is lost,
// so it has to be sent again.
func (l *lane) onPlaced() {
	k := &l.sink
	slot := k.slot
	k.slot = -1
	if !k.ok {
		l.p.inbox.giveBack(slot)
		l.status(&k.frame, device.StatusRNR)
		return
	}
	c := l.p.inbox.arrival(device.OpPlaced, &l.s.r.at)
	c.ID, c.Len, c.Imm = uint64(slot), k.frame.length, uint32(k.head)
	l.acknowledge(&k.frame)
}

func (l *lane) onSend(f *frame, b []byte) {
	l.s.used = true
	if f.qkey != l.p.qkey {
		l.wrongKey(uint64(f.qkey))
		l.status(f, device.StatusBadDestQPN)
		return
	}
	if r := l.s.r; r.hold != notHeld {
		if r.hold == shutOut {
			l.status(f, device.StatusUnknownPeer)
			return
		} else if f.begins && int32(f.data-r.heldFrom) >= 0 {
			l.status(f, device.StatusRNR)
			return
		}
	}
	slot, ok := l.takeSlot()
	if !ok {
		l.status(f, device.StatusRNR)
		return
	}
	copy(l.p.inbox.slot(slot, len(b)), b)
	c := l.p.inbox.arrival(device.OpRecv, &l.s.r.at)
	c.ID, c.Len, c.HasImm, c.Imm = uint64(slot), len(b), f.imm, f.data
	l.acknowledge(f)
}

// takeSlot takes a posted receive, see inbox.
func (l *lane) takeSlot() (int32, bool) { return l.p.inbox.take(l.s.r, len(l.p.remotes) > 1) }

// admit checks a request for n bytes of a region.
func (l *lane) admit(f *frame, a device.Access) device.Status {
	l.s.used = true
	if f.qkey != l.p.qkey {
		l.wrongKey(uint64(f.qkey))
		return device.StatusBadDestQPN
	}
	if l.s.r.hold == shutOut {
		return device.StatusUnknownPeer
	}
	r, _ := l.p.dev.regions.Hold(f.rkey, f.addr, f.length, a)
	if r == nil {
		known := l.p.dev.regions.Knows(f.rkey)
		l.p.inbox.refused(&l.s.r.at, f.rkey, known)
		if !known {
			l.wrongKey(f.rkey)
		}
		return device.StatusBadAddress
	}
	r.Release()
	return device.StatusOK
}

func (l *lane) onRead(f *frame) {
	st := l.admit(f, device.RemoteRead)
	if st != device.StatusOK || f.length == 0 {
		l.status(f, st)
		return
	}
	l.out.region(f.rkey, f.addr, f.length, f.token)
	l.p.ready.queueWrite(l)
}

// onWrite decides, before the bytes arrive, what to do with them.
func (l *lane) onWrite(f *frame) {
	st := l.admit(f, device.RemoteWrite)
	slot := int32(-1)
	if st == device.StatusOK && f.imm {
		var ok bool
		if slot, ok = l.takeSlot(); !ok {
			slot, st = -1, device.StatusRNR
		}
	}
	l.sink = sink{left: f.length, kind: kindWrite, frame: *f, slot: slot, ok: st == device.StatusOK}
	l.sink.frame.status = st
	if f.length == 0 {
		l.onSunk()
	}
}

// onSunk: all bytes of a write, or of the answer to a read, have arrived.
func (l *lane) onSunk() {
	k := &l.sink
	if k.kind != kindWrite {
		if k.kind == kindSend {
			l.onPlaced()
		}
		return
	}
	slot := k.slot
	k.slot = -1
	st := k.frame.status
	if st == device.StatusOK && !k.ok {
		st = device.StatusBadAddress
		l.p.inbox.refused(&l.s.r.at, k.frame.rkey, true) // it was known when the write began
	}
	switch {
	case slot >= 0 && st == device.StatusOK:
		c := l.p.inbox.arrival(device.OpWritten, &l.s.r.at)
		c.ID, c.Len, c.HasImm, c.Imm = uint64(slot), k.frame.length, true, k.frame.data
	case slot >= 0:
		l.p.inbox.giveBack(slot)
	}
	l.status(&k.frame, st)
}

// onData: the answer to a read of ours begins.
func (l *lane) onData(f *frame) error {
	r := l.p.reqs.find(f.token)
	if r == nil || r.lane != l || r.data || f.length == 0 || f.length != len(r.dst) {
		return fmt.Errorf("%w: %d bytes that were not requested", errFrame, f.length)
	}
	r.data = true
	l.sink = sink{left: f.length, kind: kindData, dst: r.dst, slot: -1}
	return nil
}

// onStatus: a request of ours has ended.
func (l *lane) onStatus(f *frame) error {
	r := l.p.reqs.find(f.token)
	if r == nil || r.lane != l {
		return fmt.Errorf("%w: status of a request that is not under way", errFrame)
	}
	if f.status == device.StatusOK && r.dst != nil && !r.data {
		return fmt.Errorf("%w: a read ended well without data", errFrame)
	}
	if l.sent < r.end { // for a write, the caller's memory would be left to be written
		return fmt.Errorf("%w: a request ended before it was sent", errFrame)
	}
	l.p.reqs.finish(r, f.status)
	return nil
}
