package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// onLost: a packet of the operation's own will never arrive, or a read failed.
func (r *Rxe) onLost(m *peer.SendFailed) {
	read, data, t := m.Pke.Kind() == device.WRRead, m.Pke.Local(), wire.Type(m.Pke.Type())
	r.pools.env.Q.Free(m.Pke)
	if !r.busy {
		return
	}
	if !read {
		r.flying--
		r.lostPacket(t, m.Err)
		return
	}
	if r.x.bouncing {
		r.x.unbounce(data)
	}
	if !r.must(r.m.ReadFailed()) {
		return
	}
	if r.x.broken == 0 {
		r.x.broken, r.x.failure = m.Status, m.Err
	}
	r.x.onBroken()
}

// onBroken: reading has failed. Once no read is under way the sender gets PEER_ERROR,
// or is asked for the data in packets.
func (d *reader) onBroken() {
	r := d.r
	if r.m.reading > 0 || r.m.State != RxMatched {
		r.settle()
		return
	}
	if r.m.Proto != DirectRead && !r.link.Known() && r.link.Err == nil && !r.drops() {
		if !r.hold.Queued() {
			r.note(trail.Waits, uint8(trail.ForHandshake), 0, 0)
		}
		r.hold.Await(r.link, r.ref, false) // HANDSHAKE says what the sender understands
		return
	}
	failed, status := d.failure, d.broken
	d.broken, d.failure = 0, nil
	switch {
	case r.link.Err != nil:
		r.fail(r.link.Err)
	case r.drops():
		r.m.ForgoAll()
		r.gotData()
	case r.m.Proto != DirectRead && r.canRefuse() &&
		!(status == device.StatusBadAddress && r.link.Can(wire.FeaturePeerError)):
		d.refuse(failed)
		r.goOn()
	default:
		d.endReading(failed, status)
	}
}

// endReading ends an operation that cannot be read to its end. Its sender waits for
// EOR: it gets PEER_ERROR, or is failed if it does not know that.
func (d *reader) endReading(err error, s device.Status) {
	r := d.r
	if r.m.State.over() {
		return
	}
	if r.m.Proto != DirectRead && r.link.Err == nil {
		if r.link.Can(wire.FeaturePeerError) {
			r.sendError(uint32(s))
		} else {
			r.pools.env.Sh.Tell(r.link.Peer, &peer.Remove{
				Err: fmt.Errorf("%w: it cannot be told that its memory was not read: %w", peer.ErrPeerFailed, err), Tell: true,
			})
		}
	}
	r.m.StopReading()
	r.end(err)
}
