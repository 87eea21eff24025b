package peer

import (
	"github.com/efactor/efactor/actors/snapshot"
	"github.com/efactor/efactor/actors/trail"
)

// Snapshot describes the peer.
func (l *Link) Snapshot() snapshot.Peer {
	p, now := l.of, l.env.now()
	s := snapshot.Peer{
		Address: l.Addr.String(), Device: l.path().Device, State: l.state(), Handshake: p.shaken(), Silent: now.Sub(l.heard),
		NextID: p.nextID, ExpectedID: p.window.Expected(), OutOfOrder: p.window.Held(), HeldBytes: l.held,
	}
	if l.Handle != Unlisted {
		h := l.Handle
		s.Handle = &h
	}
	if l.Handshaken {
		for _, f := range l.Features.List() {
			s.Features = append(s.Features, f.String())
		}
	}
	if l.Backoff {
		s.BackingOff = now.Sub(p.backingOff.since)
	}
	for m := l.members; m != nil; m = m.next {
		s.Operations++
	}
	for t := p.lineHead; t != nil; t = t.next {
		s.InLine++
	}
	for pke := p.rnrHead; pke != nil; pke = pke.Next {
		s.Resends++
	}
	if l.Err != nil {
		s.Err = l.Err.Error()
	}
	return s
}

func (l *Link) state() string {
	switch {
	case l.Err != nil:
		return "failed"
	case l.Backoff:
		return "backing off"
	case l.Known():
		return "ready"
	default:
		return "new"
	}
}

func (p *Peer) shaken() string {
	switch sent := p.handshake == handshakeSent; {
	case sent && p.link.Handshaken:
		return "both"
	case sent:
		return "sent"
	case p.link.Handshaken:
		return "received"
	default:
		return "none"
	}
}

// Waits says what an operation in the line waits for.
func (t *Turn) Waits() string {
	switch t.waits {
	case trail.ForBackoff:
		return "the end of back-off after RNR"
	case trail.ForHandshake:
		return "HANDSHAKE"
	case trail.ForRoom:
		return "room in the send queue"
	case trail.ForArrival:
		return "the arrival of messages far before it"
	default:
		return "its turn: others are before it in the peer's line"
	}
}
