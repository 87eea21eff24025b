package tcp

import (
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

// Send implements nic.Carrier. The packet is copied.
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
		f.begins, f.data = true, wr.Turn
	}
	l.out.frame(&f)
	l.out.bytes(wr.Header)
	l.out.bytes(wr.Payload)
	p.reqs.begin(l, token)
	p.skip, p.idle = 0, 0
	p.turns.soil(l)
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
	p.turns.soil(l)
	return nic.Pending
}
