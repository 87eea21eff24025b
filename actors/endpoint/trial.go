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

// trialPackets is how many packets wait at one place, and trialsMost at how many places.
// What is beyond that is dropped: who takes another's place is not trusted with more.
const (
	trialPackets = 16
	trialsMost   = 8
)

// try puts the sender of a packet on trial.
func (p *peers) try(r *device.RecvPkt, addr wire.RawAddr) {
	at := placeOf(addr)
	t := p.trials[at]
	if t == nil && len(p.trials) < trialsMost {
		t = p.beginTrial(addr)
	}
	if t == nil || len(t.pkts) == trialPackets {
		p.distrust(r, addr)
		return
	}
	t.pkts = append(t.pkts, r)
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
	if !m.OK || twin || p.closing.state != open {
		p.env.Sh.Stop(l.Peer)
		_ = p.qp().DestroyAH(l.AH) // it was created by us, so this does not fail
		if x != nil && !m.OK && !twin {
			x.note(l.QKey)
		}
	} else {
		p.settle(l)
		p.welcome(l, true, p.hasRoom(l.AH), t.pkts[0])
	}
	for _, r := range t.pkts {
		p.onOtherConnID(&peer.Stranger{Pkt: r, Link: l})
	}
}
