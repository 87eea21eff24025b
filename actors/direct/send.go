package direct

import (
	"bytes"
	"fmt"
	"math"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
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
		to, err = p.dir.remote(r.Peer)
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
	o.to.inFlight++
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
	o.to.inFlight--
	p.dir.drop(o.to)
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

// local is the buffer of an RDMA request, and its key where the device wants one. A buffer
// in no region gets one of its own for the time of the request; no bytes lie in a region that
// the port has for that.
func (p *Port) local(o *op) (mem []byte, lkey uint32, err error) {
	r := &o.req
	if !p.info.LocalKeys {
		return r.Buf, 0, nil
	}
	if len(r.Buf) == 0 {
		return p.noBytes()
	}
	if x := p.cfg.Regions.Find(r.Buf); x != nil && (r.Kind == ope.KindWrite || writable(x)) && x.Use() {
		o.used = x
		return r.Buf, x.LKey(0), nil
	}
	access := device.LocalWrite
	if r.Kind == ope.KindWrite {
		access = 0
	}
	if o.own, err = p.register(func() (device.MR, error) { return p.cfg.Device.Register(r.Buf, access) }); err != nil {
		return nil, 0, err
	}
	return r.Buf, o.own.LKey(), nil
}

func writable(x *mr.Region) bool { return x.Access()&(device.LocalWrite|device.RemoteWrite) != 0 }

// noBytes is no bytes of registered memory.
func (p *Port) noBytes() (mem []byte, lkey uint32, err error) {
	if p.empty == nil {
		if p.empty, err = p.register(func() (device.MR, error) { return p.cfg.Device.Alloc(1, device.LocalWrite) }); err != nil {
			return nil, 0, err
		}
	}
	return p.empty.Bytes()[:0], p.empty.LKey(), nil
}

func (p *Port) register(by func() (device.MR, error)) (m device.MR, err error) {
	if err = device.Guard(func() (err error) { m, err = by(); return err }); err != nil {
		return nil, fmt.Errorf("%w: register the buffer: %w", errno.ErrNoMR, err)
	}
	return m, nil
}

// unregister ends what register began; nil is nothing.
func (p *Port) unregister(m device.MR) {
	if m == nil {
		return
	}
	if err := device.Guard(m.Close); err != nil {
		p.cfg.Log.Warn("close the region of a request", "err", err)
	}
}

// refuse says why there is no request of the device for a request of the application's;
// nil: there is.
func (p *Port) refuse(r *ope.Request) error {
	switch r.Kind {
	case ope.KindSend:
		return p.refuseSend(r)
	case ope.KindWrite, ope.KindRead:
		return p.refuseRDMA(r)
	case ope.KindRecv:
		return refuseRecv(r)
	case ope.KindAtomic:
		return unsupported("atomics")
	case ope.KindPeek, ope.KindClaim, ope.KindTake:
		return unsupported("peek and claim")
	default:
		return errno.ErrInvalid
	}
}

func unsupported(what string) error {
	return fmt.Errorf("%w: an endpoint with Direct has no %s", errno.ErrNotSupported, what)
}

func (p *Port) refuseSend(r *ope.Request) error {
	switch {
	case r.Flags&ope.Fence != 0:
		return unsupported("fences")
	case r.Flags&ope.Tagged != 0:
		return unsupported("tagged messages")
	case r.Flags&ope.Deliver != 0:
		return unsupported("completion level Delivered for messages")
	case len(r.Buf) > p.info.MTU:
		return fmt.Errorf("%w: %d bytes, and without the protocol a message is a packet of %d at most",
			errno.ErrMsgSize, len(r.Buf), p.info.MTU)
	default:
		return refuseData(r)
	}
}

func refuseRecv(r *ope.Request) error {
	switch {
	case r.Flags&ope.Tagged != 0:
		return unsupported("tagged messages")
	case r.Peer != uint64(match.AnySource):
		return unsupported("receives from one peer")
	default:
		return nil
	}
}

// refuseRDMA: what the other side refuses shows as a status.
func (p *Port) refuseRDMA(r *ope.Request) error {
	switch {
	case r.Flags&ope.Fence != 0:
		return unsupported("fences")
	case r.Kind == ope.KindRead && !p.info.RDMARead:
		return fmt.Errorf("%w: %s does not read peers' memory", errno.ErrNotSupported, p.info.Name)
	case r.Kind == ope.KindWrite && !p.info.RDMAWrite:
		return fmt.Errorf("%w: %s does not write peers' memory", errno.ErrNotSupported, p.info.Name)
	case r.Key&mr.EmulatedOnly != 0:
		return fmt.Errorf("%w: the peer's memory is none that devices reach", errno.ErrNotSupported)
	case r.Kind == ope.KindRead && r.Key&mr.EmulatedRead != 0:
		return fmt.Errorf("%w: the peer's memory is not to be read", errno.ErrAccess)
	case len(r.Buf) > p.info.MaxRDMA:
		return fmt.Errorf("%w: %d bytes, and %s moves %d in one request", errno.ErrMsgSize, len(r.Buf), p.info.Name, p.info.MaxRDMA)
	default:
		return refuseData(r)
	}
}

// refuseData: the device carries 32 bits of data.
func refuseData(r *ope.Request) error {
	if r.Flags&ope.HasData != 0 && r.Data > math.MaxUint32 {
		return unsupported("remote CQ data of more than 32 bits")
	}
	return nil
}
