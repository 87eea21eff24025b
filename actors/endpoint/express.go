package endpoint

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// A goroutine that can run the shard itself needs no ring to hand a request over.

// Do submits a request and waits for sig, which its sink sets; see [shard.Shard.Wait].
// done is false if nothing has happened: then the request is to be submitted. Any
// goroutine.
func (e *Endpoint) Do(ctx context.Context, r *ope.Request, sig *shard.Signal) (done bool, err error) {
	sh := e.cfg.Shard
	if !sh.Enter() {
		return false, nil
	}
	if !e.takesDirect() {
		sh.Release()
		return false, nil
	}
	e.direct = *r
	return true, sh.Stay(ctx, sig)
}

// takesDirect tells whether a request may come without the ring. Not so if one of the
// same goroutine may be there, be it behind another's that is not quite in.
func (e *Endpoint) takesDirect() bool {
	return e.table != nil && e.state == open && e.reqs.Idle() && e.direct.Kind == 0
}

func (e *Endpoint) dropDirect() {
	r := &e.direct
	r.Kind, r.Buf, r.Token, r.Sink, r.More = 0, nil, nil, nil, nil
}

// Inject sends a message whose buffer is the caller's again at once, if that is
// possible by the short way, and tells no sink. Of one that is ShortKept OnKept gets
// the request, to make one of it that has a sink and owns its bytes. Any goroutine.
func (e *Endpoint) Inject(r *ope.Request) ope.Shortcut {
	sh := e.cfg.Shard
	if !e.pools.Info.CopiesAtPost || !sh.Enter() {
		return ope.ShortNo
	}
	done := ope.ShortNo
	if e.takesDirect() && r.Peer < uint64(len(e.links)) && e.links[r.Peer] != nil {
		x := &e.injection
		x.e, x.r, x.done = e, *r, ope.ShortNo
		sh.ServeEntered(e.ref, x)
		done = x.done
		x.r.Buf, x.r.Token = nil, nil
	}
	sh.Release()
	return done
}

// injection is a call of Inject, as the shard's guest.
type injection struct {
	e    *Endpoint
	r    ope.Request
	done ope.Shortcut
}

// Poll sends the message.
func (x *injection) Poll(*shard.Shard) int {
	e, r := x.e, &x.r
	if n := e.queue.GiveRoom(); n > 0 {
		return n // others have waited for it
	}
	done, pke := e.pools.SendShort(r, e.links[r.Peer])
	x.done = done
	switch done {
	case ope.ShortOver:
		e.pools.EndShort(false)
		return 0 // and the turn has nothing to flush
	case ope.ShortKept:
		pke.Detach()
		e.cfg.OnKept(r)
		e.pools.Keep(r, e.links[r.Peer], pke)
		return 1
	default:
		return 0
	}
}

// Flush, Arm and FDs are those of a guest: nothing.
func (x *injection) Flush(*shard.Shard) {}

// Arm is never asked.
func (x *injection) Arm() bool { return true }

// FDs are none.
func (x *injection) FDs() []int { return nil }
