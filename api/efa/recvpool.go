package efa

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/shard"
)

// RecvPoolConfig says what pool of receives to make.
type RecvPoolConfig struct {
	// AV is the address vector of the pool's endpoints: a receive may end at any of them,
	// and Message.From must mean the same peer. nil: one of its own.
	AV *AddressVector
	// Queue gets the outcomes of receives that no message took (canceled, or the pool was
	// closed), and those of endpoints without a RecvQueue. It must be there (else ErrNoCQ).
	Queue *Queue
	// Depth is the most receives that are posted or in progress; 0: 16384.
	Depth int
}

// RecvPool is receives that the messages to several endpoints take, tagged and not: a shared
// receive context (fi_srx_context). A server with a thousand endpoints needs buffers for
// the messages that come at a time, not a thousand times as many. EndpointConfig.RecvPool binds an endpoint
// to one; any number of goroutines may use it.
//
//   - A message takes the receive of its endpoint's own that was posted first and takes it;
//     if there is none, the pool's. The messages of one endpoint take the pool's receives in the order
//     in which they arrived, as if the receives had been posted there.
//   - A receive that is posted while messages wait at several endpoints goes to these in turn,
//     one each: a flood at one endpoint leaves the others their share.
//   - The outcome of a receive goes to the RecvQueue of the endpoint whose message took it, and is counted in
//     its RecvCounter. If that queue has no room, the endpoint's messages wait until there is, and
//     the others' go on. A queue that several endpoints have does not tell at which of
//     them a message came; give those that must be told apart queues of their own.
//   - Memory for messages that wait is each endpoint's, as without a pool (ProtocolConfig.TotalMemory).
//   - All endpoints of a pool live on one shard of the domain, the pool's, since nothing between
//     them is locked: more shards are used by more pools.
//   - The pool's receives take messages from every peer: a receive from one peer alone must be posted at
//     an endpoint.
type RecvPool struct {
	// at has what a queue and the checks of requests want of an endpoint. It is never enabled.
	at  *Endpoint
	act *endpoint.SRX

	mu  sync.Mutex
	eps users[*Endpoint]
}

// poolID marks the ids of a pool's operations, so that they are none of its endpoints'.
const poolID = 1 << 62

// poolRing is how many requests may be on their way to the shard.
const poolRing = 1024

// Queue is the pool's own.
func (p *RecvPool) Queue() *Queue { return p.at.cfg.RecvQueue }

// Post posts a receive; see Endpoint.PostRecv. ErrAgain means that Depth receives are posted or in
// progress, or that the pool's queue has no room. A directed one is ErrNotSupported. Parent
// has no meaning. It allocates nothing.
func (p *RecvPool) Post(r *RecvReq) (OpID, error) {
	var req ope.Request
	if r.Directed {
		return 0, p.at.refused(ope.KindRecv, NoAddr, fmt.Errorf("%w: a pool's receive takes messages from every peer", ErrNotSupported))
	}
	e := p.at
	if r.Multi {
		return 0, e.refused(ope.KindRecv, NoAddr, fmt.Errorf("%w: Multi in a RecvPool", ErrNotSupported))
	}
	if err := e.recvRequest(&req, r); err != nil {
		return 0, e.refused(ope.KindRecv, NoAddr, err)
	}
	if !e.rx.take(1, false) {
		return 0, errsAgain[ope.KindRecv]
	}
	quiet, q := req.Flags&ope.Quiet != 0, e.recvTo.q
	if !quiet && q.reserve(1) == 0 {
		e.rx.release()
		return 0, errsAgain[ope.KindRecv]
	}
	req.Sink, req.ID = e.recvTo, poolID|e.lastID.Add(1)
	if !p.act.Submit(&req) {
		if !quiet {
			q.unreserve(1)
		}
		e.rx.release()
		return 0, errsAgain[ope.KindRecv]
	}
	return OpID(req.ID), nil
}

// Cancel asks for the end of a receive, see Endpoint.Cancel.
func (p *RecvPool) Cancel(id OpID) (err error) {
	defer formed("cancel", &err)
	if err := p.at.live(); err != nil {
		return err
	}
	p.submit(&ope.Request{Kind: ope.KindCancel, ID: uint64(id)})
	return nil
}

// submit puts a request into the ring, however full it is.
func (p *RecvPool) submit(req *ope.Request) {
	for !p.act.Submit(req) {
		p.at.giveWay()
	}
}

// control has f run on the shard, or, after the end of the pool, somewhere else.
func (p *RecvPool) control(f func()) {
	p.submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: f}})
}

// Close ends the receives that no message has taken with ErrClosed. It is ErrBusy while the
// pool has endpoints: those that are closed leave it, and what they have not received is
// the others'. Close is idempotent.
func (p *RecvPool) Close() (err error) {
	defer formed("close receive pool", &err)
	e := p.at
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.eps.list); n > 0 {
		return fmt.Errorf("%w: the pool has %d endpoints", ErrBusy, n)
	}
	if p.eps.closed {
		return nil
	}
	p.eps.closed = true
	e.state.Store(closed)
	err = p.act.Close(context.Background())
	if errors.Is(err, shard.ErrClosed) {
		err = nil
	}
	e.recvTo.q.unbind(e)
	e.dom.pools.remove(p)
	return err
}

// check refuses endpoints that the pool cannot have.
func (p *RecvPool) check(d *Domain, cfg *EndpointConfig) error {
	switch {
	case p == nil:
		return nil
	case p.at.dom != d:
		return fmt.Errorf("%w: the receive pool is another domain's", ErrDomain)
	case cfg.AV != nil && cfg.AV != p.at.cfg.AV:
		return fmt.Errorf("%w: endpoints of a receive pool share its address vector", ErrInvalid)
	case cfg.Direct || cfg.Datagram:
		return fmt.Errorf("%w: a receive pool for endpoints without the protocol", ErrNotSupported)
	}
	return nil
}

// pooled takes the outcomes of a pool's receives that messages to one endpoint took. It is
// the shard's.
type pooled struct {
	pool *RecvPool
	e    *Endpoint
}

// of is what an endpoint with the pool uses of it; nothing without one.
func (p *RecvPool) of(e *Endpoint) (*endpoint.SRX, endpoint.SRXSink) {
	if p == nil {
		return nil, nil
	}
	return p.act, &pooled{p, e}
}

// to is where the outcomes go.
func (s *pooled) to() *source {
	if s.e.recvTo != nil {
		return s.e.recvTo
	}
	return s.pool.at.recvTo
}

// apart reports whether the place in the pool's queue is of no use.
func (s *pooled) apart() bool { return s.e.recvTo != nil && s.e.recvTo.q != s.pool.at.recvTo.q }

// Room implements endpoint.SRXSink.
func (s *pooled) Room() bool { return !s.apart() || s.e.writtenRoom() }

// Waive implements endpoint.SRXSink.
func (s *pooled) Waive() {
	if s.apart() {
		s.e.recvTo.q.unreserve(1)
	}
}

// Took implements endpoint.SRXSink.
func (s *pooled) Took(q *ope.Request) {
	switch {
	case !s.apart():
	case q.Flags&ope.Quiet != 0:
		s.Waive()
	default:
		s.pool.at.recvTo.q.unreserve(1)
	}
}

// Done implements ope.Sink.
func (s *pooled) Done(q *ope.Request, r *ope.Result) {
	s.pool.at.finished(q, r)
	if c := s.e.received; c != nil {
		c.count(r.Err)
	}
	to := s.to()
	if q.Flags&ope.Quiet != 0 {
		to.quiet(q, r)
		return
	}
	to.ring.Put().fill(to.of, q, r)
}
