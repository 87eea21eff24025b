package peer

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// A packet with another connid than that of the peer at its queue pair is of a new endpoint
// there, or a late one of a former endpoint. The packet does not say which, but the queue pair
// does: its Q_Key is the connid (§1.4), so HANDSHAKE, which the new one gets anyway, arrives
// if it is there.

// Tried says whether a peer on trial is at its place (peer -> endpoint).
type Tried struct {
	shard.Message
	Link *Link
	OK   bool
}

// Try puts a peer that was just made on trial: it gets HANDSHAKE. Tried follows.
func (l *Link) Try() {
	l.tried = true
	p := l.of
	if p.answer(); p.handshake == handshakeNone {
		p.endTrial(true)
	}
}

// tryEnds takes the end of a packet, which decides if it is HANDSHAKE of a peer on trial. Only
// the device's word that no such queue pair is there speaks against the peer.
func (p *Peer) tryEnds(pke *device.Pke, s device.Status) {
	if pke.Type() == uint8(wire.TypeHandshake) {
		p.endTrial(s != device.StatusBadDestQPN)
	}
}

func (p *Peer) endTrial(ok bool) {
	if p.link.tried {
		p.link.tried = false
		p.env.Sh.Tell(p.env.Endpoint, &Tried{Link: p.link, OK: ok})
	}
}
