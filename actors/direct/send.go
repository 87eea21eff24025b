package direct

import (
	"bytes"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// submit begins a message, a write or a read.
func (p *Port) submit(r *ope.Request) {
	err := p.err
	if err == nil {
		err = p.refuse(r)
	}
	var to *remote
	if err == nil {
		to, err = p.places.remote(r.Peer)
	}
	if err != nil {
		p.cfg.Reject(r, err)
		return
	}
	o := p.begin(r, to)
	if p.line.push(o); p.line.n == 1 {
		p.advance()
	}
	if o.state == waits && r.Flags&ope.Borrowed != 0 {
		o.req.Buf = bytes.Clone(r.Buf)
	}
}

// advance gives the device what the send queue has room for.
func (p *Port) advance() {
	p.Flush()
	for o := p.line.head; o != nil; o = p.line.head {
		pke := p.q.Alloc()
		if pke == nil {
			p.q.AwaitSlot(&p.room)
			return
		}
		p.line.pop()
		p.post(o, pke)
	}
}

// post makes an operation a request of the device.
func (p *Port) post(o *op, pke *device.Pke) {
	if err := p.fill(o, pke); err != nil {
		p.q.Free(pke)
		p.fail(o, err)
		return
	}
	if o.req.Flags&ope.HasData != 0 {
		pke.SetImm(uint32(o.req.Data))
	}
	pke.Owner, pke.Peer, pke.Off, pke.Span = p.ref, p.ref, o.idx, o.span
	pke.To(o.to.ah, o.to.addr.QPN(), o.to.addr.ConnID())
	borrowed := o.req.Flags&ope.Borrowed != 0
	o.state = posted
	o.to.out++
	if borrowed && !p.info.CopiesAtPost {
		pke.Detach()
	}
	over, err := p.q.PostPrompt(pke, true)
	switch {
	case err != nil || over:
		p.q.Free(pke)
		p.finish(o, err)
	case borrowed && p.info.CopiesAtPost:
		pke.Detach() // the queue may not have had room for it
	}
}

// fill says in the entry what the operation wants.
func (p *Port) fill(o *op, pke *device.Pke) error {
	r := &o.req
	if r.Kind == ope.KindSend {
		pke.Fill(nil, r.Buf)
		return nil
	}
	local, lkey, err := p.local(o)
	if err != nil {
		return err
	}
	kind := device.WRWrite
	if r.Kind == ope.KindRead {
		kind = device.WRRead
	}
	pke.FillRDMA(kind, local, lkey, r.Addr, mr.DeviceKey(r.Key))
	return nil
}

func (p *Port) onDone(pke *device.Pke) {
	o := p.ops[pke.Off]
	p.q.Free(pke)
	if o.state != idle { // Abandon can overtake its end
		p.finish(o, nil)
	}
}

// onProblem: the device's verdict is final.
func (p *Port) onProblem(pke *device.Pke, s device.Status) {
	o := p.ops[pke.Off]
	p.q.Free(pke)
	if o.state == idle {
		return
	}
	n, provider := errno.Of(s, true)
	p.finish(o, &peer.StatusError{Status: s, Errno: n, Provider: provider, Peer: s.Gone()})
}

// finish ends an operation that the device is done with.
func (p *Port) finish(o *op, err error) {
	o.to.out--
	p.places.drop(o.to)
	res := ope.Result{Err: err, Peer: o.req.Peer}
	switch {
	case err != nil:
	case o.req.Kind == ope.KindWrite:
		res.Proto = ope.DirectWrite
	case o.req.Kind == ope.KindRead:
		res.Proto = ope.DirectRead
	}
	if err == nil {
		res.N = len(o.req.Buf)
	}
	p.end(o, &res)
}
