package peer

import (
	"time"

	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
)

// Snapshot is a remote endpoint at one moment. As JSON, durations are nanoseconds.
type Snapshot struct {
	Address    string        `json:"address"`        // as efa.Address has it, on Device
	Name       string        `json:"name,omitempty"` // in the address vector
	Device     string        `json:"device"`         // that carries to it
	Handle     *uint64       `json:"handle"`         // in the address vector, null: not in it
	State      string        `json:"state"`          // "new", "ready", "backing off", "failed"
	Handshake  string        `json:"handshake"`      // "none", "sent", "received", "both"
	Features   []string      `json:"features,omitempty"`
	HostID     uint64        `json:"host_id,omitempty,string"` // as its HANDSHAKE has it; 0: it sent none
	Silent     time.Duration `json:"silent"`                   // since it last gave a sign of life
	BackingOff time.Duration `json:"backing_off,omitempty"`
	Operations int           `json:"operations"` // in progress
	InLine     int           `json:"in_line"`    // that wait for their turn
	Resends    int           `json:"resends"`    // packets that wait for the end of back-off
	NextID     uint32        `json:"next_msg_id"`
	ExpectedID uint32        `json:"expected_msg_id"`
	OutOfOrder int           `json:"out_of_order"` // packets that wait for it
	HeldBytes  int64         `json:"held_bytes"`
	Err        string        `json:"error,omitempty"`
}

// Snapshot describes the peer.
func (l *Link) Snapshot() Snapshot {
	p, now := l.of, l.env.now()
	s := Snapshot{
		Address: l.URI(), Name: l.NameOf(), Device: l.path().Device, State: l.state(), Handshake: p.shaken(), Silent: l.silent(now),
		HostID: l.HostID(), NextID: p.nextID, ExpectedID: p.window.Expected(), OutOfOrder: p.window.Held(), HeldBytes: l.held,
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
	case l.putOff > 0:
		return "holds us back"
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

// silent is for how long nothing was heard of the peer.
func (l *Link) silent(now clock.Time) time.Duration {
	if l.path().Pulse {
		return now.Sub(l.heard)
	}
	return now.Sub(max(l.heard, l.reached))
}
