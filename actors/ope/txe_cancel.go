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

// ErrInternal ends an operation whose handler panicked.
var ErrInternal = errors.New("internal error: the operation's handler panicked")

// ErrRegionClosed ends an operation that uses a memory region which was closed.
var ErrRegionClosed = fmt.Errorf("%w: its memory region was closed", errno.ErrCanceled)

var errNoDC = fmt.Errorf("%w: the peer lacks %s", errno.ErrNotSupported, wire.FeatureDeliveryComplete)

// onCancel lets the caller go: before its turn came the operation is withdrawn and
// no msg_id is spent; afterwards what is not sent yet is copied, up to
// DetachLimit, since a msg_id must never get lost; beyond that a peer that knows
// PEER_ERROR is told, and with others the protocol is awaited, at most PeerTimeout.
func (t *Txe) onCancel(m *Cancel) {
	if !t.busy || t.ord.Req.ID != m.ID || t.ord.Req.Sink == nil || t.x != nil && t.x.canceled != nil {
		return
	}
	t.ext().canceled = m.Err
	if t.turn.InLine() {
		t.pools.env.Sh.Tell(t.link.Peer, &peer.Withdraw{Turn: &t.turn, ID: m.ID})
		return
	}
	t.letGo()
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
	if t.m.State == TxAwait && t.m.Proto.readBased() {
		t.x.revoked = true
		t.letRegionGo()
		return
	}
	if t.ord.Req.Sink == nil {
		t.fail(ErrRegionClosed)
		return
	}
	t.onCancel(&Cancel{ID: t.ord.Req.ID, Err: ErrRegionClosed})
}

// letRegionGo ends an operation whose memory the peer was reading, as soon as no
// packet needs it: what the peer may still read is closed to it by the device. Its
// answer is awaited without the caller.
func (t *Txe) letRegionGo() {
	if t.m.Flying > 0 && !t.pools.Info.CopiesAtPost {
		return
	}
	t.x.revoked = false
	t.detach()
	t.err = ErrRegionClosed
	t.complete()
	t.link.Pardon()
	t.x.doneWith()
}

// onWithdrawn: the peer took the message out of its line, or was too late.
func (t *Txe) onWithdrawn(m *peer.Withdrawn) {
	if !t.busy || t.ord.Req.ID != m.ID {
		return
	}
	if t.m.State == TxErr { // it failed meanwhile
		t.settle()
		return
	}
	if t.ord.Req.Sink == nil || t.x == nil || t.x.canceled == nil {
		return
	}
	if m.OK {
		t.fail(t.x.canceled)
		return
	}
	t.letGo()
}

// letGo gives the caller its outcome and its buffer while the message goes on
// from a copy; as soon as that can be done, or when it is too late.
func (t *Txe) letGo() {
	env := t.pools.env
	switch {
	case t.mayDoom():
		t.x.doomed = true // by the first CTS the peer is told
		t.detach()
		t.err = t.x.canceled
		t.complete()
		t.x.doneWith()
		return
	case t.ord.Req.Kind == KindWrite && t.m.Proto != LongReadWrite, t.m.State == TxErr:
		t.fail(t.x.canceled) // in no order with anything: it just stops
		return
	case t.canLeave():
	case t.mayAbort():
		t.fail(t.x.canceled)
		return
	default:
		t.leaving = true
		t.x.late.id = t.ord.Req.ID
		env.Sh.StartTimer(&t.x.late.timer, env.Config.PeerTimeout, t.ref, &t.x.late)
		return
	}
	if t.leaving {
		t.leaving = false
		env.Sh.StopTimer(&t.x.late.timer)
	}
	t.detach()
	t.ord.base, t.ord.copied = t.m.Sent, true
	rest := t.ord.Req.Buf[min(t.m.Sent, uint64(len(t.ord.Req.Buf))):]
	t.pools.detached += uint64(len(rest))
	t.ord.Req.Buf = append([]byte(nil), rest...)
	if m := t.ord.Req.More; m != nil {
		t.ord.Req.More = &More{Compare: append([]byte(nil), m.Compare...), Result: make([]byte, len(m.Result))}
	}
	t.err = t.x.canceled
	t.complete()
	t.err = nil
	t.x.doneWith() // what goes on goes on from copies
}

// mayDoom tells whether the peer waits for us to go on with a write and has yet to
// say by which id it knows it.
func (t *Txe) mayDoom() bool {
	return t.ord.Req.Kind == KindWrite && t.m.State == TxWait && !t.hasPeer && t.link.Can(wire.FeaturePeerError) &&
		(t.m.Flying == 0 || t.pools.Info.CopiesAtPost)
}

// detachedLimits is how many callers' DetachLimit may be copied at a time.
const detachedLimits = 64

// canLeave tells whether what is not sent yet may be copied, and whether the device
// is done with what is.
func (t *Txe) canLeave() bool {
	if t.m.Proto.readBased() && (t.m.answer || t.m.State == TxReq) {
		return false // the peer may be reading it, or is to be told where it is
	}
	rest, limit := t.m.Total-t.m.Sent, t.pools.DetachLimit
	return rest <= limit && t.pools.detached+rest <= detachedLimits*limit &&
		(t.m.Flying == 0 || t.pools.Info.CopiesAtPost)
}

// mayAbort tells whether the peer can be told that a message ends before its end.
func (t *Txe) mayAbort() bool {
	return t.link.Can(wire.FeaturePeerError) && !t.m.Proto.readBased()
}

// detach copies the payload of packets that might have to be sent again.
func (t *Txe) detach() {
	t.detached = true
	t.pools.env.Q.EachOut(t.ref, (*device.Pke).Detach)
}

// onLate: a canceled send could not be ended in time, so its peer is failed.
func (t *Txe) onLate() {
	if !t.busy || t.x == nil || t.ord.Req.Sink == nil || t.ord.Req.ID != t.x.late.id {
		return
	}
	if t.ord.Req.Kind == KindWrite { // in no order, so that nobody waits for it: it was refused without a word
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
	t.m.Flying = 0
	t.fail(err)
}

// Abort gives the outcome at once, from outside the actor: its endpoint crashed,
// the queue pair is closed and the actor will not run again.
func (t *Txe) Abort(err error) {
	t.m.Flying = 0
	t.m.Fail()
	if t.err == nil {
		t.err = err
	}
	t.complete()
	if t.x != nil {
		t.x.doneWith()
	}
}

// Abort gives the outcome at once, see Txe.Abort.
func (r *Rxe) Abort(err error) {
	if r.m.State < RxDone {
		r.m.State, r.err = RxErr, err
	}
	r.complete()
	if r.x != nil {
		r.x.doneWith()
	}
}
