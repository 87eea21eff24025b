package peer

import (
	"math/bits"
	"slices"

	"github.com/efactor/efactor/actors/trail"
)

// Memory counts the bytes that an endpoint keeps for its peers: packets out of order and
// unexpected messages. A packet that the peer's device has acknowledged may not be dropped,
// so further messages are refused before they are acknowledged: when the peer has used up
// PeerMemory, or all peers have used up TotalMemory and as much again as is let in slowly
// (the endpoint's pressure). Where our device can hold one sender back (device.Info's
// HoldsBack), that peer's answers still get through.
type Memory struct {
	Charged int64 // bytes
	Peak    int64
	// Strangers is bytes beside Charged, for peers in no address vector beyond those that may be.
	Strangers int64
	Early     int64 // packets that wait for their turn in the order of messages
}

// Total is the bytes that TotalMemory bounds.
func (m *Memory) Total() int64 { return m.Charged + m.Strangers }

// HeldBack is the peers of an endpoint that are held back since a limit is exceeded. The
// endpoint lets them go on, see Relieve, and keeps in touch with them meanwhile: they get
// nothing through that says that we live.
type HeldBack struct{ links []*Link }

// Charge adds n bytes that are kept for the peer. Uncharge takes them off.
func (l *Link) Charge(n int) {
	l.load.charged += int64(n)
	l.env.Weigh = true
	m := &l.env.Mem
	m.Charged += int64(n)
	m.Peak = max(m.Peak, m.Charged)
	if l.load.charged > l.env.Config.PeerMemory || m.Charged > l.env.Config.Hard() {
		l.checkLimits()
	}
}

// Uncharge takes off n bytes that Charge added.
func (l *Link) Uncharge(n int) {
	l.load.charged -= int64(n)
	l.env.Mem.Charged -= int64(n)
}

// Charged is the number of bytes kept for the peer.
func (l *Link) Charged() int64 { return l.load.charged }

// maxLate is how much of a peer that is held back may arrive all the same: what was
// under way, and parts of messages that had begun.
const maxLate = 64 << 20

// holdBackStep is how much more of a peer that is held back arrives before the device, which may
// have lost that, is asked for it once more.
const holdBackStep = 1 << 20

// checkLimits holds the peer back if a limit is exceeded. A peer that goes on sending has failed.
func (l *Link) checkLimits() {
	if l.Err != nil {
		return
	}
	e := l.env
	can, most := l.path().HoldsBack, e.Config.PeerMemory
	own := l.load.charged > most
	if own || can && e.Mem.Charged > e.Config.Hard() {
		l.holdBackFor(own)
	}
	early := min(l.load.charged, int64(l.of.window.Kept())*int64(e.MTU)) // at most: packets that wait for their turn
	if early > most+maxLate || can && l.load.charged > 2*most+maxLate {
		e.Counters.PeerOverMemory++
		e.Sh.Tell(l.Peer, &Remove{Err: ErrOverMemory, Tell: true})
	}
}

// holdBackFor holds the peer back, for its own messages or for those of all peers.
func (l *Link) holdBackFor(own bool) {
	e := l.env
	if !l.load.flags.has(heldBack) {
		l.load.flags.set(heldBack)
		e.HeldBack.links = append(e.HeldBack.links, l)
		l.holdBack(true)
		l.holdBackAt = int32(l.load.charged/holdBackStep) + 1
	} else if l.load.charged/holdBackStep >= int64(l.holdBackAt) {
		l.holdBack(true)
		l.holdBackAt = int32(l.load.charged/holdBackStep) + 1
	}
	if own && !l.load.flags.has(overLimit) {
		l.load.flags.set(overLimit)
		e.Counters.PeersCrowded++
		e.Trail.Put(l.Span, trail.Pressure, 0, uint64(l.load.charged), 0)
		e.Sh.Tell(e.Endpoint, &OverLimit{Link: l})
	}
}

// HoldBackForOps holds a peer back, of which a request waits since no operation is free, until the
// endpoint lets those go on that are held back.
func (l *Link) HoldBackForOps() {
	if l.Err == nil {
		l.holdBackFor(false)
	}
}

// holdBack has our device hold the peer back, or ends that. If that cannot, the endpoint's limit must do. Messages that
// have begun may go on: what is refused is later than all that came.
func (l *Link) holdBack(on bool) {
	if l.path().HoldsBack {
		_ = l.env.Q.QP().HoldBack(l.AH, l.QPN, on, l.of.window.Last()+1) // the handle is good as long as the peer is
	}
}

