package peer

import (
	"slices"

	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
)

// What a peer sent and nobody asked for is kept, and counted here. Nothing that its device
// has acknowledged may be dropped, so what it begins is refused before it is acknowledged:
// when the peer has used up PeerMemory, or all peers have used up TotalMemory and as much
// again as is let in slowly (the endpoint's pressure). Where our device can hold one sender
// back (device.Info's HoldsBack), its answers still get through.

// Full is the peers of an endpoint that are over a limit. The endpoint lets them go on, see
// Relieve, and keeps in touch with them meanwhile: they get nothing through that says that we
// live.
type Full struct{ links []*Link }

// Crowded says that a peer is over PeerMemory (peer -> endpoint).
type Crowded struct {
	shard.Message
	Link *Link
}

// Relieved says that a peer is well below it again (peer -> endpoint).
type Relieved struct {
	shard.Message
	Link *Link
}

// Hold accounts n bytes kept for the peer that nobody asked for, Release gives them back.
func (l *Link) Hold(n int) {
	l.held += int64(n)
	m := &l.env.Mem
	m.Held += int64(n)
	m.Peak = max(m.Peak, m.Held)
	if l.held > l.env.Config.PeerMemory || m.Held > l.env.Config.Hard() {
		overMemory(l)
	}
}

// Release gives back what Hold took.
func (l *Link) Release(n int) {
	l.held -= int64(n)
	l.env.Mem.Held -= int64(n)
}

// Held is the number of bytes held for the peer.
func (l *Link) Held() int64 { return l.held }

// maxLate is how much of a peer that is held back may arrive all the same: what was
// under way, and parts of messages that had begun.
const maxLate = 64 << 20

// overMemory holds the peer back. One that does not heed that has failed.
func overMemory(l *Link) {
	if l.Err != nil {
		return
	}
	e := l.env
	can, own := l.path().HoldsBack, l.held > e.Config.PeerMemory
	if !l.overfull && (can || own) {
		l.overfull = true
		e.Full.links = append(e.Full.links, l)
		holdBack(l, true)
	}
	if own && !l.crowded {
		l.crowded = true
		e.Counters.PeersCrowded++
		e.Trail.Put(l.Span, trail.Pressure, 0, uint64(l.held), 0)
		e.Sh.Tell(e.Endpoint, &Crowded{Link: l})
	}
	if can && l.held > 2*e.Config.PeerMemory+maxLate {
		e.Counters.PeerOverMemory++
		e.Sh.Tell(l.Peer, &Remove{Err: ErrHoard, Tell: true})
	}
}

// holdBack says it to our device. If that cannot, the endpoint's limit must do.
func holdBack(l *Link, on bool) {
	if l.path().HoldsBack {
		_ = l.env.Q.QP().HoldBack(l.AH, l.QPN, on) // the handle is good as long as the peer is
	}
}

// letGo ends that the peer is held back.
func letGo(l *Link) {
	l.overfull = false
	holdBack(l, false)
	if l.crowded {
		l.crowded = false
		l.env.Trail.Put(l.Span, trail.Relieved, 0, uint64(l.held), 0)
		l.env.Sh.Tell(l.env.Endpoint, &Relieved{Link: l})
	}
}

// Relieve lets those go on that are at three quarters of PeerMemory or below, once all
// together are within TotalMemory. Peers that have failed have left by themselves.
func (f *Full) Relieve() {
	f.links = slices.DeleteFunc(f.links, func(l *Link) bool {
		c, m := &l.env.Config, &l.env.Mem
		if l.held > c.PeerMemory-c.PeerMemory/4 || m.Held > c.TotalMemory {
			return false
		}
		letGo(l)
		Probe(l) // it need not wait for the end of its back-off
		return true
	})
}

// Len is how many there are.
func (f *Full) Len() int { return len(f.links) }

// Tend tells them that we live. It holds them back once more: their packets may come by a new
// connection of which our device did not know.
func (f *Full) Tend() {
	for _, l := range f.links {
		holdBack(l, true)
		Probe(l)
	}
}

// leave takes a failed peer out: what comes in its place is not it.
func (f *Full) leave(l *Link) {
	if l.overfull {
		f.links = slices.DeleteFunc(f.links, func(x *Link) bool { return x == l })
		letGo(l)
	}
}
