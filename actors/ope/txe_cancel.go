package ope

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// ErrInternal ends an operation whose handler panicked, or whose machine was asked for a
// step that it does not have.
var ErrInternal = errors.New("internal error of the operation")

// ErrRegionClosed ends an operation that uses a memory region which was closed.
var ErrRegionClosed = fmt.Errorf("%w: its memory region was closed", errno.ErrCanceled)

var errNoDC = fmt.Errorf("%w: the peer lacks %s", errno.ErrNotSupported, wire.FeatureDeliveryComplete)

// onCancel lets the caller go: before its turn came the operation is withdrawn and
// no msg_id is spent; afterwards what is not sent yet is copied, up to
// DetachLimit, since a msg_id must never get lost; beyond that a peer that knows
// PEER_ERROR gets it, and with others the end of the protocol is awaited, at most
// PeerTimeout.
func (t *Txe) onCancel(m *Cancel) {
	if !t.busy || t.q.ID != m.ID || t.c.state != CallerHolding {
		return
	}
	t.ext().canceled = m.Err
	if t.turn.InLine() {
		if t.must(t.c.Step(CallerWithdraw)) {
			t.turn.Withdraw(t.link, m.ID)
		}
		return
	}
	if t.must(t.c.Step(CallerCancel)) {
		t.beginToLeave()
	}
}

// onWithdrawn: the peer took the message out of its line, or was too late.
func (t *Txe) onWithdrawn(m *peer.Withdrawn) {
	switch {
	case !t.busy || t.q.ID != m.ID:
	case t.m.State == TxErr: // it failed meanwhile
		t.settle()
	case t.c.state != CallerWithdrawing:
	case m.OK:
		if t.must(t.c.Step(CallerWithdrawn)) {
			t.fail(t.x.canceled)
		}
	case t.must(t.c.Step(CallerTooLate)):
		t.beginToLeave()
	}
}

// Revoke tells an operation that a region that it uses is being closed
// (endpoint -> operation).
type Revoke struct {
	shard.Message
	Region *mr.Region
}

// onRevoke ends the operation as if it were canceled. What the peer may be reading
// is closed to it by the device; its answer is awaited without the caller.
func (t *Txe) onRevoke(r *mr.Region) {
	if !t.busy || !t.UsesRegion(r) {
		return
	}
	if t.m.State == TxAwait && t.m.Proto.readBased() && !t.x.moves {
		if t.c.Told() || t.c.state == CallerRevoked || t.must(t.c.Step(CallerRevoke)) {
			t.letRegionGo()
		}
		return
	}
	if t.c.Told() {
		t.fail(ErrRegionClosed)
		return
	}
	t.onCancel(&Cancel{ID: t.q.ID, Err: ErrRegionClosed})
}

// letRegionGo ends an operation whose memory the peer was reading, as soon as no
// packet needs it: what the peer may still read is closed to it by the device. Its
// answer is awaited without the caller.
func (t *Txe) letRegionGo() {
	if t.m.State != TxAwait || t.m.Flying > 0 && !t.outgoing.copied() {
		return
	}
	t.detachPackets()
	t.err = t.outgoing.takenBack()
	t.complete()
	t.link.ForgiveKeys()
	t.x.letMemoryGo(t.pools)
}

// takenBack is why the memory that the peer was to read is not there any more.
func (t *outgoing) takenBack() error { return firstError(t.x.canceled, ErrRegionClosed) }

// beginToLeave gives a canceled caller its outcome and its buffer, or sees that it has to
// wait, at most for PeerTimeout.
func (t *Txe) beginToLeave() {
	if t.letGo(); t.c.state != CallerLeaving || t.m.Over() {
		return
	}
	env := t.pools.env
	t.x.late.id = t.q.ID
	env.Sh.StartTimer(&t.x.late.timer, env.Config.PeerTimeout, t.ref, &t.x.late)
}

// letGo gives a canceled caller its outcome and its buffer if that can be done now. The
// message goes on from a copy, unless it is one that may end.
func (t *Txe) letGo() {
	switch {
	case t.mayEndAtCTS():
		t.goOnWithout(CallerUntilCTS)
	case t.q.Kind == KindWrite && t.m.Proto != LongReadWrite, t.m.State == TxErr:
		t.fail(t.x.canceled) // in no order with anything: it just stops
	case t.mayCopy():
		t.copyRest()
		t.goOnWithout(CallerCopied)
		t.err = nil // of the message
	case t.mayAbort():
		t.fail(t.x.canceled)
	case t.x.moves && t.must(t.c.Step(CallerRevoke)):
		t.letRegionGo() // too long for a copy
	}
}

