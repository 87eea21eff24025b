package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// canRefuse reports whether the sender understands READ_NACK: for writes releases
// before 2.0 do not, although they say that they do for messages, and those after
// cannot be told from them but by PEER_ERROR.
func (r *incoming) canRefuse() bool {
	if r.target && !r.link.Can(wire.FeaturePeerError) {
		return false
	}
	return r.link.Can(wire.FeatureReadNACK) && !r.asks() && r.m.Proto != DirectRead
}

// refuse asks the sender for the rest in packets, once those that are under way
// are in; if it does not know how, the operation ends with err.
func (d *reader) refuse(err error) {
	r := d.r
	if !r.canRefuse() {
		d.endReading(err, device.StatusUnsupportedOp)
		return
	}
	d.refusing = true
	r.m.StopReading()
	d.checkRefused()
}

// checkRefused posts READ_NACK when all that comes without reading is in (§4.7).
func (d *reader) checkRefused() {
	r := d.r
	if !d.refusing || !r.m.PacketsIn() || r.m.reading > 0 || r.m.State != RxMatched {
		return
	}
	d.refusing, d.nacked = false, true
	if !r.must(r.m.Refuse()) {
		return
	}
	r.owes |= owesNACK
	if r.ord != nil {
		r.pools.env.Sh.Tell(r.link.Peer, &peer.Nacked{MsgID: r.says.MsgID, Rx: r.ref})
	}
}

// onReplaced: the sender begins again with long-CTS.
func (d *reader) onReplaced(p *peer.Packet) {
	r := d.r
	if !d.nacked || r.m.State != RxMatched || r.ord == nil {
		r.strange(p)
		return
	}
	if p.Length != r.m.Total || len(p.Payload) > 0 {
		r.pools.env.Counters.BadLength++
		err := fmt.Errorf("%w: %w: a replacement of %d bytes", errno.ErrIO, ErrViolation, p.Length)
		p.Free()
		r.fail(err) // there will be no other one
		return
	}
	d.nacked = false
	r.says.SendID = p.SendID
	r.m.Replace(protoOf[p.Type])
	r.pools.Mix.Served[r.m.Proto]++
	r.note(trail.Chosen, uint8(r.m.Proto), theirs(r.link), r.says.MsgID)
	p.Free()
	r.goOn()
}
