package ope

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/runtime/shard"
)

// ErrInternal ends an operation whose handler panicked.
var ErrInternal = errors.New("internal error: the operation's handler panicked")

// onCancel lets the caller go: before its turn came the message is withdrawn and
// no msg_id is spent; afterwards what is not sent yet is copied, up to
// DetachLimit, since a msg_id must never get lost; beyond that the protocol is
// awaited, at most PeerTimeout.
func (t *Txe) onCancel(m *Cancel) {
	if !t.busy || t.ord.Req.ID != m.ID || t.ord.Req.Sink == nil || t.canceled != nil {
		return
	}
	t.canceled = m.Err
	if t.turn.InLine() {
		t.pools.env.Sh.Tell(t.link.Peer, &peer.Withdraw{Turn: &t.turn, ID: m.ID})
		return
	}
	t.letGo()
}

// onWithdrawn: the peer took the message out of its line, or was too late.
func (t *Txe) onWithdrawn(m *peer.Withdrawn) {
	if !t.busy || t.ord.Req.ID != m.ID || t.ord.Req.Sink == nil {
		return
	}
	if m.OK {
		t.fail(t.canceled)
		return
	}
	t.letGo()
}

// letGo gives the caller its outcome and its buffer while the message goes on
// from a copy; as soon as that can be done, or when it is too late.
func (t *Txe) letGo() {
	env := t.pools.env
	if !t.canLeave() {
		if t.late == nil {
			t.late = new(lateMsg)
		}
		t.leaving = true
		t.late.id = t.ord.Req.ID
		env.Sh.StartTimer(&t.late.timer, env.Config.PeerTimeout, t.ref, t.late)
		return
	}
	if t.leaving {
		t.leaving = false
		env.Sh.StopTimer(&t.late.timer)
	}
	t.detach()
	t.ord.base, t.ord.copied = t.m.Sent, true
	t.pools.detached += t.m.Total - t.m.Sent
	t.ord.Req.Buf = append([]byte(nil), t.ord.Req.Buf[t.m.Sent:]...)
	t.err = t.canceled
	t.complete()
	t.err = nil
}

// detachedLimits is how many callers' DetachLimit may be copied at a time.
const detachedLimits = 64

// canLeave tells whether what is not sent yet may be copied, and whether the device
// is done with what is.
func (t *Txe) canLeave() bool {
	rest, limit := t.m.Total-t.m.Sent, t.pools.DetachLimit
	return rest <= limit && t.pools.detached+rest <= detachedLimits*limit &&
		(t.m.Flying == 0 || t.pools.CopiesAtPost)
}

// detach copies the payload of packets that might have to be sent again.
func (t *Txe) detach() {
	t.detached = true
	t.pools.env.Q.EachOut(t.ref, (*device.Pke).Detach)
}

// onLate: a canceled send could not be ended in time, so its peer is failed.
func (t *Txe) onLate() {
	if !t.busy || t.ord.Req.Sink == nil || t.ord.Req.ID != t.late.id {
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
}

// Abort gives the outcome at once, see Txe.Abort.
func (r *Rxe) Abort(err error) {
	if r.m.State < RxDone {
		r.m.State, r.err = RxErr, err
	}
	r.complete()
}
