package endpoint

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// trial is an endpoint that says it has taken the place of a peer, which no other sign of ours
// confirms. Until it is known to be there its packets wait in their receive slots.
type trial struct {
	link *peer.Link
	pkts []*device.RecvPkt
}

// trialPackets is how many packets may wait at each place, trialsSpare how many more at all
// together, and trialsMost at how many places. What is beyond that is dropped: who takes another's
// place is not trusted with more. But all of this was acknowledged, so a place has room for what
// the device may yield until it says that HANDSHAKE has arrived: three polls of it.
const (
	trialPackets = 16
	trialsSpare  = 96
	trialsMost   = 8
)

// try puts the sender of a packet on trial.
func (p *peers) try(r *device.RecvPkt, addr wire.RawAddr) {
	at := placeOf(addr)
	t := p.trials[at]
	if t == nil && len(p.trials) < trialsMost {
		t = p.beginTrial(addr)
	}
	if t == nil {
		p.distrust(r, addr)
		return
	}
	await(p, t, r, addr)
}

// await has a packet wait for the end of a trial at its place.
func await(p *peers, t *trial, r *device.RecvPkt, addr wire.RawAddr) {
	if len(t.pkts) >= trialPackets {
		spare := trialsSpare
		for _, o := range p.trials {
			spare -= max(len(o.pkts)-trialPackets, 0)
		}
		if spare <= 0 {
			p.distrust(r, addr)
			return
		}
	}
	t.pkts = append(t.pkts, r)
}

// tries reports whether a packet that does not introduce its sender is of one on trial: that may
// have our HANDSHAKE before we know, and then it answers, and says no more than its connid. The
// packet waits with the others.
func tries(p *peers, r *device.RecvPkt, gid device.GID) bool {
	t := p.trials[place{gid, r.QPN}]
	if id, ok := r.View.ConnID(); t == nil || !ok || t.link.QKey != id {
		return false
	}
	await(p, t, r, t.link.Addr)
	return true
}

func (p *peers) beginTrial(addr wire.RawAddr) *trial {
	ah, err := p.handleFor(addr.GID())
	if err != nil {
		return nil
	}
	if trusted, _ := p.mayCome(ah, addr.QPN(), false); !trusted {
		_ = p.qp().DestroyAH(ah)
		return nil
	}
	if p.trials == nil {
		p.trials = make(map[place]*trial)
	}
	t := &trial{link: p.make(addr, ah, peer.Unlisted, p.book.Now())}
	p.trials[placeOf(addr)] = t
	peer.Try(t.link)
	return t
}

// distrust drops a packet for reasons of trust.
func (p *peers) distrust(r *device.RecvPkt, addr wire.RawAddr) {
	p.env.Counters.Crowded++
	peer.Complain(p.env, nil, fmt.Errorf("%w: %s", peer.ErrUntrusted, addr))
	r.Release()
}

// onTried ends a trial: the newcomer replaces the peer at its place, or its packets were late.
func (p *peers) onTried(m *peer.Tried) {
	l, at := m.Link, placeOf(m.Link.Addr)
	t := p.trials[at]
	delete(p.trials, at)
	x := p.routes.get(l.AH, l.QPN)
	twin := x != nil && x.cur != nil && x.cur.QKey == l.QKey // it was inserted meanwhile
	late := !m.OK && !twin
	if !m.OK || twin || p.closing.state != open {
		p.env.Sh.Stop(l.Peer)
		_ = p.qp().DestroyAH(l.AH) // it was created by us, so this does not fail
		if x != nil && late {
			x.note(l.QKey)
		}
	} else {
		p.settle(l)
		p.welcome(l, true, p.hasRoom(l.AH), t.pkts[0])
	}
	for _, r := range t.pkts {
		if id, _ := r.View.ConnID(); late && id == l.QKey {
			p.env.Counters.StaleConnID++
			r.Release()
			continue
		}
		p.onOtherConnID(&peer.Stranger{Pkt: r, Link: l})
	}
}
