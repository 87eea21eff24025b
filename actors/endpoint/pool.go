package endpoint

import (
	"context"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/ring"
	"github.com/efactor/efactor/runtime/shard"
)

// Pool is the actor of a shared receive pool: receives that messages to several endpoints
// take (fi_srx_context).
//
//   - It owns the posted receives, and the order in which endpoints are served that have
//     messages waiting (seats). Each endpoint keeps its own unexpected messages.
//   - The application reaches it through a request ring. Endpoints of its shard, no others,
//     call it, so that nothing is locked.
//   - It gives a receive to the endpoint whose message takes it; from then on it is as if it
//     had been posted there. Outcomes of receives that no message took go to their sinks.
//   - It waits for nothing.
//   - Close ends the receives that wait, and it; by then no endpoint has it.
type Pool struct {
	cfg    PoolConfig
	ref    shard.Ref
	reqs   *ring.MPSC[ope.Request]
	posted *match.Table // receives only
	orders *ope.Orders  // of the pool and of its endpoints
	seats  seats
	ending poolEnd

	handling bool // the request at the head of the ring
}

// PoolConfig has what a pool uses.
type PoolConfig struct {
	Shard *shard.Shard
	Depth int // requests that fit the ring
	// OnFlush is called on the shard at the end of a turn; may be nil.
	OnFlush func()
}

// poolEnd is the end of a pool, by Close or by a panic.
type poolEnd struct {
	err    error        // why the pool takes no more receives; the shard's
	closed shard.Signal // nothing is posted any more; any goroutine
	late   sync.Mutex   // held by the goroutine that refuses requests once closed is set
}

type (
	poolBegin struct{ shard.Message }
	poolClose struct{ shard.Message }
)

// OpenPool makes a pool. Any goroutine.
func OpenPool(cfg PoolConfig) (*Pool, error) {
	p := &Pool{cfg: cfg, reqs: ring.NewMPSC[ope.Request](cfg.Depth), posted: match.New(), orders: new(ope.Orders)}
	var err error
	if p.ref, err = cfg.Shard.Spawn("", func() actor.Actor { return p }); err != nil {
		return nil, err
	}
	cfg.Shard.Post(p.ref, &poolBegin{})
	return p, nil
}

// Submit copies a request into the pool's ring, and reports whether there was room. Any
// goroutine.
func (p *Pool) Submit(r *ope.Request) bool {
	if !p.reqs.Push(r, nil) {
		return false
	}
	if p.ending.closed.IsSet() {
		p.refuse()
	} else {
		p.cfg.Shard.Wake()
	}
	return true
}

// Close ends every receive that no message has taken with ErrClosed. The pool has no
// endpoint any more. Any goroutine.
func (p *Pool) Close(ctx context.Context) error {
	p.cfg.Shard.Post(p.ref, &poolClose{})
	if err := p.cfg.Shard.Wait(ctx, &p.ending.closed); err != nil {
		return err
	}
	p.refuse()
	return nil
}

// Receive is the pool's message switch.
func (p *Pool) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *poolBegin:
		p.cfg.Shard.AddPoller(p.ref, p)
	case *poolClose:
		p.end(errno.ErrClosed)
	case *actor.Restarting:
		p.crashed()
	}
}

// Poll takes requests from the application.
func (p *Pool) Poll(*shard.Shard) int {
	n := p.seats.retry()
	for n < batch {
		r := p.reqs.Peek()
		if r == nil {
			break
		}
		n++
		p.handling = true
		p.handle(r)
		p.handling = false
		p.drop(r)
	}
	return n
}

// Flush ends a turn.
func (p *Pool) Flush(*shard.Shard) {
	if p.cfg.OnFlush != nil {
		p.cfg.OnFlush()
	}
}

// Arm is asked before the shard sleeps, which it has announced.
func (p *Pool) Arm() bool { return p.reqs.Idle() }

// FDs has nothing to add to the devices'.
func (p *Pool) FDs() []int { return nil }

func (p *Pool) drop(r *ope.Request) {
	r.Forget()
	p.reqs.Drop()
}

func (p *Pool) handle(r *ope.Request) {
	switch {
	case r.Kind == ope.KindControl:
		r.More.Run()
	case r.Kind == ope.KindCancel:
		p.onCancel(r.ID)
	case p.ending.err != nil:
		tell(r, p.ending.err)
	case r.Kind == ope.KindRecv && r.Peer == uint64(match.AnySource):
		p.onRecv(r)
	default:
		tell(r, errno.ErrInvalid)
	}
}

