package endpoint

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// written is a peer's write with data that the application had no room to be told
// of. It is accounted to the peer like an unexpected message.
type written struct {
	Written
	link *peer.Link // nil: of no peer that is known
}

// writtenCost is how many bytes it counts for.
const writtenCost = 128

// written tells of a peer's write with data, in the order of the writes' ends.
func (e *Endpoint) written(l *peer.Link, n int, data uint64) {
	w := written{Written{Handle: l.Handle, From: &l.Addr, N: n, Data: data}, l}
	if !e.note(&w) {
		return
	}
	if !l.Hold(writtenCost) && l.Err == nil {
		e.cfg.Shard.Tell(l.Peer, &peer.Remove{Err: peer.ErrHoard, Tell: true})
	}
}

// onStrangersWrite: an RDMA write with data from somebody that the device has no
// address handle for. If he has sent no packet either, the device's word alone tells
// who it is, and there is no peer yet that could be failed for too many of them.
func (e *Endpoint) onStrangersWrite(d *device.Written) {
	if l := e.knownAt(d.GID, d.QPN); l != nil {
		e.cfg.Shard.Tell(l.Peer, d)
		return
	}
	from := wire.MakeRawAddr(d.GID, d.QPN, 0)
	w := written{Written{Handle: peer.Unlisted, From: &from, N: d.Len, Data: uint64(d.Imm)}, nil}
	d.Free()
	if e.env.Mem.Held <= e.cfg.Peer.TotalMemory && e.note(&w) {
		e.env.Mem.Held += writtenCost
	}
}

// note tells the application of a write, or keeps it and says so.
func (e *Endpoint) note(w *written) (kept bool) {
	if e.cfg.OnWritten == nil || e.state != open || len(e.untold) == 0 && e.tell(w) {
		return false
	}
	e.untold = append(e.untold, *w)
	return true
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
		if l := e.untold[n].link; l != nil {
			l.Release(writtenCost)
		} else {
			e.env.Mem.Held -= writtenCost
		}
		n++
	}
	clear(e.untold[:n])
	if e.untold = e.untold[n:]; len(e.untold) == 0 {
		e.untold = nil
	}
}
