package endpoint

import (
	"github.com/efactor/efactor/actors/peer"
)

// written is a peer's write with data that the application had no room to be told
// of. It is accounted to the peer like an unexpected message.
type written struct {
	Written
	link *peer.Link
}

// writtenCost is how many bytes it counts for.
const writtenCost = 128

// written tells of a peer's write with data, in the order of the writes' ends.
func (e *Endpoint) written(l *peer.Link, n int, data uint64) {
	if e.cfg.OnWritten == nil || e.state != open {
		return
	}
	w := written{Written{Handle: l.Handle, From: &l.Addr, N: n, Data: data}, l}
	if len(e.untold) == 0 && e.tell(&w) {
		return
	}
	e.untold = append(e.untold, w)
	if !l.Hold(writtenCost) && l.Err == nil {
		e.cfg.Shard.Tell(l.Peer, &peer.Remove{Err: peer.ErrHoard, Tell: true})
	}
}

func (e *Endpoint) tell(w *written) bool {
	if e.cfg.WrittenRoom != nil && !e.cfg.WrittenRoom() {
		return false
	}
	e.cfg.OnWritten(w.Written)
	return true
}

// tellWritten tells of what there was no room for before.
func (e *Endpoint) tellWritten() {
	if len(e.untold) == 0 {
		return
	}
	n := 0
	for n < len(e.untold) && e.tell(&e.untold[n]) {
		e.untold[n].link.Release(writtenCost)
		n++
	}
	clear(e.untold[:n])
	if e.untold = e.untold[n:]; len(e.untold) == 0 {
		e.untold = nil
	}
}
