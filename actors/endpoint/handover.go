package endpoint

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// A request is made where the shard will handle it: in the endpoint's ring, or, by a goroutine
// that can run the shard itself, in a place that needs no ring.

// Claim takes the shard and returns the request for Do or Begin, which give the shard back, as does
// Disclaim. The request is zero but for an ID of which the uppermost two bits are 1, and the
// caller fills it in at once. Claim returns nil if the caller cannot have the shard now, or requests
// that came before are still to be handled: then the request is to be submitted, too.
// Any goroutine.
func (e *Endpoint) Claim() *ope.Request {
	sh := e.cfg.Shard
	if !sh.Claim() {
		return nil
	}
	if e.polls == nil || e.closing.state != open || !e.reqs.Idle() || e.direct.Kind != ope.KindNone {
		sh.Release()
		return nil
	}
	e.lastDirect++ // by the shard's owner, and not in the ring's way
	e.direct.ID = directID | e.lastDirect
	return &e.direct
}

const directID = 3 << 62

// Claimed reports whether a request is the one that Claim has returned to the caller.
func (e *Endpoint) Claimed(r *ope.Request) bool { return r == &e.direct }

// Disclaim gives up the request that was claimed.
func (e *Endpoint) Disclaim() {
	e.direct.Forget()
	e.cfg.Shard.Release()
}

// Do handles the request that was claimed and waits for sig, which its sink sets; see
// [shard.Shard.Wait].
func (e *Endpoint) Do(ctx context.Context, sig *shard.Signal) error {
	return e.cfg.Shard.RunAndWait(ctx, sig, e.polls)
}

// Begin handles the request that was claimed, of which the outcome is not waited for. What
// it holds of the caller's with [ope.Borrowed] is the caller's again. If nothing
// has happened, since the endpoint awaits its supervisor, Begin returns the request, which is to
// be submitted.
func (e *Endpoint) Begin() (left *ope.Request) {
	sh := e.cfg.Shard
	sh.Run(e.polls)
	if e.direct.Kind != ope.KindNone && !e.handling {
		left = e.direct.Moved()
	}
	sh.Release()
	return left
}

// Reserve takes a place in the ring and returns the request there, which is zero but for an ID of
// which the uppermost bit is 0; nil if the ring is full. The caller fills the request in and
// calls Commit, at once: what comes later waits for that. Any goroutine.
func (e *Endpoint) Reserve() *ope.Request {
	r, ticket := e.reqs.Claim()
	if r != nil {
		r.ID = ticket
	}
	return r
}

// Commit submits a request that was reserved: the shard has it from now on. One of
// [ope.KindNone] is passed over.
func (e *Endpoint) Commit(r *ope.Request) {
	e.reqs.Publish(r.ID)
	if !e.cfg.Shard.Awake() || e.closing.closed.IsSet() {
		e.Pushed()
	}
}

// Submit copies a request into the ring, and reports whether there was room for
// it. A request without an ID gets one, of which the uppermost bit is 0. Any goroutine.
func (e *Endpoint) Submit(r *ope.Request) bool {
	if !e.Push(r) {
		return false
	}
	e.Pushed()
	return true
}

// Push is Submit for callers that call Pushed after the last of several requests.
func (e *Endpoint) Push(r *ope.Request) bool {
	if r.ID != 0 {
		return e.reqs.Push(r, nil)
	}
	return e.reqs.Push(r, &r.ID)
}

// Pushed has the shard look at the requests.
func (e *Endpoint) Pushed() {
	if e.closing.closed.IsSet() {
		e.closing.refuse()
		return
	}
	e.cfg.Shard.Wake()
}