// goOnWithout gives a canceled caller its outcome and its buffer, while the operation goes on.
func (t *Txe) goOnWithout(e CallerEvent) {
	t.pools.env.Sh.StopTimer(&t.x.late.timer)
	t.detachPackets()
	t.err = t.x.canceled
	if x := t.x; e == CallerCopied && x.moves && t.pools.env.Q.Relend(x.path, x.key, t.q.Buf) == nil {
		t.tell(e)
		x.doneWith() // the copy is what is lent
		return
	}
	t.x.unlend(t.pools)
	t.tell(e)
	t.x.letMemoryGo(t.pools)
}

// copyRest copies what is not sent yet.
func (t *outgoing) copyRest() {
	t.base = t.m.Sent
	q := t.q
	var rest []byte
	if t.x.moves {
		t.base = 0 // the peer has an address of the whole
	}
	if q.Flags&Pieced != 0 {
		whole := make([]byte, q.Len())
		q.Gather(whole)
		rest = whole[min(t.m.Sent, uint64(len(whole))):]
		q.PutLists()
	} else {
		rest = append(rest, q.Buf[min(t.base, uint64(len(q.Buf))):]...)
	}
	t.pools.detached += uint64(len(rest))
	q.Buf = rest
	if m := t.q.More; m != nil {
		t.q.More = &More{Compare: append([]byte(nil), m.Compare...), Result: make([]byte, len(m.Result))}
	}
}

// mayEndAtCTS reports whether the peer waits for us to go on with a write and has yet to
// say by which id it knows it.
func (t *outgoing) mayEndAtCTS() bool {
	return t.q.Kind == KindWrite && t.m.State == TxWait && !t.hasPeer && t.link.Can(wire.FeaturePeerError) &&
		(t.m.Flying == 0 || t.copied())
}

// detachedLimits is how many callers' DetachLimit may be copied at a time.
const detachedLimits = 64

// mayCopy reports whether what is not sent yet may be copied, and whether the device
// is done with what is.
func (t *outgoing) mayCopy() bool {
	rest, limit := t.m.Total-t.m.Sent, uint64(t.pools.Policy.DetachLimit)
	if t.m.Proto.readBased() && (t.m.answer || t.m.State == TxReq) {
		if !t.x.moves {
			return false // the peer may be reading it, or is to be told where it is
		}
		rest = t.m.Total
	}
	return rest <= limit && t.pools.detached+rest <= detachedLimits*limit &&
		(t.m.Flying == 0 || t.copied())
}

// mayAbort reports whether the peer can be told that a message ends before its end.
func (t *outgoing) mayAbort() bool {
	return t.link.Can(wire.FeaturePeerError) && !t.m.Proto.readBased()
}

// detachPackets copies the payload of packets that might have to be sent again.
func (t *outgoing) detachPackets() {
	t.pools.env.Q.EachOut(t.ref, (*device.Pke).Detach)
}

// onLate: a canceled send could not be ended in time, so its peer is failed.
func (t *Txe) onLate() {
	if !t.busy || t.c.state != CallerLeaving || t.q.ID != t.x.late.id || !t.must(t.c.Step(CallerLate)) {
		return
	}
	if t.q.Kind == KindWrite { // in no order, so nothing waits for it: it was refused without an answer
		t.fail(t.x.canceled)
		return
	}
	err := fmt.Errorf("%w: a canceled send of %d bytes did not end: %w", peer.ErrPeerFailed, t.m.Total, errno.ErrTimedOut)
	t.pools.env.Sh.Tell(t.link.Peer, &peer.Remove{Err: err, Tell: true})
}

// Abandon tells an operation that the queue pair is closed: no packet of its will
// ever complete (endpoint -> operation).
type Abandon struct {
	shard.Message
	Err error
}

func (t *Txe) onAbandon(err error) {
	if !t.busy {
		return
	}
	t.abandon(err)
	t.settle()
}

// abandon ends an operation whose packets will never be acknowledged.
func (t *Txe) abandon(err error) {
	if t.m.State != TxDone {
		t.err = firstError(t.err, err)
	}
	t.must(t.m.Abandon())
}

// Abort gives the outcome at once, from outside the actor: its endpoint crashed,
// the queue pair is closed and the actor will not run again.
func (t *Txe) Abort(err error) {
	t.abandon(err)
	t.complete()
	if t.x != nil {
		t.x.letMemoryGo(t.pools)
	}
}

// Abort gives the outcome at once, see Txe.Abort.
func (r *Rxe) Abort(err error) {
	if !r.m.State.over() {
		r.err = err
	}
	r.must(r.m.Abandon())
	r.complete()
	if r.x != nil {
		r.x.doneWith()
	}
}
