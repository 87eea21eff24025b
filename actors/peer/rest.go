package peer

import (
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Rest is what is remembered of a peer that was let go while nothing was in progress with it,
// so that it goes on where it was when it is heard again: nobody else knows the msg_ids of the
// two directions, and it sends HANDSHAKE once.
type Rest struct {
	QKey     uint32 // its connid
	Gone     bool   // its process is dead: what comes is late
	expected uint32 // the msg_id whose turn it is
	next     uint32 // msg_id of ours

	features  wire.Features
	userQP    wire.UserRecvQP
	family    uint32
	heard     clock.Time
	keysWrong int32
	unknown   int32 // Link.UnknownAborts
	hostID    uint64

	handshake                          handshakeState
	handshaken, hasFamily, otherErrors bool
}

// Idle reports whether nothing is in progress with the peer, nothing of its is kept here, and
// nothing under way to it: then it can be let go.
func (l *Link) Idle() bool {
	p := l.of
	return l.Err == nil && !l.Away && !l.Busy() && l.held == 0 && !l.Backoff && l.out == 0 && l.Runt == 0 && l.putOff == 0 &&
		!l.overfull && (l.untold == nil || len(l.untold.ids) == 0) &&
		p.lineHead == nil && p.rnrHead == nil && p.holds == nil && p.debts == nil && !p.probing && !p.failing &&
		p.handshake != handshakeQueued && p.window.held == 0 && len(p.multi) == 0 && len(p.nacked) == 0 &&
		!l.env.Q.Holds(l.Peer)
}

// LastHeard is when the peer was last heard.
func (l *Link) LastHeard() clock.Time { return l.heard }

// LetGo returns what is to be remembered of a peer if it is idle, and no message is under way
// to its actor, nor to the endpoint, which may be its own. Then the caller stops that in the same step.
func (l *Link) LetGo() (Rest, bool) {
	sh := l.env.Sh
	if !l.Idle() || !sh.Unburdened(l.Peer) || shard.Pending(l.env.Endpoint) > 0 {
		return Rest{}, false
	}
	l.Admitted()
	sh.StopTimer(&l.of.watchMsg.timer)
	l.env.Trail.Outcome(l.Span, trail.PeerEnd, 0, nil)
	p := l.of
	return Rest{
		QKey: l.QKey, expected: p.window.Expected(), next: p.nextID,
		features: l.Features, userQP: l.UserQP, family: l.Family, heard: l.heard,
		keysWrong: l.keysWrong, unknown: l.UnknownAborts, hostID: l.HostID(),
		handshake: p.handshake, handshaken: l.Handshaken, hasFamily: l.hasFamily, otherErrors: l.otherErrors,
	}, true
}

// Restore has a peer that was just made go on where r was let go.
func (l *Link) Restore(r *Rest) {
	p := l.of
	p.window = NewWindow(l.env.Config.RecvWindow, r.expected)
	if l.env.Config.Unordered {
		p.window.Loosen()
	}
	if r.hostID != 0 {
		l.noteHostID(r.hostID)
	}
	p.nextID, l.floor = r.next, r.next
	p.handshake = r.handshake
	l.Features, l.UserQP, l.Family, l.hasFamily = r.features, r.userQP, r.family, r.hasFamily
	l.Handshaken, l.otherErrors, l.heard = r.handshaken, r.otherErrors, r.heard
	l.keysWrong, l.UnknownAborts = r.keysWrong, r.unknown
	l.chooseHeaders()
}

// Wait holds a peer back for which there is no room until Admitted, if its device can do that.
// What it sends up to the message upto has come, or comes through: the turn of one that is here
// must not wait for one that is refused.
func (l *Link) Wait(upto uint32) {
	l.waits = true
	if l.path().HoldsBack {
		_ = l.env.Q.QP().HoldBack(l.AH, l.QPN, true, upto+1) // as in holdBack
	}
}

// Waiting gives a peer that is held back a sign of life, and holds it back once more: its
// packets may come by a new connection.
func (l *Link) Waiting() {
	l.holdBack(true)
	l.Probe()
}

// Admitted ends what Wait began.
func (l *Link) Admitted() {
	if l.waits {
		if l.waits = false; !l.overfull {
			l.holdBack(false)
		}
	}
}

// HoldAgain holds a peer back that is to be, after what held another back at its queue pair has
// ended.
func (l *Link) HoldAgain() {
	if l.waits || l.overfull {
		l.holdBack(true)
	}
}
