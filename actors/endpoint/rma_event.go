package endpoint

import (
	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// writeEvents reports the peers' writes with remote CQ data to the application, in the order in
// which they ended. It owns those that the application had no room for; they are accounted
// to their peers like unexpected messages.
//
// Operations call add for an emulated write, the endpoint for one by RDMA; the endpoint
// calls flush at the end of each turn.
type writeEvents struct {
	env     *peer.Env
	peers   *peers
	closing *closing
	deliver func(Written)                 // nil: the application does not want to know
	room    func() bool                   // takes the place for one; nil: there always is one
	counted func(n int, data uint64) bool // counts one that is expected, and is not reported then; nil: none is

	pending []pendingWrite // oldest first
}

type pendingWrite struct {
	Written
	link *peer.Link // nil: of no peer that is known
}

// pendingCost is the number of bytes that a pending write counts for.
const pendingCost = 128

// add reports a write of l's with data, or keeps it. A peer with too many that wait is
// failed.
func (w *writeEvents) add(l *peer.Link, n int, data uint64) {
	if w.counts(n, data) {
		return
	}
	x := pendingWrite{Written{Handle: l.Handle, From: &l.Addr, N: n, Data: data}, l}
	if !w.note(&x) {
		return
	}
	l.Charge(pendingCost)
}

// onUnlisted takes an RDMA write with data by a queue pair at which the device knows no
// peer. If no packet has come from there either, the device's word alone says
// who wrote, and there is no peer that could be failed for too many writes: beyond the
// endpoint's limit they are dropped.
func (w *writeEvents) onUnlisted(d *device.Written) {
	if l := w.peers.now(d.AH, d.QPN, d.GID); l != nil {
		w.env.Sh.Tell(l.Peer, d)
		return
	}
	from, n, imm := wire.MakeRawAddr(w.peers.routes.gid(d.AH, d.GID), d.QPN, 0), d.Len, d.Imm
	d.Free()
	w.addFrom(peer.Unlisted, &from, n, uint64(imm))
}

// addFrom is add of a write by an address that is no peer's.
func (w *writeEvents) addFrom(handle uint64, from *wire.RawAddr, n int, data uint64) {
	if w.counts(n, data) {
		return
	}
	x := pendingWrite{Written{Handle: handle, From: from, N: n, Data: data}, nil}
	if w.env.Mem.Charged <= w.env.Config.TotalMemory && w.note(&x) {
		w.env.Mem.Charged += pendingCost
	}
}

// counts reports whether a write was counted, which takes no memory.
func (w *writeEvents) counts(n int, data uint64) bool {
	return w.counted != nil && w.closing.state == open && w.counted(n, data)
}

// note reports a write, or keeps it and returns true.
func (w *writeEvents) note(x *pendingWrite) (kept bool) {
	if w.deliver == nil || w.closing.state != open || len(w.pending) == 0 && w.report(x) {
		return false
	}
	w.pending = append(w.pending, *x)
	w.env.Weigh = true
	return true
}

// report reports a write if there is room for it.
func (w *writeEvents) report(x *pendingWrite) bool {
	if w.room != nil && !w.room() {
		return false
	}
	w.deliver(x.Written)
	return true
}

// flush reports the waiting writes that there is room for now.
func (w *writeEvents) flush() {
	if len(w.pending) == 0 {
		return
	}
	n := 0
	for n < len(w.pending) && w.report(&w.pending[n]) {
		if l := w.pending[n].link; l != nil {
			l.Uncharge(pendingCost)
		} else {
			w.env.Mem.Charged -= pendingCost
		}
		n++
	}
	clear(w.pending[:n])
	if w.pending = w.pending[n:]; len(w.pending) == 0 {
		w.pending = nil
	}
}

// Served is an access of a peer's to memory here that the endpoint has carried out. What a
// device carries out by itself is not reported.
type Served struct {
	Handle  uint64 // of the peer, or peer.Unlisted
	From    *wire.RawAddr
	Path    uint8     // that From is on
	Access  mr.Access // device.RemoteRead: a read, or an atomic that fetches; device.RemoteWrite: a write, or another atomic
	N       int       // bytes of the memory
	HasData bool      // it is a write that OnWritten reports, too
	Regions []*mr.Region
}

// servedReporter passes on to f what operations report.
func (a *access) servedReporter(f func(*Served)) func(*peer.Link, *ope.Served) {
	if f == nil {
		return nil
	}
	return func(l *peer.Link, s *ope.Served) {
		if a.closing.state != open {
			return
		}
		f(&Served{
			Handle: l.Handle, From: &l.Addr, Path: l.Path, Access: s.Access, N: int(s.N), HasData: s.HasData, Regions: s.Regions,
		})
	}
}

// reportAtomic reports an atomic that was carried out on targets.
func (a *access) reportAtomic(pkt *peer.Packet, form atomics.Form, to []ope.Target) {
	if a.pools.OnServed == nil {
		return
	}
	s := ope.Served{Access: device.RemoteRead, N: pkt.Length}
	if form == atomics.Write {
		s.Access = device.RemoteWrite
	}
	var regions [wire.MaxIOV]*mr.Region
	for i := range to {
		regions[i] = to[i].Region
	}
	s.Regions = regions[:len(to)]
	a.pools.OnServed(pkt.Link, &s)
}
