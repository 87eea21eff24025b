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
	l.env.Weigh = true
	m := &l.env.Mem
	m.Held += int64(n)
	m.Peak = max(m.Peak, m.Held)
	if l.held > l.env.Config.PeerMemory || m.Held > l.env.Config.Hard() {
		l.overMemory()
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

// holdAgain is how much more of a peer that is held back arrives before the device, which may
// have lost that, is asked for it once more.
const holdAgain = 1 << 20

// overMemory holds the peer back. One that does not heed that has failed.
func (l *Link) overMemory() {
	if l.Err != nil {
		return
	}
	e := l.env
	can, most := l.path().HoldsBack, e.Config.PeerMemory
	own := l.held > most
	if own || can && e.Mem.Held > e.Config.Hard() {
		l.hold(own)
	}
	early := min(l.held, int64(l.of.window.Held())*int64(e.MTU)) // at most: packets that wait for their turn
	if early > most+maxLate || can && l.held > 2*most+maxLate {
		e.Counters.PeerOverMemory++
		e.Sh.Tell(l.Peer, &Remove{Err: ErrHoard, Tell: true})
	}
}

// hold holds the peer back, which its own messages are the reason of, or those of all.
func (l *Link) hold(own bool) {
	e := l.env
	if !l.overfull {
		l.overfull = true
		e.Full.links = append(e.Full.links, l)
		l.holdBack(true)
		l.next = int32(l.held/holdAgain) + 1
	} else if l.held/holdAgain >= int64(l.next) {
		l.holdBack(true)
		l.next = int32(l.held/holdAgain) + 1
	}
	if own && !l.crowded {
		l.crowded = true
		e.Counters.PeersCrowded++
		e.Trail.Put(l.Span, trail.Pressure, 0, uint64(l.held), 0)
		e.Sh.Tell(e.Endpoint, &Crowded{Link: l})
	}
}

// holdBack says it to our device. If that cannot, the endpoint's limit must do. Messages that
// have begun may go on: what is refused is later than all that came.
func (l *Link) holdBack(on bool) {
	if l.path().HoldsBack {
		_ = l.env.Q.QP().HoldBack(l.AH, l.QPN, on, l.of.window.Last()+1) // the handle is good as long as the peer is
	}
}

// letGo ends that the peer is held back.
func (l *Link) letGo() {
	l.overfull = false
	l.holdBack(l.waits)
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
		l.letGo()
		l.Probe() // it need not wait for the end of its back-off
		return true
	})
}

// Len is how many there are.
func (f *Full) Len() int { return len(f.links) }

// Tend tells them that we live. It holds them back once more: their packets may come by a new
// connection of which our device did not know.
func (f *Full) Tend() {
	for _, l := range f.links {
		l.holdBack(true)
		l.Probe()
	}
}

// leave takes a failed peer out: what comes in its place is another, which may be held back
// itself.
func (f *Full) leave(l *Link) {
	if l.overfull {
		f.links = slices.DeleteFunc(f.links, func(x *Link) bool { return x == l })
		l.letGo()
		for _, x := range f.links {
			if x.AH == l.AH && x.QPN == l.QPN {
				x.holdBack(true)
			}
		}
	}
}
