package endpoint

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// A goroutine that can run the shard itself needs no ring to hand a request over.

// Do handles a request and waits for sig, which its sink sets; see [shard.Shard.Wait].
// done is false if nothing has happened: then the request is to be submitted. Any
// goroutine.
func (e *Endpoint) Do(ctx context.Context, r *ope.Request, sig *shard.Signal) (done bool, err error) {
	if !e.claim(r) {
		return false, nil
	}
	return true, e.cfg.Shard.RunAndWait(ctx, sig, e.ref, e)
}

// Begin handles a request of which the outcome is not waited for: false if nothing has
// happened, so that it is to be submitted. What the request may hold of the caller's
// with [ope.Borrowed] is the caller's again. Any goroutine.
func (e *Endpoint) Begin(r *ope.Request) bool {
	if !e.claim(r) {
		return false
	}
	sh := e.cfg.Shard
	sh.Run(e.ref, e)
	begun := e.direct.Kind == 0 || e.handling
	if !begun { // the endpoint awaits its supervisor, and the caller takes its buffer back
		e.dropDirect()
	}
	sh.Release()
	return begun
}

// claim takes the shard and leaves a copy of r for the next Poll, if nothing that was
// submitted before is still to be handled.
func (e *Endpoint) claim(r *ope.Request) bool {
	sh := e.cfg.Shard
	if !sh.Claim() {
		return false
	}
	if e.table == nil || e.closing.state != open || !e.reqs.Idle() || e.direct.Kind != 0 {
		sh.Release()
		return false
	}
	e.direct = *r
	return true
}

func (e *Endpoint) dropDirect() { e.direct.Forget() }
