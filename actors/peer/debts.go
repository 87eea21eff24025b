package peer

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// debts are the packets that a peer which failed will get first if it comes back: RECEIPT,
// EOR and PEER_ERROR of operations that have ended.
type debts struct {
	list   [][]byte // headers, the oldest first
	paying bool     // the first of them is under way
	lost   bool     // a msg_id of ours is lost, and nothing makes up for that
	why    error    // the peer had failed; nil: it has not come back yet
	room   device.SlotWait
}

// Owe keeps a packet for the peer, which has failed and may come back.
func (l *Link) Owe(header []byte) {
	if l.Err == nil || l.Away {
		d := l.of.indebted()
		d.list = append(d.list, header)
	}
}

func (p *Peer) indebted() *debts {
	if p.debts == nil {
		p.debts = new(debts)
	}
	return p.debts
}

// pay posts the first debt to a peer that has come back, unless it is under way. When there
// is none any more our direction is open.
func (d *debts) pay(p *Peer) {
	l := p.link
	switch {
	case d == nil || l.Err != nil || d.paying || l.Backoff:
		return
	case len(d.list) > 0 && !l.Known():
		p.ask() // its HANDSHAKE says what it understands
		return
	}
	for len(d.list) > 0 && wire.Type(d.list[0][0]) == wire.TypePeerError && !l.Can(wire.FeaturePeerError) {
		d.list = d.list[1:]
		d.lost = true
	}
	if len(d.list) == 0 {
		if d.list = nil; !d.lost {
			p.debts = nil
		}
		return
	}
	pke := p.env.Q.Alloc()
	if pke == nil {
		d.room.To, d.room.Control = l.Peer, true
		p.env.Q.AwaitSlot(&d.room)
		return
	}
	if d.paying = p.post(pke, append(pke.Header(), d.list[0]...)); !d.paying {
		p.fail(errUnpaid, true)
		return
	}
	if wire.Type(d.list[0][0]) == wire.TypePeerError {
		p.env.Counters.PeerErrorsSent++
	}
}

// over takes the end of a packet of the peer's own: that of a debt, if it is one.
func (d *debts) over(p *Peer, t wire.Type, arrived bool) {
	if d == nil || !d.paying || t == wire.TypeEagerRTW || t == wire.TypeHandshake {
		return
	}
	if d.paying = false; !arrived {
		p.fail(errUnpaid, true) // to try again when it is heard, not at once
		return
	}
	if len(d.list) > 0 {
		d.list = d.list[1:]
	}
	d.pay(p)
}

// errUnpaid is why a peer that has come back fails again.
var errUnpaid = fmt.Errorf("%w: what it was owed did not arrive", ErrPeerFailed)

// failTold comes back to a peer that has failed when all its operations have heard of that:
// before, nothing may take it back, or they would not know that there was a failure.
type failTold struct{ shard.Message }

var toldAll failTold

// allTold takes failTold.
func (p *Peer) allTold() {
	p.failing = false
	if p.reached && p.link.Away {
		p.comeBack()
	}
	p.reached = false
}

// Up tells the endpoint that a peer that had failed is back (peer -> endpoint).
type Up struct {
	shard.Message
	Link *Link
}

// Buried tells the endpoint that a peer which failed will not come back (peer -> endpoint).
type Buried struct {
	shard.Message
	Link *Link
}

// mayReturn reports whether a peer that failed for that reason may come back under its
// connid.
func mayReturn(err error) bool {
	for _, final := range []error{ErrDied, ErrLeft, ErrRemoved, ErrReplaced, ErrHoard, ErrIntruder, ErrRestarted, ErrStopped} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// Knock probes a peer that has failed and may come back, once in ProbeAfter: it may have
// failed us as well, and then neither would speak again.
func (l *Link) Knock() {
	if now := l.env.now(); l.Away && now >= l.of.watchMsg.due {
		l.of.watchMsg.due = now.Add(l.env.Config.ProbeAfter)
		l.env.Sh.Tell(l.Peer, &knock)
	}
}

// knocks asks the peer to probe (endpoint -> peer).
type knocks struct{ shard.Message }

var knock knocks

// comeBack takes the peer back: it is heard although it has failed.
func (p *Peer) comeBack() {
	l := p.link
	if d := p.debts; d != nil {
		d.why = l.Err
	}
	l.Err, l.Away = nil, false
	l.Span = p.env.Trail.Next()
	p.env.Trail.Put(l.Span, trail.PeerBegin, 0, 0, 0)
	p.env.Trail.Locate(l.Span, l.Path, &l.Addr)
	p.env.Counters.PeersReturned++
	p.heardFrom()
	if p.asked = p.probing; l.Busy() {
		l.watch()
	}
	p.sendHandshakeIfQueued()
	p.env.Sh.Tell(p.env.Endpoint, &Up{Link: l})
	p.debts.pay(p)
}

// bury gives up what was kept of a peer that might have come back.
func (p *Peer) bury(err error) {
	l := p.link
	l.Err, l.Away = err, false
	p.debts = nil
	l.untold = nil
	p.env.Mem.Early -= int64(p.window.Held())
	p.window.Drain((*Packet).Free)
	clear(p.nacked)
	for id, m := range p.multi {
		delete(p.multi, id)
		if m.missing = 0; m.packets == 0 {
			p.env.Pool.putMulti(m)
		}
	}
}

// buryLater is bury of a peer that failed before.
func (p *Peer) buryLater(err error) {
	if !p.link.Away || mayReturn(err) {
		return
	}
	p.bury(err)
	p.link.failMembers(err)
	p.env.Sh.Tell(p.env.Endpoint, &Buried{Link: p.link})
	if errors.Is(err, ErrLeft) { // which it failed of, or what its end is in any case
		p.env.Sh.Tell(p.env.Endpoint, &Down{Link: p.link, Err: err})
	}
}
