package efa

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
)

// injected is the sink of what was injected: nobody waits for them, so a failure
// goes to the send queue if there is one, and is counted in any case.
type injected struct{ core *core }

// Done implements ope.Sink, on the shard.
func (s injected) Done(q *ope.Request, r *ope.Result) {
	if to := s.core.sendTo; to != nil {
		to.Done(q, r)
		return
	}
	s.core.finished(q, r)
	if r.Err != nil {
		s.core.log.Warn("injected operation failed", "op", opName(q.Kind), "peer", q.Peer, "err", r.Err)
	}
}

// onKept makes an operation of an injected message that did not go out at once, on the
// shard. That may be one more than there are places.
func (c *core) onKept(req *ope.Request) {
	c.own(req)
	c.tx.used.Add(1)
	req.ID = c.lastID.Add(1)
	req.Sink = c.injectTo
}

// inject sends a message of which the bytes need not be kept, or hands over an
// operation whose bytes were copied.
func (e *Endpoint) inject(ctx context.Context, req *ope.Request) error {
	if e.tele == nil && req.Kind == ope.KindSend && e.tx.waiting.Load() == 0 {
		switch e.act.Inject(req) {
		case ope.ShortOver:
			e.counter(req).count(nil)
			return nil
		case ope.ShortKept:
			return nil
		case ope.ShortNo:
		}
	}
	if !e.tx.try() {
		if err := e.tx.wait(ctx, e.sh); err != nil {
			return err
		}
	}
	req.Sink = e.injectTo
	req.ID = e.lastID.Add(1)
	if e.tele != nil {
		e.traced(req, trace.SpanContextFromContext(ctx))
	}
	e.own(req)
	e.submit(req)
	// Nobody is going to wait for it, so it goes out now. Who injects again and again
	// also has to see what became of it, lest that is left lying.
	if e.tx.used.Load() < fewInjected {
		e.act.Serve()
	} else {
		e.sh.Drive()
	}
	return nil
}

// fewInjected is how many operations may lie until somebody waits, or the helper comes.
const fewInjected = 8

// injectMost is the most that is injected on any device.
const injectMost = 4096

// maxInject is libfabric's limit: a packet less the largest header, and no more
// than injectMost.
func maxInject(mtu int) int { return max(min(mtu-168, injectMost), 0) }

// copies are the buffers of injected messages.
var copies = sync.Pool{New: func() any { return new([injectMost]byte) }}

// own gives an injected message a copy of its bytes.
func (c *core) own(req *ope.Request) {
	if req.Flags&ope.Inject != 0 && len(req.Buf) > 0 {
		b := copies.Get().(*[injectMost]byte)
		req.Buf = b[:copy(b[:], req.Buf)]
	}
}

// disown frees the copy of a message that nobody will touch again.
func (c *core) disown(req *ope.Request) {
	if req.Flags&ope.Inject != 0 && len(req.Buf) > 0 {
		copies.Put((*[injectMost]byte)(req.Buf[:injectMost]))
	}
}
