package efatest_test

import (
	"errors"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/wire"
)

// risk notes that an access may be refused, by its fault or since its store will be
// closed. False: it must not be begun, since its target may fail the requester.
// RDMA is refused request by request.
func (r *run) risk(a *access) bool {
	a.requests = 1
	switch {
	case a.wrong == right && a.store.closeAt == 0, a.wrong == wrongInitiator:
		a.requests = 0
		return true
	}
	if most := r.p.requestSize(a.from); a.kind != update && a.n > 0 && a.wrong != wrongTarget { // that goes by packets
		a.requests = (a.n + most - 1) / most
		if n := a.listed(); n > 0 {
			a.requests += n + 5 // cut at the pieces of both sides
		}
	}
	k := [2]int{a.from, a.to}
	if r.risks[k]+a.requests > maxWrongs {
		return false
	}
	r.risks[k] += a.requests
	return true
}

// requestSize is the most that one RDMA request of an endpoint moves.
func (p *plan) requestSize(i int) int {
	n := 1 << 30
	for _, most := range []int{p.nodes[i].cfg.Protocol.ReadSegment, p.at(i).dev.MaxRDMA} {
		if most > 0 {
			n = min(n, most)
		}
	}
	return n
}

// reached takes the outcome of an access.
func (n *node) reached(d *deed, a *access, err error) {
	r := n.run
	r.ended(accessName(a), err)
	a.protocol, a.done = d.protocol, err == nil
	switch {
	case err == nil:
		n.succeeded(d, a)
		return
	case a.wrong == wrongInitiator && errors.Is(err, efa.ErrNotSupported):
		r.stats["access not begun"]++
	case errors.Is(err, efa.ErrCanceled) && (a.timeout > 0 || a.mem == doomed):
		r.stats["access canceled"]++
	case a.mayBeRefused() && (refused(err) || a.store.closing && errors.Is(err, efa.ErrPeerAborted)):
		r.stats["access refused"]++
		if a.refused = true; a.wrong == wrongTarget {
			r.stats["access refused to all"]++
		}
	case errors.Is(err, efa.ErrTimedOut) && (r.p.pressed(a.from) || r.p.pressed(a.to)):
		r.stats["access too late"]++ // requests, or answers, met RNR for so long
	case a.level >= efa.Delivered && errors.Is(err, efa.ErrNotSupported) &&
		!r.p.both(a.from, a.to, wire.FeatureDeliveryComplete):
		r.stats["access without DC"]++
	case r.p.broken && n.broke(err):
		r.stats["access broken"]++
	default:
		if err := n.excuse(a.to, err); err != nil {
			r.fail("%v: %w", a, err)
		}
		r.stats["access failed"]++
	}
	a.failed = true
}

// pressed reports whether an endpoint has so little memory that it may let nothing in for
// a long time.
func (p *plan) pressed(i int) bool {
	c := &p.nodes[i].cfg.Protocol
	return c.TotalMemory > 0 || c.PeerMemory > 0
}

// succeeded: a refused access cannot have succeeded, unless refusals are not
// reported.
func (n *node) succeeded(d *deed, a *access) {
	r := n.run
	r.stats["access ok"]++
	switch {
	case a.wrong == wrongInitiator, a.wrong != right && (a.heard() || d.protocol != 0 && d.protocol != ope.EagerWrite && d.protocol != ope.WriteAtomic):
		r.fail("%v succeeded by %v", a, d.protocol)
	case a.wrong == right && a.heard():
		r.landed(a.after, a)
		r.risks[[2]int{a.from, a.to}] -= a.requests
		if a.kind == write && a.slot != nil {
			a.slot.Settle(a.id, r.tick())
		}
	}
}

// heard reports whether the success of an access means that it was carried out.
func (a *access) heard() bool {
	return a.kind == read || a.level >= efa.Delivered || a.cells != nil && a.cells.form != amo.Update
}

// mayBeRefused reports whether the target may refuse it.
func (a *access) mayBeRefused() bool {
	return a.wrong != right && a.wrong != wrongInitiator || a.store.closing
}

// refused reports whether an error says that an access was refused: by the peer's
// PEER_ERROR, by its device, or by a timeout if it knows neither.
func refused(err error) bool {
	op := new(efa.OpError)
	return errors.Is(err, efa.ErrAccess) || errors.Is(err, efa.ErrTimedOut) ||
		errors.As(err, &op) && op.Provider == badAddress
}

// badAddress is the device's word for memory that may not be used so.
const badAddress = 7

// badlyRead reports whether an error is the device's word for memory of a sender that
// may not be read any more.
func badlyRead(err error) bool {
	op := new(efa.OpError)
	return errors.As(err, &op) && op.Provider == badAddress
}

// checkRefused: an endpoint counts the accesses that it refuses, and nothing else.
func (r *run) checkRefused() {
	if r.p.flavor != calm || r.p.broken {
		return
	}
	wrongs, closed := uint64(0), r.stats["store closed"] > 0
	for _, a := range r.p.accesses {
		if a.wrong != right && (a.done || a.refused) {
			wrongs++
		}
	}
	if n := r.stats["Refused"]; n < wrongs || n > 0 && wrongs == 0 && !closed {
		r.fail("%d accesses were to be refused, and endpoints have refused %d", wrongs, n)
	}
}
