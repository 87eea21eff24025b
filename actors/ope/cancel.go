package ope

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// ErrInternal ends an operation whose handler panicked, or whose machine was asked for a
// step that it does not have.
var ErrInternal = errors.New("internal error of the operation")

// ErrRegionClosed ends an operation that uses a memory region which was closed.
var ErrRegionClosed = fmt.Errorf("%w: its memory region was closed", errno.ErrCanceled)

var errNoDC = fmt.Errorf("%w: the peer lacks %s", errno.ErrNotSupported, wire.FeatureDeliveryComplete)

// Cancel asks an operation to let its caller go (endpoint -> operation).
type Cancel struct {
	shard.Message
	ID  uint64 // of the request, which may have ended
	Err error
}

// onCancel lets the caller go: before its turn came the operation is withdrawn and
// no msg_id is spent; afterwards the rest of the message is copied, up to
// DetachLimit, since a msg_id must never get lost; beyond that a peer that knows
// PEER_ERROR gets it, and with others the end of the protocol is awaited, at most
// PeerTimeout.
func (t *Txe) onCancel(m *Cancel) {
	if !t.busy || t.q.ID != m.ID || t.c.state != CallerHolding {
		return
	}
	t.ext().canceled = m.Err
	if t.ticket.InLine() {
		if t.must(t.c.Step(CallerWithdraw)) {
			t.ticket.Withdraw(t.link, m.ID)
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

// beginToLeave gives a canceled caller its outcome and its buffer, or sees that it has to
// wait, at most for PeerTimeout.
func (t *Txe) beginToLeave() {
	if t.tryDetach(); t.c.state != CallerLeaving || t.m.Over() {
		return
	}
	env := t.pools.env
	t.x.late.id = t.q.ID
	env.Sh.StartTimer(&t.x.late.timer, env.Config.PeerTimeout, t.ref, &t.x.late)
}

// tryDetach gives a canceled caller its outcome and its buffer if that can be done now. The
// message goes on from a copy, unless it is one that may end.
func (t *Txe) tryDetach() {
	switch {
	case t.mayEndAtCTS():
		t.detach(CallerUntilCTS)
	case t.q.Kind == KindWrite && t.m.Proto != LongReadWrite, t.m.State == TxErr:
		t.fail(t.x.canceled) // in no order with anything: it just stops
	case t.mayCopy():
		t.copyRest()
		t.detach(CallerCopied)
		t.err = nil // of the message
	case t.mayAbort():
		t.fail(t.x.canceled)
	case t.x.moves && t.must(t.c.Step(CallerRevoke)):
		t.releaseRegion() // too long for a copy
	}
}

// mayEndAtCTS reports whether the peer waits for us to go on with a write and has yet to
// say by which id it knows it.
func (t *Txe) mayEndAtCTS() bool {
	return t.q.Kind == KindWrite && t.m.State == TxWait && !t.marks.hasPeer && t.link.TakesAbort(true) &&
		(t.m.Flying == 0 || t.copied())
}

// detachedLimits is how many callers' DetachLimit may be copied at a time.
const detachedLimits = 64

// mayCopy reports whether the rest of the message may be copied, and whether the device is
// done with the part that was sent.
func (t *Txe) mayCopy() bool {
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

// mayAbort reports whether the peer understands that a message ends before its end.
func (t *Txe) mayAbort() bool {
	return t.link.TakesAbort(t.memory()) && !t.m.Proto.readBased()
}

// detach gives a canceled caller its outcome and its buffer, while the operation goes on.
func (t *Txe) detach(e CallerEvent) {
	t.pools.env.Sh.StopTimer(&t.x.late.timer)
	t.detachPackets()
	if t.err = t.x.canceled; e == CallerCopied {
		t.err = goesOn{t.err}
	}
	if x := t.x; e == CallerCopied && x.moves && t.pools.env.Q.Relend(x.path, x.key, t.q.Buf) == nil {
		t.notify(e)
		x.used.release() // the copy is what is lent
		return
	}
	t.x.unlend(t.pools)
	t.notify(e)
	t.x.releaseMemory(t.pools)
}

// goesOn is what a caller gets that left while its message goes on from a copy: the error of one
// whose operation has ended, and ErrAlready.
type goesOn struct{ error }

// Unwrap is both.
func (g goesOn) Unwrap() []error { return []error{g.error, errno.ErrAlready} }

// copyRest copies the part of the message that is not sent yet.
func (t *Txe) copyRest() {
	t.base = t.m.Sent
	q := t.q
	var rest []byte
	if t.x.moves {
		t.base = 0 // the peer has an address of the whole
	}
	if q.Flags&HasIOV != 0 {
		whole := make([]byte, q.Len())
		q.Gather(whole)
		rest = whole[min(t.m.Sent, uint64(len(whole))):]
		q.PutIOV()
	} else {
		rest = append(rest, q.Buf[min(t.base, uint64(len(q.Buf))):]...)
	}
	t.pools.detached += uint64(len(rest))
	q.Buf = rest
	if m := t.q.More; m != nil {
		t.q.More = &More{Compare: append([]byte(nil), m.Compare...), Result: make([]byte, len(m.Result))}
	}
}

// detachPackets copies the payload of packets that might have to be sent again.
func (t *Txe) detachPackets() {
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

// onCancel lets the caller go: nothing is written to its buffer from now on, what
// comes is received to its end and thrown away, so that the sender completes. RDMA
// reads that the device has are awaited.
func (r *Rxe) onCancel(m *Cancel) {
	if !r.busy || r.c.state != CallerHolding || r.RequestID() != m.ID {
		return
	}
	if r.x != nil && r.x.ticket.InLine() {
		if r.must(r.c.Step(CallerWithdraw)) {
			r.canceled = m.Err
			r.x.ticket.Withdraw(r.link, m.ID)
		}
		return
	}
	if r.m.State.over() {
		return // only the device is awaited
	}
	if r.must(r.c.Step(CallerCancel)) {
		r.beginToLeave(m.Err)
	}
}

// onWithdrawn: the peer took our read out of its line, or was too late.
func (r *Rxe) onWithdrawn(m *peer.Withdrawn) {
	switch {
	case !r.busy || r.RequestID() != m.ID:
	case r.m.State.over(): // it failed meanwhile
		r.settle()
	case r.c.state != CallerWithdrawing:
	case m.OK:
		if r.must(r.c.Step(CallerWithdrawn)) {
			r.fail(r.canceled)
		}
	case r.must(r.c.Step(CallerTooLate)):
		r.beginToLeave(r.canceled)
	}
}

// beginToLeave gives a canceled caller its outcome as soon as the device writes no more to its
// buffer.
func (r *Rxe) beginToLeave(err error) {
	r.canceled = err
	if r.m.Proto == DirectRead {
		r.m.StopReading()
		r.end(err)
		return
	}
	r.m.Forgo()
	if r.m.reading == 0 {
		r.detach()
	}
	r.gotData()
}

// detach gives a canceled caller its outcome while the operation goes on.
func (r *Rxe) detach() {
	r.err = r.canceled
	r.complete()
	r.err = nil
}

// drops reports whether data that comes is counted and thrown away.
func (r *Rxe) drops() bool {
	return r.c.state == CallerLeaving || r.c.Told() || r.entry != nil && r.entry.Req.Flags&Discard != 0
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
			t.releaseRegion()
		}
		return
	}
	if t.c.Told() {
		t.fail(ErrRegionClosed)
		return
	}
	t.onCancel(&Cancel{ID: t.q.ID, Err: ErrRegionClosed})
}

// releaseRegion ends an operation whose memory the peer was reading, as soon as no
// packet needs it: what the peer may still read is closed to it by the device. Its
// answer is awaited without the caller.
func (t *Txe) releaseRegion() {
	if t.m.State != TxAwait || t.m.Flying > 0 && !t.copied() {
		return
	}
	t.detachPackets()
	t.err = t.takenBack()
	t.complete()
	t.link.ForgiveKeys()
	t.x.releaseMemory(t.pools)
}

// takenBack is why the memory that the peer was to read is not there any more.
func (t *Txe) takenBack() error { return firstError(t.x.canceled, ErrRegionClosed) }

// onRevoke: a region that the operation uses is being closed.
func (r *Rxe) onRevoke(m *mr.Region) {
	if !r.busy || !r.UsesRegion(m) {
		return
	}
	switch {
	case r.entry != nil:
		r.onCancel(&Cancel{ID: r.RequestID(), Err: ErrRegionClosed})
	case r.m.State < RxAnswer: // else all is there, and the peer is yet to be told
		if r.m.Proto != EagerWrite { // the peer waits for no answer to that one
			r.sendError(errno.ProvRMAAddr)
		}
		if r.step(RxFail) {
			r.ended(ErrRegionClosed)
		}
	}
	if r.busy && r.x != nil && r.m.reading == 0 {
		r.x.ndst = 0
		r.x.used.release()
	}
}

// giveUp: the operation has failed here, and what the other side has of it must end
// as well. A peer that knows PEER_ERROR gets it once no packet is under way, or when it
// comes back; another one would wait for the msg_id, or for the rest, for ever.
func (t *Txe) giveUp() {
	p, l := t.pools, t.link
	if l.Buried() || p.Closing || t.marks.abortDue {
		return
	}
	if t.m.Proto == ErrorOnly {
		t.lostError()
		return
	}
	if !t.marks.spent && !t.marks.hasPeer {
		if protos[t.m.Proto].cts && t.m.Sent > 0 {
			l.AddOrphan(t.id) // it has begun there, perhaps
		}
		return
	}
	if l.TakesAbort(t.memory()) || l.Err != nil && l.MayTakeAbort(t.memory()) {
		t.marks.abortDue = true
		return
	}
	if t.marks.spent {
		t.lostID(t.err)
	}
}

// incomplete reports whether the other side lacks something of the operation.
func (t *Txe) incomplete() bool {
	return t.m.left > 0 || t.m.Sent < t.m.end || t.m.Proto.readBased() && t.m.answer || t.m.State == TxReq
}

// lostError: a PEER_ERROR did not arrive, or cannot go out. What it is about the peer would
// await for ever, so it is failed, and gets the packet if it comes back.
func (t *Txe) lostError() {
	l := t.link
	if l.Err == nil {
		t.pools.env.Sh.Tell(l.Peer, &peer.Remove{
			Err: fmt.Errorf("%w: PEER_ERROR is lost: %w", peer.ErrPeerFailed, t.err), Tell: true,
		})
	}
	l.AddPendingAbort(t.responseHeader(nil), t.x.abort.Memory, t.x.abort.skips())
}

// notUnderstood: the peer's HANDSHAKE says that it does not know PEER_ERROR. It would wait for
// ever for a msg_id that it was to skip, so it is failed.
func (t *Txe) notUnderstood() {
	if t.x.abort.OpID != wire.NoOpID {
		return
	}
	t.pools.env.Sh.Tell(t.link.Peer, &peer.Remove{Err: errGap, Tell: true, Lost: true})
}

var errGap = fmt.Errorf("%w: a msg_id is lost, and the peer does not know PEER_ERROR", peer.ErrPeerFailed)

// lostID: a packet that spent a msg_id failed for good. The other side would wait
// for that msg_id for ever, so it is failed until it comes back as a new endpoint.
func (t *Txe) lostID(err error) {
	err = fmt.Errorf("%w: msg_id %d is lost: %w", peer.ErrPeerFailed, t.ticket.MsgID, err)
	t.pools.env.Sh.Tell(t.link.Peer, &peer.Remove{Err: err, Tell: true, Lost: true})
}

// abortPeer sends PEER_ERROR: with the other side's id if it gave us one, else
// with the msg_id, of which it may have seen nothing. A request that did not arrive by what the
// device says may have been seen all the same: one after which more is to come, by CTSDATA or
// by reading, has to end there, too.
func (t *Txe) abortPeer() {
	a := t.abort()
	cts := protos[t.m.Proto].cts
	if t.marks.hasPeer {
		a.OpID = t.peerID
	} else {
		a.Unseen = t.m.Acked == 0 && !t.marks.nacked && !t.m.Proto.readBased() && !cts
		if cts && t.pools.namesOps() {
			// main of August 2026 finds no long-CTS message by its msg_id. Its first CTS says by
			// which id it does.
			t.link.AddOrphan(t.id)
		}
	}
	t.sendAborted(&a)
}

// abort is what PEER_ERROR says of the operation's end.
func (t *Txe) abort() Abort {
	return Abort{
		MsgID: t.spentID(), OpID: wire.NoOpID, Emitter: wire.EmitterTX, Memory: t.memory(), Errno: errno.ProvPeerAborted, Spent: t.marks.spent,
	}
}

// memory reports whether the operation is no message: a request for the peer's memory, or the
// answer to one.
func (t *Txe) memory() bool { return t.q.Kind != KindSend }

// spentID is the operation's msg_id, 0 if it has none.
func (t *Txe) spentID() uint32 {
	if !t.marks.spent {
		return 0
	}
	return t.ticket.MsgID
}

// sendAborted reports the txe's end to the peer. If no packet can be sent, the peer is failed.
func (t *Txe) sendAborted(a *Abort) {
	switch l := t.link; {
	case t.pools.SendError(l, a):
		t.note(trail.Answer, uint8(wire.TypePeerError), 0, 0)
	case t.pools.Closing || l.Buried():
	case t.marks.spent:
		t.lostID(t.err)
	default:
		t.pools.env.Sh.Tell(l.Peer, &peer.Remove{
			Err: fmt.Errorf("%w: no room for PEER_ERROR: %w", peer.ErrPeerFailed, t.err), Tell: true,
		})
	}
}

// HasPending reports it of one operation.
func (t *Txe) HasPending() bool {
	if !t.busy || t.link.Err != nil {
		return false
	}
	switch t.m.Proto {
	case ReceiptOnly, ErrorOnly, AtomicResponse:
		return true
	default:
		return false
	}
}

// lent reports whether the peer may be reading the caller's memory. As long as the queue
// pair exists nothing ends that, so it is Abandon that does then.
func (t *Txe) lent() bool { return t.m.Proto.readBased() && t.m.answer }

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
		t.x.releaseMemory(t.pools)
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
		r.x.used.release()
	}
}
