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

	began  bool   // pkts has a message
	held   bool   // it is held back, from the message after heldAt on
	upto   uint32 // msg_id of the latest message in pkts
	heldAt uint32
}

// trialPackets is how many packets may wait at each place before its sender is held back,
// trialsSpare how many more at all together, and trialsMost at how many places. What is beyond that
// is dropped: who takes another's place is not trusted with more. But all of this was acknowledged,
// so there is room for what has come before the sender is held back, and for the rest of a message.
// Where the device cannot hold one back it is for what comes until HANDSHAKE has arrived.
const (
	trialPackets = 16
	trialsSpare  = 96
	trialsMost   = 8
)

// trials are the endpoints on trial, by the place that each says it has taken.
type trials struct {
	peers *peers
	by    map[place]*trial
}

// try puts the sender of a packet on trial.
func (t *trials) try(r *device.RecvPkt, addr wire.RawAddr) {
	x := t.by[placeOf(addr)]
	if x == nil && len(t.by) < trialsMost {
		x = t.begin(addr)
	}
	if x == nil {
		t.peers.distrust(r, addr)
		return
	}
	t.await(x, r)
}

// tries reports whether a packet that does not introduce its sender is of one on trial: that may
// have our HANDSHAKE before we know, and then it answers, and says no more than its connid. The
// packet waits with the others.
func (t *trials) tries(r *device.RecvPkt, gid device.GID) bool {
	x := t.by[place{gid, r.QPN}]
	if id, ok := r.View.ConnID(); x == nil || !ok || x.link.QKey != id {
		return false
	}
	t.await(x, r)
	return true
}

// await has a packet wait for the end of a trial at its place. A newcomer that has sent trialPackets
// is held back: its device sends again later what is refused, but nobody what is dropped.
func (t *trials) await(x *trial, r *device.RecvPkt) {
	if len(x.pkts) >= trialPackets && !t.hasSpare() {
		t.peers.distrust(r, x.link.Addr)
		return
	}
	x.pkts = append(x.pkts, r)
	if id, ok := r.View.MsgID(); ok && (!x.began || int32(id-x.upto) > 0) {
		x.upto, x.began = id, true
	}
	if len(x.pkts) >= trialPackets && x.began && (!x.held || x.upto != x.heldAt) {
		x.link.Wait(x.upto)
		x.held, x.heldAt = true, x.upto
	}
}

// hasSpare reports whether one more packet may wait at a place that has trialPackets of them.
func (t *trials) hasSpare() bool {
	spare := trialsSpare
	for _, o := range t.by {
		spare -= max(len(o.pkts)-trialPackets, 0)
	}
	return spare > 0
}

func (t *trials) begin(addr wire.RawAddr) *trial {
	p := t.peers
	ah, err := p.handleFor(addr.GID())
	if err != nil {
		return nil
	}
	if trusted, _ := p.mayCome(ah, addr.QPN(), false); !trusted {
		_ = p.qp().DestroyAH(ah)
		return nil
	}
	if t.by == nil {
		t.by = make(map[place]*trial)
	}
	x := &trial{link: p.make(addr, ah, peer.Unlisted, p.book.Now())}
	t.by[placeOf(addr)] = x
	x.link.Try()
	return x
}

// distrust drops a packet for reasons of trust.
func (p *peers) distrust(r *device.RecvPkt, addr wire.RawAddr) {
	p.env.Counters.Crowded++
	p.env.Complain(nil, fmt.Errorf("%w: %s", peer.ErrUntrusted, addr))
	r.Release()
}

// onTried ends a trial: the newcomer replaces the peer at its place, or its packets were late.
func (t *trials) onTried(m *peer.Tried) {
	p, l, at := t.peers, m.Link, placeOf(m.Link.Addr)
	tried := t.by[at]
	delete(t.by, at)
	x := p.routes.get(l.AH, l.QPN)
	if tried.held { // packets of the peer at its place were refused, too
		l.Admitted()
		if x != nil && x.cur != nil {
			x.cur.HoldAgain()
		}
	}
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
		p.welcome(l, true, p.hasRoom(l.AH), tried.pkts[0])
	}
	for _, r := range tried.pkts {
		if id, _ := r.View.ConnID(); late && id == l.QKey {
			p.env.Counters.StaleConnID++
			r.Release()
			continue
		}
		p.onOtherConnID(&peer.Stranger{Pkt: r, Link: l})
	}
}
