package direct

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
)

// postRecv posts a receive. A message that waits for one is received at once.
func (p *Port) postRecv(r *ope.Request) {
	err := p.err
	if err == nil {
		err = p.refuse(r)
	}
	if err != nil {
		p.cfg.Reject(r, err)
		return
	}
	o := p.begin(r, nil)
	if len(p.early) == 0 {
		p.receives.push(o)
		return
	}
	pkt := p.early[0]
	p.early = append(p.early[:0], p.early[1:]...)
	p.deliver(o, pkt)
}

// onPacket gives a message to the receive that was posted first. If none waits, one was
// canceled: the message keeps its slot until the next one is posted.
func (p *Port) onPacket(pkt *device.RecvPkt) {
	if p.err != nil {
		pkt.Release()
		return
	}
	if o := p.receives.pop(); o != nil {
		p.deliver(o, pkt)
		return
	}
	p.early = append(p.early, pkt)
}

// deliver ends a receive with a message.
func (p *Port) deliver(o *op, pkt *device.RecvPkt) {
	n := copy(o.req.Buf, pkt.View.Bytes())
	res := ope.Result{N: n, Lost: len(pkt.View.Bytes()) - n, HasData: pkt.HasImm, Data: uint64(pkt.Imm)}
	res.Peer, res.From = p.dir.source(pkt.AH, pkt.QPN, pkt.GID)
	if res.Lost > 0 {
		res.Err = &ope.Truncated{Placed: n, Lost: res.Lost}
	}
	pkt.Release()
	p.end(o, &res)
}

// onWritten: a peer has written here with data. If that took a receive slot, Flush gives the
// device another one: receives of the application's are for messages.
func (p *Port) onWritten(m *device.Written) {
	handle, from := p.dir.source(m.AH, m.QPN, m.GID)
	n, imm := m.Len, m.Imm
	m.Free()
	p.cfg.Written(handle, from, n, uint64(imm))
}

// Flush gives the device as many slots as receives wait that have none. It is called at the
// end of each turn, and before something goes out that may have an answer.
func (p *Port) Flush() {
	if p.err != nil {
		return
	}
	given := p.q.Slots() - p.q.Kept() - len(p.early)
	if n := p.receives.n - given; n > 0 {
		p.q.Trickle(n)
		p.q.PostSlots()
	}
}