// endHoldBack lets a peer go on that was over a limit.
func (l *Link) endHoldBack() {
	l.load.flags.clear(heldBack)
	l.holdBack(l.heldForRoom())
	if l.load.flags.has(overLimit) {
		l.load.flags.clear(overLimit)
		l.env.Trail.Put(l.Span, trail.Relieved, 0, uint64(l.load.charged), 0)
		l.env.Sh.Tell(l.env.Endpoint, &WithinLimit{Link: l})
	}
}

// Relieve lets those go on that are at three quarters of PeerMemory or below, once all
// together are within TotalMemory. Peers that have failed have left by themselves.
func (f *HeldBack) Relieve() {
	f.links = slices.DeleteFunc(f.links, func(l *Link) bool {
		c, m := &l.env.Config, &l.env.Mem
		if l.load.charged > c.PeerMemory-c.PeerMemory/4 || m.Charged > c.TotalMemory {
			return false
		}
		l.endHoldBack()
		l.Probe() // it need not wait for the end of its back-off
		return true
	})
}

// Len is how many there are.
func (f *HeldBack) Len() int { return len(f.links) }

// Tend tells them that we live. It holds them back once more: their packets may come by a new
// connection of which our device did not know.
func (f *HeldBack) Tend() {
	for _, l := range f.links {
		l.holdBack(true)
		l.Probe()
	}
}

// remove takes a failed peer out: what comes in its place is another, which may be held back
// itself.
func (f *HeldBack) remove(l *Link) {
	if l.load.flags.has(heldBack) {
		f.links = slices.DeleteFunc(f.links, func(x *Link) bool { return x == l })
		l.endHoldBack()
		for _, x := range f.links {
			if x.AH == l.AH && x.QPN == l.QPN {
				x.holdBack(true)
			}
		}
	}
}

// HoldBackForRoom holds a peer back for which there is no room, until HasRoom, if its device
// can do that. Messages up to upto come through: the turn of one that is here must not wait
// for one that is refused.
func (l *Link) HoldBackForRoom(upto uint32) {
	if l.path().HoldsBack {
		_ = l.env.Q.QP().HoldBack(l.AH, l.QPN, true, upto+1) // as in holdBack
	}
}

// HasRoom ends what HoldBackForRoom began.
func (l *Link) HasRoom() {
	if !l.load.flags.has(heldBack) {
		l.holdBack(false)
	}
}

// heldForRoom reports whether the peer is at a place where it is held back for want of room.
func (l *Link) heldForRoom() bool { return l.place == PlaceWaiting || l.place == PlaceOnTrial }

// TendHeldBack gives a peer that is held back a sign of life, and holds it back once more: its
// packets may come by a new connection.
func (l *Link) TendHeldBack() {
	l.holdBack(true)
	l.Probe()
}

// HoldBackAgain holds a peer back that is to be, after another at its queue pair was let go.
func (l *Link) HoldBackAgain() {
	if l.heldForRoom() || l.load.flags.has(heldBack) {
		l.holdBack(true)
	}
}

// blocks keeps memory for copied packets in powers of two, so that a flood of
// small messages costs small blocks and no garbage.
type blocks struct {
	free [maxClass + 1][][]byte
	kept int
}

const (
	minClass = 6  // 64 B
	maxClass = 16 // 64 KiB
	// keepBytes bounds what is kept for reuse.
	keepBytes = 16 << 20
)

func classOf(n int) int { return max(bits.Len(uint(n-1)), minClass) }

// get returns a block of at least n bytes, n > 0.
func (b *blocks) get(n int) []byte {
	c := classOf(n)
	if c > maxClass {
		return make([]byte, n)
	}
	if l := len(b.free[c]); l > 0 {
		p := b.free[c][l-1]
		b.free[c][l-1] = nil
		b.free[c] = b.free[c][:l-1]
		b.kept -= cap(p)
		return p[:n]
	}
	return make([]byte, n, 1<<c)
}

func (b *blocks) put(p []byte) {
	c := bits.Len(uint(cap(p))) - 1
	if cap(p) != 1<<c || c > maxClass || c < minClass || b.kept+cap(p) > keepBytes {
		return
	}
	b.kept += cap(p)
	b.free[c] = append(b.free[c], p)
}
