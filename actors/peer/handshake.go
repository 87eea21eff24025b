package peer

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// answer sends HANDSHAKE, once, on the first packet of any kind from the peer
// and before that packet is processed (§2.1).
func (p *Peer) answer() {
	if !p.answered && !p.link.load.flags.has(answering) {
		p.link.load.flags.set(answering)
		p.sendHandshake()
	}
}

// sendHandshake posts HANDSHAKE if it is to go out, or waits for room or for the end of back-off. A
// failure of the packet is no error of an operation (§2.3).
func (p *Peer) sendHandshake() {
	if !p.link.load.flags.has(answering) || p.link.Err != nil || p.link.BackingOff() {
		return
	}
	pke := p.env.Q.Alloc()
	if pke == nil {
		p.env.Q.AwaitSlot(&p.hsWait)
		return
	}
	c := &p.env.Config
	h := wire.Handshake{
		Features:  p.link.path().Features,
		HasConnID: true, ConnID: p.env.Addr.ConnID(),
		HasHostID: c.HostID != 0, HostID: c.HostID,
		HasDeviceVersion: true, DeviceVersion: p.link.path().DeviceID,
	}
	p.link.load.flags.clear(answering)
	if !p.post(pke, h.Append(pke.Header())) {
		return // the next packet is answered
	}
	p.answered = true
	p.env.Counters.HandshakesSent++
	p.env.Trail.Put(p.link.Span, trail.HandshakeSent, 0, h.Features[0], h.DeviceVersion)
}

// onHandshake learns what the peer can do and wants (§2.1). A second one is
// tolerated and ignored: releases differ in what they repeat.
//
// It reports false if the packet is a second one and does not say of whom it is, as some releases have it.
func (p *Peer) onHandshake(v *wire.View) bool {
	var h wire.Handshake
	if _, err := h.Read(v); err != nil {
		p.env.Counters.bad(err)
		return true
	}
	p.env.Counters.HandshakesRecv++
	if p.link.Handshaken {
		_, named := v.ConnID()
		return named
	}
	l := p.link
	l.Features = h.Features
	if l.UserQP = h.UserRecvQP; !h.HasUserRecvQP {
		l.Features.Clear(wire.FeatureUserRecvQP)
	}
	l.Family, l.hasFamily = h.DeviceVersion, h.HasDeviceVersion
	if h.HasP2P && !h.P2PSupported {
		// Its memory cannot be reached by the device: everything by copy.
		l.Features.Clear(wire.FeatureRDMARead)
		l.Features.Clear(wire.FeatureRDMAWrite)
	}
	l.Handshaken = true
	l.chooseHeaders()
	if h.HasHostID {
		l.noteHostID(h.HostID)
		p.env.Trail.Put(l.Span, trail.HostID, 0, h.HostID, 0)
	}
	p.env.Trail.Put(l.Span, trail.HandshakeReceived, 0, h.Features[0], h.DeviceVersion)
	l.known()
	p.link.load.owed.send(p)
	p.resume()
	p.serveLine()
	return true
}

// CheckConnID checks whether a peer that was just made is at its queue pair. ConnIDChecked
// follows. It is asked for when a packet has another connid than that of the peer at its queue
// pair: the packet is of a new endpoint there, or a late one of a former endpoint. The packet
// does not say which, but the queue pair does: its Q_Key is the connid (§1.4), so HANDSHAKE,
// which the new one gets anyway, arrives if it is there.
func (l *Link) CheckConnID() {
	l.of.answer()
}

// Ask has a peer say by ConnIDChecked whether it is at its queue pair, where a newcomer is on trial that is not there:
// either that has ended, and the peer before it, or its packets were late. It returns how many answers come: a probe that
// is under way already says what was.
func (l *Link) Ask() int {
	l.load.flags.set(questioned)
	l.Probe()
	if l.load.flags.has(probing) {
		return 2
	}
	return 1
}

// onChecked takes the end of a packet, which decides if it is HANDSHAKE to a peer on trial, or a probe of one
// that is asked. Only the device's word that no such queue pair is there speaks against the peer. That a probe has arrived speaks for
// it, unless our own device has copied it, perhaps for a process that is dead: then its answer does. After RNR, which may
// be our own device's word, the packet goes out again.
func (p *Peer) onChecked(pke *device.Pke, s device.Status) {
	l, gone := p.link, s == device.StatusBadDestQPN
	switch wire.Type(pke.Type()) {
	case wire.TypeHandshake:
		if l.place != PlaceOnTrial || s == device.StatusRNR {
			return
		}
	case wire.TypeEagerRTW:
		if l.place == PlaceOnTrial || !pke.Owner.IsZero() || !gone && (s != device.StatusOK || l.path().Pulse) {
			return
		}
	default:
		return
	}
	p.env.Sh.Tell(p.env.Endpoint, &ConnIDChecked{Link: l, OK: !gone})
}
