package efa

import (
	"context"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// Op is an operation in progress with a channel for its end: a convenience that
// allocates.
type Op struct {
	core *core
	id   OpID
	done chan struct{}
	sig  shard.Signal
	res  Completion
}

// Start posts an operation whose outcome is asked of the Op; no queue is needed,
// and Quiet has no meaning. It fails as Post does.
func (e *Endpoint) Start(r Request) (*Op, error) {
	op := &Op{core: e.core, done: make(chan struct{})}
	var req ope.Request
	if err := e.fill(&req, r, &e.def); err != nil {
		return nil, err
	}
	cr := e.credits(&req)
	if !cr.try() {
		putMore(&req)
		return nil, ErrAgain
	}
	req.Flags &^= ope.Quiet
	req.Sink = (*opSink)(op)
	req.ID = e.lastID.Add(1)
	op.id = OpID(req.ID)
	if e.tele != nil {
		e.traced(&req, *r.parent())
	}
	e.own(&req)
	if !e.act.Submit(&req) {
		e.disown(&req)
		putMore(&req)
		cr.release()
		return nil, ErrAgain
	}
	return op, nil
}

// Done implements ope.Sink, on the shard.
func (o *opSink) Done(q *ope.Request, r *ope.Result) {
	op := (*Op)(o)
	op.core.finished(q, r)
	op.res.fill(q, r)
	op.sig.Set()
	close(op.done)
}

type opSink Op

// ID names the operation.
func (o *Op) ID() OpID { return o.id }

// Done is closed when the operation has ended, in every progress mode without
// anybody's help. Wait is faster.
func (o *Op) Done() <-chan struct{} { return o.done }

// Result is the outcome, valid after Done.
func (o *Op) Result() (Completion, error) { return o.res, o.res.Err }

// Wait waits for the outcome. The end of ctx ends the wait, not the operation.
func (o *Op) Wait(ctx context.Context) (Completion, error) {
	if err := o.core.sh.Wait(ctx, &o.sig); err != nil {
		select {
		case <-o.done:
		default:
			return Completion{}, contextError(ctx, err)
		}
	}
	return o.Result()
}

// Cancel asks for the end of the operation; its outcome comes as always.
func (o *Op) Cancel() { o.core.cancel(uint64(o.id)) }
