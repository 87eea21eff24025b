package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// giveUp: the operation has failed here, and what the other side has of it must end
// as well. A peer that knows PEER_ERROR gets it once no packet is under way, or when it
// comes back; another one would wait for the msg_id, or for the rest, for ever.
func (t *Txe) giveUp() {
	p, l := t.pools, t.link
	if l.Err != nil && !l.Away || p.Closing || t.abortDue {
		return
	}
	if t.m.Proto == ErrorOnly {
		t.outgoing.lostError()
		return
	}
	if !t.spent && !t.hasPeer {
		if protos[t.m.Proto].cts && t.m.Sent > 0 {
			l.Untold(t.id) // it has begun there, perhaps
		}
		return
	}
	if l.Can(wire.FeaturePeerError) && (l.Err != nil || !t.m.Proto.readBased()) || l.Err != nil && !l.Known() {
		t.abortDue = true
		return
	}
	if t.spent {
		t.lostID(t.err)
	}
}

// lostError: a PEER_ERROR did not arrive, or cannot go out. What it is about the peer would
// await for ever, so it is failed, and gets the packet if it comes back.
func (t *outgoing) lostError() {
	l := t.link
	if l.Err == nil {
		t.pools.env.Sh.Tell(l.Peer, &peer.Remove{
			Err: fmt.Errorf("%w: PEER_ERROR is lost: %w", peer.ErrPeerFailed, t.err), Tell: true,
		})
	}
	l.Owe(t.responseHeader(nil))
}

// notUnderstood: the peer's HANDSHAKE says that it does not know PEER_ERROR. A msg_id that it
// was to skip it awaits for ever.
func (t *outgoing) notUnderstood() {
	if t.x.ref == wire.RefOpe {
		return
	}
	t.pools.env.Sh.Tell(t.link.Peer, &peer.Remove{Err: errGap, Tell: true, Lost: true})
}

var errGap = fmt.Errorf("%w: a msg_id is lost, and the peer does not know PEER_ERROR", peer.ErrPeerFailed)

// incomplete reports whether the other side lacks something of the operation.
func (t *outgoing) incomplete() bool {
	return t.m.left > 0 || t.m.Sent < t.m.end || t.m.Proto.readBased() && t.m.answer || t.m.State == TxReq
}

// lostID: a packet that spent a msg_id failed for good. The other side would wait
// for that msg_id for ever, so it is failed until it comes back as a new endpoint.
func (t *outgoing) lostID(err error) {
	err = fmt.Errorf("%w: msg_id %d is lost: %w", peer.ErrPeerFailed, t.turn.MsgID, err)
	t.pools.env.Sh.Tell(t.link.Peer, &peer.Remove{Err: err, Tell: true, Lost: true})
}

// abortPeer sends PEER_ERROR: with the other side's id if it gave us one, else
// with the msg_id, of which it may have seen nothing. A request that did not arrive by what the
// device says may have been seen all the same: one after which more is to come, by CTSDATA or
// by reading, has to end there, too.
func (t *outgoing) abortPeer() {
	switch {
	case t.hasPeer:
		t.sendAborted(wire.RefOpe, t.peerID)
	case t.m.Acked == 0 && !t.nacked && !t.m.Proto.readBased() && !protos[t.m.Proto].cts:
		t.sendAborted(wire.RefMsgIDSkip, t.turn.MsgID)
	default:
		t.sendAborted(wire.RefMsgID, t.turn.MsgID)
	}
}

// sendAborted reports the txe's end to the peer. One that cannot be told is failed.
func (t *outgoing) sendAborted(ref wire.RefKind, id uint32) {
	switch l := t.link; {
	case t.pools.SendError(l, ref, id, uint32(errno.ProvPeerAborted)):
		t.note(trail.Answer, uint8(wire.TypePeerError), 0, 0)
	case t.pools.Closing || l.Err != nil && !l.Away:
	case t.spent:
		t.lostID(t.err)
	default:
		t.pools.env.Sh.Tell(l.Peer, &peer.Remove{
			Err: fmt.Errorf("%w: no room for PEER_ERROR: %w", peer.ErrPeerFailed, t.err), Tell: true,
		})
	}
}
