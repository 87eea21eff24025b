package efa

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
)

// injected is the sink of what was injected: nobody waits for them, so a failure
// goes to the send queue if there is one, and is counted in any case.
type injected struct{ ep *Endpoint }

// Done implements ope.Sink, on the shard.
func (s injected) Done(q *ope.Request, r *ope.Result) {
	if to := s.ep.sendTo; to != nil {
		to.Done(q, r)
		return
	}
	if !s.ep.onlyPlace(q) {
		s.ep.finished(q, r)
	}
	if r.Err != nil {
		s.ep.log.Warn("injected operation failed", "op", opName(q.Kind), "peer", q.Peer, "name", s.ep.av.Name(Addr(q.Peer)), "err", r.Err)
	}
}

// injectable checks a message of n bytes that is to be injected.
func (e *Endpoint) injectable(to Addr, n int) error {
	if n > e.mostInject {
		return tooLongToInject(n, e.mostInject)
	}
	if !e.av.table.holds(uint64(to)) {
		return errNoPeer(to)
	}
	return nil
}

// inject hands a request over whose buffer is the caller's again when the call returns. Its peer
// is in the address vector.
func (e *Endpoint) inject(ctx context.Context, req *ope.Request) error {
	if !e.tx.takeOne() && e.tx.take(1, false) == 0 {
		var err error
		if req, err = e.wait(ctx, req, &e.tx); err != nil {
			return err
		}
	}
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	req.Sink = e.injectTo
	if act := e.act.Load(); act.Claimed(req) {
		req.Flags |= ope.Borrowed
		if req = act.Begin(); req == nil {
			if e.tx.used.Load() >= fewInjected {
				e.sh.Drive()
			}
			return nil
		}
		req.Flags &^= ope.Borrowed
	}
	own(req)
	e.submit(req)
	e.sh.Drive()
	return nil
}

// fewInjected is how many injected operations may be in progress before the goroutine
// that injects looks after them.
const fewInjected = 8

// injectMost is the most that is injected on any device.
const injectMost = 4096

// maxInject is libfabric's limit: a packet less the largest header, and no more
// than injectMost.
func maxInject(mtu int) int { return max(min(mtu-168, injectMost), 0) }

// copies are the buffers of injected messages.
var copies = sync.Pool{New: func() any { return new([injectMost]byte) }}

// own gives an injected message a copy of its bytes.
func own(req *ope.Request) {
	if n := req.Len(); req.Flags&(ope.Inject|ope.Borrowed) == ope.Inject && n > 0 {
		b := copies.Get().(*[injectMost]byte)
		req.Gather(b[:n])
		req.Buf, req.Flags = b[:n], req.Flags&^ope.Pieced
		req.PutLists()
	}
}

// disown frees the copy of a message that nobody will touch again.
func disown(req *ope.Request) {
	if req.Flags&(ope.Inject|ope.Borrowed) == ope.Inject && len(req.Buf) > 0 {
		copies.Put((*[injectMost]byte)(req.Buf[:injectMost]))
	}
}
