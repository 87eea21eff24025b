package efa

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// Request is what Start takes: *SendReq, *RecvReq, *WriteReq, *ReadReq or *AtomicReq.
type Request interface {
	// request makes the request for the shard of the caller's.
	request(*Endpoint, *ope.Request) (parent *span, err error)
	target() (ope.Kind, Addr) // for errors
}

// Op is an operation in progress whose outcome goes to nobody but its owner: for
// libraries, which have no queue of their own on an endpoint that they were given. It
// allocates.
type Op struct {
	ep   *Endpoint
	id   OpID
	done chan struct{}
	sig  shard.Signal
	res  Completion
}

// Start posts an operation whose outcome is asked of the Op; no queue is needed,
// and Quiet has no meaning. It fails as PostSend does.
func (e *Endpoint) Start(r Request) (*Op, error) {
	var req ope.Request
	parent, err := r.request(e, &req)
	if err != nil {
		return nil, e.refusedOf(r, err)
	}
	if req.Flags&ope.Multi != 0 {
		return nil, e.refused(req.Kind, NoAddr, errMultiStart)
	}
	if err := e.known(&req); err != nil {
		putMore(&req)
		return nil, e.refused(req.Kind, peerOf(&req), err)
	}
	if e.credits(&req).take(1, false) == 0 {
		putMore(&req)
		return nil, errsAgain[req.Kind]
	}
	op := &Op{ep: e, done: make(chan struct{})}
	req.Flags &^= ope.Quiet
	req.ID = ownID | e.lastID.Add(1)
	e.accept(&req, (*opSink)(op))
	if e.tele != nil {
		e.traced(&req, *parent)
	}
	op.id = OpID(req.ID)
	if !e.act.Load().Submit(&req) {
		e.refuse(&req)
		return nil, errsAgain[req.Kind]
	}
	return op, nil
}

// Done implements ope.Sink, on the shard.
func (o *opSink) Done(q *ope.Request, r *ope.Result) {
	op := (*Op)(o)
	op.ep.finished(q, r)
	op.res.fill(op.ep, q, r)
	op.sig.Set()
	close(op.done)
}

type opSink Op

// ID names the operation.
func (o *Op) ID() OpID { return o.id }

// Done is closed when the operation has ended, in every progress mode without
// anybody's help. Wait is faster.
func (o *Op) Done() <-chan struct{} { return o.done }

// Wait waits for the outcome, and returns it at once after Done. The end of ctx ends
// the wait, not the operation.
func (o *Op) Wait(ctx context.Context) (Completion, error) {
	select {
	case <-o.done: // in a simulation nobody else runs meanwhile, then
		return o.res, o.res.Err
	default:
	}
	if err := o.ep.sh.Wait(ctx, &o.sig); err != nil {
		select {
		case <-o.done:
		default:
			return Completion{}, callError("wait", contextError(ctx, err))
		}
	}
	return o.res, o.res.Err
}

// Cancel asks for the end of the operation; its outcome comes as always.
func (o *Op) Cancel() { o.ep.cancel(uint64(o.id)) }