// onRecv gives a receive to the endpoint whose turn it is among those with a message that
// the receive takes, and posts it if there is none.
func (p *Pool) onRecv(r *ope.Request) {
	o := p.orders.Get(r, p.cfg.Shard.Now())
	o.Recv.Kind = match.KindOf(r.Flags&ope.Tagged != 0)
	o.Recv.Tag, o.Recv.Ignore, o.Recv.Source = r.Tag, r.Ignore, match.AnySource
	if !p.seats.serve(o) {
		p.posted.Post(&o.Recv)
	}
}

// onCancel ends the receive id if it has not ended.
func (p *Pool) onCancel(id uint64) {
	found := p.failReceives(func(o *ope.Order) bool { return o.Req.ID == id }, errno.ErrCanceled)
	if found {
		return
	}
	for _, s := range p.seats.all {
		s.e.pools.EachRx(func(r *ope.Rxe) {
			if r.RequestID() == id {
				p.cfg.Shard.Tell(r.Ref(), &ope.Cancel{ID: id, Err: errno.ErrCanceled})
			}
		})
	}
}

// Revoke ends the receives whose buffer lies in a region that is being closed, also those that
// endpoints have taken since they were asked to. Runs on the shard.
func (p *Pool) Revoke(r *mr.Region) {
	defer func() {
		for _, s := range p.seats.all {
			s.e.Revoke(r)
		}
	}()
	p.failReceives(func(o *ope.Order) bool { return o.Req.Touches(r.Bytes()) }, ope.ErrRegionClosed)
}

// failReceives ends the posted receives that which selects, and reports whether there were some.
func (p *Pool) failReceives(which func(*ope.Order) bool, err error) (found bool) {
	p.posted.EachRecv(func(r *match.Recv) bool {
		o := p.orders.At(r.Owner)
		if !which(o) {
			return true
		}
		found = true
		p.posted.RemoveRecv(r)
		req := o.Req
		p.orders.Put(o) // first: the sink may panic
		tell(&req, err)
		return true
	})
	return found
}

// fail ends the receives, and those that come.
func (p *Pool) fail(err error) {
	if p.ending.err == nil {
		p.ending.err = err
	}
	p.drain()
	p.failReceives(func(*ope.Order) bool { return true }, p.ending.err)
	p.Flush(p.cfg.Shard)
}

// end does that, and ends the actor.
func (p *Pool) end(err error) {
	if p.ending.closed.IsSet() {
		return
	}
	p.fail(err)
	p.cfg.Shard.RemovePoller(p)
	p.cfg.Shard.Stop(p.ref)
	p.ending.closed.Set()
	p.refuse()
}

// crashed ends the receives after a panic in the pool. What endpoints have taken goes on there, and
// its outcomes go out by Flush.
func (p *Pool) crashed() {
	if p.handling {
		r := p.reqs.Peek()
		if r.Kind == ope.KindRecv && !p.has(r.ID) {
			p.giveUp(r)
		}
		p.drop(r)
	}
	p.handling = false
	p.fail(fmt.Errorf("%w: panic in the receive pool", errno.ErrIO))
}

// giveUp ends the request that was being handled when the pool crashed.
func (p *Pool) giveUp(r *ope.Request) {
	defer func() { _ = recover() }() // its sink may have caused the panic
	tell(r, errno.ErrIO)
}

// has reports whether the receive id waits, or an endpoint has it.
func (p *Pool) has(id uint64) (found bool) {
	p.posted.EachRecv(func(r *match.Recv) bool {
		found = p.orders.At(r.Owner).Req.ID == id
		return !found
	})
	for _, s := range p.seats.all {
		s.e.pools.EachRx(func(r *ope.Rxe) { found = found || r.RequestID() == id })
	}
	return found
}

// refuse ends what was submitted after the pool took its last request; see closing.refuse.
func (p *Pool) refuse() {
	p.ending.late.Lock()
	defer p.ending.late.Unlock()
	p.drain()
	p.Flush(p.cfg.Shard)
}

func (p *Pool) drain() {
	for r := p.reqs.Rest(); r != nil; r = p.reqs.Rest() {
		switch r.Kind {
		case ope.KindControl:
			r.More.Run()
		case ope.KindCancel:
		default:
			tell(r, p.ending.err)
		}
		p.drop(r)
	}
}
