package peer

import "github.com/efactor/efactor/wire"

// A message of one packet that need not wait for anything takes a short way: no
// operation is made for it, and no message passes between actors, so nothing of what
// is here is called while such messages are under way on the shard. What is counted,
// spent and checked is the same as on the long way (Submit and Grant, onArrived).

// NextID is the msg_id of a message that may go out now; false if it would have to
// stand in line. [Link.Spend] takes it.
func (l *Link) NextID() (id uint32, ok bool) {
	p := l.of
	if l.Err != nil || l.Backoff || p.lineHead != nil || p.env.Config.WaitHandshake && !l.Known() {
		return 0, false
	}
	return p.nextID, l.mayRun(p.nextID)
}

// Spend notes that the device has taken a packet with the msg_id of NextID.
func (l *Link) Spend() {
	l.of.nextID++
	l.of.asked = true
}

// LastID is the msg_id that was spent last.
func (l *Link) LastID() uint32 { return l.of.nextID - 1 }

// ReadShort parses the header of an eager message from the peer, and returns its
// bytes: false if it is anything else, is not wholly right, or if it is not its turn.
// Nothing has changed until [Link.TookShort].
func (l *Link) ReadShort(h *wire.EagerRTM, b []byte) (payload []byte, ok bool) {
	p := l.of
	base, err := wire.ParseBase(b)
	if err != nil || base.Type != wire.TypeEagerMsgRTM && base.Type != wire.TypeEagerTagRTM ||
		base.Flags&wire.FlagRawAddr != 0 || p.handshake != handshakeSent || l.Err != nil ||
		p.window.held != 0 || len(p.multi) != 0 {
		return nil, false
	}
	n, err := h.Parse(b)
	if err != nil || h.MsgID != p.window.exp || h.HasConnID && h.ConnID != l.QKey {
		return nil, false
	}
	return b[n:], true
}

// TookShort notes that the message that ReadShort returned was received.
func (l *Link) TookShort(h *wire.EagerRTM) {
	p := l.of
	p.env.Counters.PacketsRecv[h.Type()]++
	p.heardFrom()
	p.window.Advance()
}
