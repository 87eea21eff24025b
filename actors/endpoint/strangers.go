package endpoint

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// onStranger takes a packet from a queue pair at which no peer is known. The packet must
// say who sent it: by the raw address in a REQ, or by its connid and the GID that the
// device reports (§2.2).
func (p *peers) onStranger(r *device.RecvPkt) {
	addr, ok := p.identify(r)
	if !ok {
		addr, ok = p.resting.sender(r, p.routes.from(r))
	}
	if !ok {
		if !p.trials.tries(r, p.routes.from(r)) {
			p.onNameless(r)
		}
		return
	}
	if x := p.routes.get(r.AH, r.QPN); x != nil && x.was(addr.ConnID()) {
		p.env.Counters.StaleConnID++
		r.Release()
		return
	}
	p.admit(r, addr)
}

// identify returns the address of a packet's sender; false: the packet does not say it, or
// claims another GID than the device saw.
func (p *peers) identify(r *device.RecvPkt) (wire.RawAddr, bool) {
	id, ok := r.View.ConnID()
	if !ok {
		return wire.RawAddr{}, false
	}
	if raw, ok := r.View.RawAddr(); ok {
		gid := raw.GID()
		if from := p.routes.from(r); from != (device.GID{}) && from != gid {
			return wire.RawAddr{}, false
		}
		return wire.MakeRawAddr(gid, r.QPN, id), true
	}
	if r.AH == device.UnknownAH && r.GID != (device.GID{}) {
		return wire.MakeRawAddr(r.GID, r.QPN, id), true
	}
	return wire.RawAddr{}, false
}

// onNameless takes a packet that does not say who sent it. It is of the peer there if only
// the device's address handle is missing.
func (p *peers) onNameless(r *device.RecvPkt) {
	l := p.at(r.GID, r.QPN)
	if r.AH != device.UnknownAH {
		l = p.routes.find(r.AH, r.QPN) // it came while the packet was on its way here
	}
	if l != nil && r.Err == nil {
		p.env.Sh.Call(l.Peer, r.Arrived())
		return
	}
	if r.Err != nil {
		p.env.Complain(nil, r.Err)
	}
	p.env.Counters.NoAddress++
	r.Release()
}

// admit makes a peer of a stranger, if it may be one, and gives it the packet.
func (p *peers) admit(r *device.RecvPkt, addr wire.RawAddr) {
	if p.closing.state != open {
		r.Release()
		return
	}
	if l := p.find(addr); l != nil { // only the device's address handle was missing
		p.env.Sh.Call(l.Peer, r.Arrived())
		return
	}
	known, gone := p.resting.is(addr)
	if gone {
		p.env.Counters.StaleConnID++
		r.Release()
		return
	}
	handle, listed := p.book.Handle(addr)
	if !listed {
		handle = peer.Unlisted
	}
	ah, err := p.handleFor(addr.GID())
	if err != nil {
		p.env.Log.Warn("address handle for a stranger", "address", p.uri(&addr), "err", err)
		p.env.Complain(nil, fmt.Errorf("address handle for %s: %w", p.uri(&addr), err))
		r.Release()
		return
	}
	crowded := false
	if !listed {
		var trusted bool
		if trusted, crowded = p.mayCome(ah, addr.QPN(), known); !trusted {
			_ = p.qp().DestroyAH(ah)
			p.distrust(r, addr)
			return
		}
	}
	l := p.create(addr, ah, handle, p.book.Now())
	if listed {
		p.setHandle(handle, l)
	} else {
		p.welcome(l, !known, !crowded, r)
	}
	p.env.Sh.Call(l.Peer, r.Arrived())
}

// welcome takes in a stranger that has sent r. It is held back if there is no room.
func (p *peers) welcome(l *peer.Link, fresh, room bool, r *device.RecvPkt) {
	if fresh {
		p.event(Event{Kind: NewPeer, Handle: peer.Unlisted, Addr: l.Addr, Path: l.Path})
	}
	if room {
		p.lobby.enter(l)
		return
	}
	upto, _ := r.View.MsgID()
	p.crowd.enter(l, upto)
}

// onOtherConnID takes a packet from a known queue pair with another connid than the
// peer's. It is of a former endpoint there, and dropped, or of a new one, which replaces
// the peer (§4.4). A new connid is believed only in a packet with a raw address, and then if
// its sender turns out to be there (trial.go), or if the application has inserted the address.
func (p *peers) onOtherConnID(m *peer.Stranger) {
	r, c := m.Pkt, &p.env.Counters
	id, ok := r.View.ConnID()
	x := p.routes.get(m.Link.AH, m.Link.QPN)
	if x == nil || x.cur == nil { // that was dropped while the packet was on its way here
		p.onStranger(r)
		return
	}
	if !ok || x.was(id) {
		c.StaleConnID++
		r.Release()
		return
	}
	if x.cur.QKey == id {
		p.env.Sh.Call(x.cur.Peer, r.Arrived()) // the new one came in meanwhile
		return
	}
	addr := wire.MakeRawAddr(m.Link.Addr.GID(), m.Link.QPN, id)
	raw, introduced := r.View.RawAddr()
	if introduced && raw.GID() != m.Link.Addr.GID() {
		introduced = false
	}
	_, listed := p.book.Handle(addr)
	switch {
	case !listed && !introduced && p.trials.tries(r, addr.GID()):
	case !listed && !introduced:
		c.StaleConnID++
		r.Release()
	case !listed && x.cur.Err == nil && p.closing.state == open:
		p.trials.try(r, addr)
	default:
		p.admit(r, addr)
	}
}
