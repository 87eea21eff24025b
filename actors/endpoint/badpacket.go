package endpoint

import "github.com/efactor/efactor/actors/peer"

// onBadPacket tells of a packet that was dropped.
func (e *Endpoint) onBadPacket(m *peer.BadPacket) {
	ev := Event{Kind: BadPacket, Handle: peer.Unlisted, Err: m.Err}
	if l := m.Link; l != nil {
		ev.Handle, ev.Addr, ev.Path = l.Handle, l.Addr, l.Path
	}
	e.cfg.OnEvent(ev)
}
