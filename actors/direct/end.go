package direct

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// cancel ends the operation with an id if it has not ended.
func (p *Port) cancel(id uint64) {
	p.giveUp(func(o *op) bool { return o.req.ID == id }, errno.ErrCanceled)
}

// giveUp ends the operations that are meant and that the device does not have. A send that
// it has lets its caller go if the bytes were copied; RDMA stays, since the device may use the
// buffer yet.
func (p *Port) giveUp(meant func(*op) bool, err error) {
	p.failWaiting(meant, err)
	for _, o := range p.ops {
		if o.state == posted && o.req.Kind == ope.KindSend && p.info.CopiesAtPost && meant(o) {
			p.tell(o, &ope.Result{Err: err, Peer: o.req.Peer})
		}
	}
}

// failWaiting ends the receives and the operations in the line that are meant.
func (p *Port) failWaiting(meant func(*op) bool, err error) {
	for _, o := range p.receives.take(meant) {
		p.fail(o, err)
	}
	for _, o := range p.line.take(meant) {
		p.fail(o, err)
	}
}

// Remove tells of a handle that has been taken out of the address vector: operations with it
// end with ErrRemoved, but RDMA that the device has. Runs on the shard.
func (p *Port) Remove(handle uint64) {
	if x := p.places.remove(handle); x != nil {
		p.giveUp(func(o *op) bool { return o.to == x }, peer.ErrRemoved)
	}
}

// Revoke ends the operations whose buffer lies in a region that is being closed; those that
// the device has keep it in use until they are over.
func (p *Port) Revoke(r *mr.Region) {
	p.failWaiting(func(o *op) bool { return ope.Overlap(r.Bytes(), o.req.Buf) }, ope.ErrRegionClosed)
}

// Fail ends what the device does not have, and all that is submitted from now on.
func (p *Port) Fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.failWaiting(func(*op) bool { return true }, err)
	for _, pkt := range p.early {
		pkt.Release()
	}
	p.early = nil
}

// Abandon ends what the device had: the queue pair is closed.
func (p *Port) Abandon(err error) {
	p.Fail(err)
	for _, o := range p.ops {
		if o.state != idle { // one that a panic interrupted is in no list
			p.fail(o, err)
		}
	}
	p.unregister(p.empty)
	p.empty = nil
}

// Has reports whether the request with an id became an operation that has not ended.
func (p *Port) Has(id uint64) bool {
	return slices.ContainsFunc(p.ops, func(o *op) bool { return o.state != idle && o.req.ID == id })
}

// Depths says how many operations are in progress: receives, and others.
func (p *Port) Depths() (receives, others int) { return p.receives.n, p.inUse - p.receives.n }

// Remotes is the number of addresses that are known.
func (p *Port) Remotes() int { return len(p.places.at) }

// Each calls f with a description of each operation in progress.
func (p *Port) Each(f func(ope.Snapshot)) {
	now, kind := p.cfg.Shard.Now(), device.KindOf(p.cfg.Device.Info().Name)
	for _, o := range p.ops {
		if o.state == idle {
			continue
		}
		x := ope.Order{Req: o.req, Born: o.born}
		s := x.Snapshot(now)
		s.State = stateNames[o.state]
		if o.to != nil {
			s.Peer, s.PeerName = o.to.addr.URI(kind), p.cfg.Book.Name(o.to.handle)
		}
		switch {
		case o.to == nil:
			s.Waits = "a message"
		case o.state == waits:
			s.Waits = "a place in the send queue"
		default:
			s.Waits = "the device"
		}
		f(s)
	}
}
