package peer

import (
	"fmt"
	"slices"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// pendingControl is the control packets that a failed peer gets first if it comes back:
// RECEIPT, EOR and PEER_ERROR of operations that have ended.
type pendingControl struct {
	headers []pendingHeader // the oldest first
	sending bool            // the first of them is under way
	lost    bool            // a msg_id of ours is lost, and nothing makes up for that
	why     error           // the peer had failed, and came back; nil: it did not
	room    device.SlotWait
}

// pendingHeader is one of them.
type pendingHeader struct {
	b      []byte
	memory bool // a PEER_ERROR for a request for memory
	skips  bool // a PEER_ERROR that makes up for a msg_id of ours
}

// AddPending keeps a control packet for the peer, which has failed and may come back.
func (l *Link) AddPending(header []byte) { l.addPending(pendingHeader{b: header}) }

// AddPendingAbort is AddPending of a PEER_ERROR, see TakesAbort. If it skips a msg_id of ours, our direction
// stays closed to a peer that does not take it.
func (l *Link) AddPendingAbort(header []byte, memory, skips bool) {
	l.addPending(pendingHeader{header, memory, skips})
}

func (l *Link) addPending(h pendingHeader) {
	if !l.Buried() {
		d := l.needOwed()
		d.headers = append(d.headers, h)
	}
}

func (h *pendingHeader) is(t wire.Type) bool { return wire.Type(h.b[0]) == t }

// needOwed returns what the peer is owed, of which there may be nothing yet.
func (l *Link) needOwed() *pendingControl {
	if l.load.owed == nil {
		l.load.owed = new(pendingControl)
		if l.load.life == Live {
			l.live(LifeOwe)
		}
	}
	return l.load.owed
}

// send posts the first packet to a peer that has come back, unless it is under way. After the
// last one our direction is open.
func (d *pendingControl) send(p *Peer) {
	l := p.link
	switch {
	case d == nil || l.Err != nil || d.sending || l.BackingOff():
		return
	case len(d.headers) > 0 && (!l.Known() || d.headers[0].is(wire.TypePeerError) && !l.Handshaken && !l.Self):
		p.ask() // its HANDSHAKE says what it understands
		return
	}
	for len(d.headers) > 0 && d.headers[0].is(wire.TypePeerError) && !l.TakesAbort(d.headers[0].memory) {
		d.lost = d.lost || d.headers[0].skips
		d.headers = d.headers[1:]
	}
	if len(d.headers) == 0 {
		if d.headers = nil; !d.lost {
			l.load.owed = nil
			l.live(LifeSettle)
		}
		return
	}
	pke := p.env.Q.Alloc()
	if pke == nil {
		d.room.To, d.room.Control = l.Peer, true
		p.env.Q.AwaitSlot(&d.room)
		return
	}
	if d.sending = p.post(pke, append(pke.Header(), d.headers[0].b...)); !d.sending {
		p.fail(errPending, true)
		return
	}
	if d.headers[0].is(wire.TypePeerError) {
		p.env.Counters.PeerErrorsSent++
	}
}

// done takes the end of a packet that the peer actor sent itself, which may be one of these.
func (d *pendingControl) done(p *Peer, t wire.Type, arrived bool) {
	if d == nil || !d.sending || t == wire.TypeEagerRTW || t == wire.TypeHandshake {
		return
	}
	if d.sending = false; !arrived {
		p.fail(errPending, true) // to try again when it is heard, not at once
		return
	}
	if len(d.headers) > 0 {
		d.headers = d.headers[1:]
	}
	d.send(p)
}

// errPending is why a peer that has come back fails again.
var errPending = fmt.Errorf("%w: what it was owed did not arrive", ErrPeerFailed)

// orphans is the ids of operations of ours that ended while the peer may have had a part of
// them. No PEER_ERROR could be sent for them, since the peer's own id of the operation was not
// known yet. The peer names it in CTS or READRSP, which PEER_ERROR answers.
type orphans struct{ ids []uint32 }

// maxOrphans is how many there may be. Of more the oldest are forgotten: their rest stays
// with the peer until we are gone.
const maxOrphans = 1024

// AddOrphan notes the id of one more.
func (l *Link) AddOrphan(id uint32) {
	if l.load.orphans == nil {
		l.load.orphans = new(orphans)
	}
	u := l.load.orphans
	if len(u.ids) == maxOrphans {
		u.ids = append(u.ids[:0], u.ids[1:]...)
	}
	u.ids = append(u.ids, id)
}

// OfOrphan reports whether the packet, which names the operation id, is the peer's first word
// about it, after its end: then the endpoint answers. The operation may be there still, since
// the peer's answer can overtake the acknowledgement of what it answers.
func (p *Packet) OfOrphan(id uint32) bool { return p.Link.load.orphans.first(p, id) }

// first reports whether pkt is the first word about one of them, and forgets that one.
func (u *orphans) first(pkt *Packet, id uint32) bool {
	if u == nil || pkt.Type != wire.TypeCTS && pkt.Type != wire.TypeREADRSP {
		return false
	}
	i := slices.Index(u.ids, id)
	if i < 0 {
		return false
	}
	if u.ids = slices.Delete(u.ids, i, i+1); len(u.ids) == 0 {
		pkt.Link.load.orphans = nil
	}
	return true
}

// A message that is given up by its msg_id alone is looked for among all operations, which is slow. An honest
// peer asks for that once a message at most, and each that there was lately counts for one search; those that find
// nothing and are beyond that end the peer's right to it.
const (
	maxVain    = 1000
	recentMsgs = 1 << 16
)

// MaySearch reports whether a message that the peer gives up is to be looked for: it has operations in
// progress, and has not asked for too much that was not there.
func (l *Link) MaySearch() bool {
	p := l.of
	if l.load.members == nil {
		return false
	}
	if p.aborted == nil {
		p.aborted = new(abortedIDs)
	}
	b, at := p.aborted, p.window.Expected()+p.nextID
	b.vain = max(b.vain-int32(min(at-b.at, recentMsgs)), -recentMsgs)
	b.at = at
	return b.vain <= maxVain
}

// NotFound notes that MaySearch permitted a search that found nothing.
func (l *Link) NotFound() { l.of.aborted.vain++ }
