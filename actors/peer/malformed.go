package peer

import (
	"fmt"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// ErrMalformed ends a message of which a packet came that cannot be read.
var ErrMalformed = fmt.Errorf("%w: a packet of the message cannot be read", errno.ErrIO)

// unreadable drops a packet of which the headers cannot be read. Its sender takes it for
// arrived. If it says which message it belongs to, that one ends alone: its turn is passed
// over, or what has begun ends with ErrMalformed, so that the later ones are received.
func (p *Peer) unreadable(r *device.RecvPkt, pkt *Packet, err error) {
	p.env.Counters.bad(err)
	p.env.Complain(p.link, err)
	id, ok := r.View.MsgID()
	if !ok || pkt.Nack {
		pkt.Free()
		return
	}
	pkt.reset()
	pkt.MsgID, pkt.Type, pkt.Ref, pkt.Malformed = id, wire.TypePeerError, wire.RefMsgIDSkip, true
	p.env.Counters.Malformed++
	p.skip(pkt)
}

// reset takes back what parse has made of a packet.
func (p *Packet) reset() {
	if p.Ext != nil {
		p.pool.putExt(p.Ext)
		p.Ext = nil
	}
	p.Header, p.Payload = Header{}, nil
}

// BadPacket says that a packet was dropped which no endpoint sends, or which may not be taken
// for reasons of trust (peer -> endpoint).
type BadPacket struct {
	shard.Message
	Link *Link // nil: of no peer that is known
	Err  error
}

// complaints is how many BadPackets there were lately: a peer that sends garbage must not fill the
// list of events.
type complaints struct {
	spent int
	since clock.Time // when spent was counted
}

// There may be as many in a row, then one each complainEvery.
const (
	complainBurst = 8
	complainEvery = time.Second
)

// Complain has the endpoint make an event of a packet of l's, or of nobody's if that is nil,
// which is dropped for err, unless there were many lately. Counters have them all.
func (e *Env) Complain(l *Link, err error) {
	c, now := &e.complaints, e.now()
	if n := int(now.Sub(c.since) / complainEvery); n > 0 {
		c.spent, c.since = max(c.spent-n, 0), now
	}
	if c.spent < complainBurst {
		c.spent++
		e.Sh.Tell(e.Endpoint, &BadPacket{Link: l, Err: err})
	}
}
