package direct

import (
	"fmt"

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
	if p.line.push(p.begin(r, to)); p.line.n == 1 {
		p.advance()
	}
}

// advance gives the device what the send queue has room for.
func (p *Port) advance() {
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
	lkey, err := p.localKey(o)
	if err != nil {
		p.q.Free(pke)
		p.fail(o, err)
		return
	}
	switch r := &o.req; r.Kind {
	case ope.KindWrite:
		pke.FillRDMA(device.WRWrite, r.Buf, lkey, r.Addr, mr.DeviceKey(r.Key))
	case ope.KindRead:
		pke.FillRDMA(device.WRRead, r.Buf, lkey, r.Addr, mr.DeviceKey(r.Key))
	default:
		pke.Fill(nil, r.Buf)
	}
	if o.req.Flags&ope.HasData != 0 {
		pke.SetImm(uint32(o.req.Data))
	}
	pke.Owner, pke.Peer, pke.Off, pke.Span = p.ref, p.ref, o.idx, o.span
	pke.To(o.to.ah, o.to.addr.QPN(), o.to.addr.ConnID())
	o.state = posted
	o.to.out++
	over, err := p.q.PostPrompt(pke, true)
	if err != nil || over {
		p.q.Free(pke)
		p.finish(o, err)
	}
}

// localKey is the key of the buffer where the device wants one for RDMA. A buffer in no
// region gets one of its own.
func (p *Port) localKey(o *op) (lkey uint32, err error) {
	r := &o.req
	if r.Kind == ope.KindSend || !p.info.LocalKeys || len(r.Buf) == 0 {
		return 0, nil
	}
	if x := p.cfg.Regions.Find(r.Buf); x != nil && (r.Kind == ope.KindWrite || writable(x)) && x.Use() {
		o.used = x
		return x.LKey(0), nil
	}
	if err = device.Guard(func() (err error) {
		o.own, err = p.cfg.Device.Register(r.Buf, device.LocalWrite)
		return err
	}); err != nil {
		return 0, fmt.Errorf("%w: register the buffer: %w", errno.ErrNoMR, err)
	}
	return o.own.LKey(), nil
}

func writable(x *mr.Region) bool { return x.Access()&(device.LocalWrite|device.RemoteWrite) != 0 }

func (p *Port) onDone(pke *device.Pke) {
	o := p.ops[pke.Off]
	p.q.Free(pke)
	p.finish(o, nil)
}

// onProblem: the device's verdict is final.
func (p *Port) onProblem(pke *device.Pke, s device.Status) {
	o := p.ops[pke.Off]
	p.q.Free(pke)
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
