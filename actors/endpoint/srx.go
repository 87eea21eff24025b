package endpoint

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/runtime/ring"
	"github.com/efactor/efactor/runtime/shard"
)

// SRX is the actor of a shared receive context (SRX, fi_srx_context): receives that messages
// to several endpoints take.
//
//   - It owns the posted receives, and the order in which endpoints are served that have
//     messages waiting (srxMembers). Each endpoint keeps its own unexpected messages.
//   - The application reaches it through a request ring. Endpoints of its shard, no others,
//     call it, so that nothing is locked.
//   - It gives a receive to the endpoint whose message takes it; from then on it is as if it
//     had been posted there. Outcomes of receives that no message took go to their sinks.
//   - It waits for nothing.
//   - Close ends the receives that wait, and it; by then no endpoint has it.
type SRX struct {
	cfg     SRXConfig
	ref     shard.Ref
	reqs    *ring.MPSC[ope.Request]
	posted  *match.Table // receives only
	orders  *ope.Entries // of the pool and of its endpoints
	members srxMembers
	ending  srxEnd

	handling bool // the request at the head of the ring
}

// SRXConfig has what an SRX uses.
type SRXConfig struct {
	Shard *shard.Shard
	Depth int // requests that fit the ring
	// OnFlush is called on the shard at the end of a turn; may be nil.
	OnFlush func()
}

// SRXSink takes the outcomes of those of an SRX's receives that messages to one endpoint
// took. Its methods are called on the shard.
type SRXSink interface {
	ope.Sink
	// Room takes the place of one more outcome, and reports whether there was one. If not,
	// the shard runs a turn when there is.
	Room() bool
	// Waive gives back what Room took.
	Waive()
	// Took says that the receive r has that place, so that it needs none that it had with the
	// pool. A quiet one gives the place back.
	Took(r *ope.Request)
}

// srxEnd is the end of an SRX, by Close or by a panic.
type srxEnd struct {
	err    error        // why the pool takes no more receives; the shard's
	closed shard.Signal // nothing is posted any more; any goroutine
	late   sync.Mutex   // held by the goroutine that refuses requests once closed is set
}

type (
	srxBegin struct{ shard.Message }
	srxClose struct{ shard.Message }
)

// OpenSRX makes an SRX. Any goroutine.
func OpenSRX(cfg SRXConfig) (*SRX, error) {
	p := &SRX{cfg: cfg, reqs: ring.NewMPSC[ope.Request](cfg.Depth), posted: match.New(), orders: new(ope.Entries)}
	var err error
	if p.ref, err = cfg.Shard.Spawn("", func() actor.Actor { return p }); err != nil {
		return nil, err
	}
	cfg.Shard.Post(p.ref, &srxBegin{})
	return p, nil
}

// Submit copies a request into the pool's ring, and reports whether there was room. Any
// goroutine.
func (p *SRX) Submit(r *ope.Request) bool {
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
func (p *SRX) Close(ctx context.Context) error {
	p.cfg.Shard.Post(p.ref, &srxClose{})
	if err := p.cfg.Shard.Wait(ctx, &p.ending.closed); err != nil {
		return err
	}
	p.refuse()
	return nil
}

// Receive is the pool's message switch.
func (p *SRX) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *srxBegin:
		p.cfg.Shard.AddPoller(p.ref, p)
	case *srxClose:
		p.end(errno.ErrClosed)
	case *actor.Restarting:
		p.crashed()
	}
}

// Poll takes requests from the application.
func (p *SRX) Poll(*shard.Shard) int {
	n := p.members.retry()
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
func (p *SRX) Flush(*shard.Shard) {
	if p.cfg.OnFlush != nil {
		p.cfg.OnFlush()
	}
}

// Arm is asked before the shard sleeps, which it has announced.
func (p *SRX) Arm() bool { return p.reqs.Idle() }

// FDs has nothing to add to the devices'.
func (p *SRX) FDs() []int { return nil }

func (p *SRX) drop(r *ope.Request) {
	r.Forget()
	p.reqs.Drop()
}

func (p *SRX) handle(r *ope.Request) {
	switch {
	case r.Kind == ope.KindControl:
		r.More.Run()
	case r.Kind == ope.KindCancel:
		p.onCancel(r.ID)
	case p.ending.err != nil:
		complete(r, p.ending.err)
	case r.Kind == ope.KindRecv && r.Peer == uint64(match.AnySource):
		p.onRecv(r)
	default:
		complete(r, errno.ErrInvalid)
	}
}

// onRecv gives a receive to the endpoint whose turn it is among those with a message that
// the receive takes, and posts it if there is none.
func (p *SRX) onRecv(r *ope.Request) {
	o := p.orders.Get(r, p.cfg.Shard.Now())
	o.Recv.Kind = match.KindOf(r.Flags&ope.Tagged != 0)
	o.Recv.Tag, o.Recv.Ignore, o.Recv.Source = r.Tag, r.Ignore, match.AnySource
	if !p.members.serve(o) {
		p.posted.Post(&o.Recv)
	}
}

// onCancel ends the receive id if it has not ended.
func (p *SRX) onCancel(id uint64) {
	found := p.failReceives(func(o *ope.Entry) bool { return o.Req.ID == id }, errno.ErrCanceled)
	if found {
		return
	}
	for _, s := range p.members.all {
		s.e.pools.EachRx(func(r *ope.Rxe) {
			if r.RequestID() == id {
				p.cfg.Shard.Tell(r.Ref(), &ope.Cancel{ID: id, Err: errno.ErrCanceled})
			}
		})
	}
}

// Revoke ends the receives whose buffer lies in a region that is being closed, also those that
// endpoints have taken since they were asked to. Runs on the shard.
func (p *SRX) Revoke(r *mr.Region) {
	defer func() {
		for _, s := range p.members.all {
			s.e.Revoke(r)
		}
	}()
	p.failReceives(func(o *ope.Entry) bool { return o.Req.Touches(r.Bytes()) }, ope.ErrRegionClosed)
}

// failReceives ends the posted receives that which selects, and reports whether there were some.
func (p *SRX) failReceives(which func(*ope.Entry) bool, err error) (found bool) {
	p.posted.EachRecv(func(r *match.Recv) bool {
		o := p.orders.At(r.Owner)
		if !which(o) {
			return true
		}
		found = true
		p.posted.RemoveRecv(r)
		req := o.Req
		p.orders.Put(o) // first: the sink may panic
		complete(&req, err)
		return true
	})
	return found
}

// fail ends the receives, and those that come.
func (p *SRX) fail(err error) {
	if p.ending.err == nil {
		p.ending.err = err
	}
	p.drain()
	p.failReceives(func(*ope.Entry) bool { return true }, p.ending.err)
	p.Flush(p.cfg.Shard)
}

// end does that, and ends the actor.
func (p *SRX) end(err error) {
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
func (p *SRX) crashed() {
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
func (p *SRX) giveUp(r *ope.Request) {
	defer func() { _ = recover() }() // its sink may have caused the panic
	complete(r, errno.ErrIO)
}

// has reports whether the receive id waits, or an endpoint has it.
func (p *SRX) has(id uint64) (found bool) {
	p.posted.EachRecv(func(r *match.Recv) bool {
		found = p.orders.At(r.Owner).Req.ID == id
		return !found
	})
	for _, s := range p.members.all {
		s.e.pools.EachRx(func(r *ope.Rxe) { found = found || r.RequestID() == id })
	}
	return found
}

// refuse ends what was submitted after the pool took its last request; see closing.refuse.
func (p *SRX) refuse() {
	p.ending.late.Lock()
	defer p.ending.late.Unlock()
	p.drain()
	p.Flush(p.cfg.Shard)
}

func (p *SRX) drain() {
	for r := p.reqs.Rest(); r != nil; r = p.reqs.Rest() {
		switch r.Kind {
		case ope.KindControl:
			r.More.Run()
		case ope.KindCancel:
		default:
			complete(r, p.ending.err)
		}
		p.drop(r)
	}
}

// srxMember is an endpoint that has an SRX.
type srxMember struct {
	e    *Endpoint
	sink SRXSink

	prev, next *srxMember // ring of those with messages that wait; nil: it is not in it
	// blocked: there was no room for an outcome, and messages wait that posted receives take.
	// No later message of the endpoint may be given a receive before them.
	blocked bool
}

// srxMembers are an SRX's endpoints. Those with messages that wait stand in a ring and are
// served in turn, one receive each, so that a flood at one leaves the others their share.
type srxMembers struct {
	all     []*srxMember
	first   *srxMember // in the ring: whose turn it is
	waiting int
	blocked int
}

// join makes e a member, whose outcomes sink takes. Runs on the shard.
func (p *SRX) join(e *Endpoint, sink SRXSink) *srxMember {
	s := &srxMember{e: e, sink: sink}
	p.members.all = append(p.members.all, s)
	return s
}

// leave ends the membership, if there is one. The receives that no message took stay with
// the pool.
func (s *srxMember) leave() {
	if s == nil || s.e.srx == nil {
		return
	}
	q := &s.e.cfg.SRX.members
	q.removeWaiting(s)
	q.setBlocked(s, false)
	q.all = slices.DeleteFunc(q.all, func(x *srxMember) bool { return x == s })
	s.e.srx = nil
}

// arrive gives a message, which none of the endpoint's own receives takes, one of the SRX's. If
// there is none it returns false, and the message is to be added to the endpoint's table.
func (s *srxMember) arrive(r *ope.Rxe, k match.Kind, tag uint64) bool {
	p := s.e.cfg.SRX
	if s.blocked || p.posted.Recvs() == 0 {
		p.members.addWaiting(s)
		return false
	}
	if !s.sink.Room() {
		p.members.setBlocked(s, true)
		p.members.addWaiting(s)
		return false
	}
	o := p.posted.Arrive(k, tag, match.NotAvail)
	if o == nil {
		s.sink.Waive()
		p.members.addWaiting(s)
		return false
	}
	s.pair(r, p.orders.At(o.Owner))
	return true
}

// pair makes a receive of the SRX's, for which Room was called, the endpoint's.
func (s *srxMember) pair(r *ope.Rxe, o *ope.Entry) {
	s.sink.Took(&o.Req)
	o.Req.Sink = s.sink
	r.Match(o)
}

// serve gives the receive o the endpoint's oldest message that it takes, if there is one.
func (s *srxMember) serve(o *ope.Entry) bool {
	if s.blocked {
		return false
	}
	m := s.e.table.Find(o.Recv.Kind, o.Recv.Tag, o.Recv.Ignore, match.AnySource)
	if m == nil {
		return false
	}
	if !s.sink.Room() {
		s.e.cfg.SRX.members.setBlocked(s, true)
		return false
	}
	s.e.table.RemoveMsg(m)
	s.pair(s.e.pools.Rxe(m.Owner), o)
	return true
}

// retry gives posted receives to messages that had to wait for room, as far as there is some.
func (s *srxMember) retry() (n int) {
	p := s.e.cfg.SRX
	stuck := false
	s.e.table.EachMsg(func(m *match.Msg) bool {
		if p.posted.Recvs() == 0 {
			return false
		}
		if stuck = !s.sink.Room(); stuck {
			return false
		}
		r := p.posted.Arrive(m.Kind, m.Tag, match.NotAvail)
		if r == nil {
			s.sink.Waive()
			return true
		}
		n++
		s.e.table.RemoveMsg(m)
		s.pair(s.e.pools.Rxe(m.Owner), p.orders.At(r.Owner))
		return true
	})
	p.members.setBlocked(s, stuck)
	return n
}

// retry looks for room where there was none.
func (q *srxMembers) retry() (n int) {
	if q.blocked == 0 {
		return 0
	}
	for _, s := range slices.Clone(q.all) {
		if s.blocked {
			n += s.retry()
		}
	}
	return n
}

// serve gives a receive to the first endpoint, from the one whose turn it is on, that has a
// message for it. Then it is the next one's turn.
func (q *srxMembers) serve(o *ope.Entry) bool {
	q.retry()
	s := q.first
	for range q.waiting {
		next := s.next
		if s.e.table.Msgs() == 0 {
			q.removeWaiting(s)
		} else if s.serve(o) {
			if s.next == nil {
				return true // it has left
			}
			if q.first = s.next; s.e.table.Msgs() == 0 {
				q.removeWaiting(s)
			}
			return true
		}
		s = next
	}
	return false
}

// addWaiting puts an endpoint into the ring: it is about to have a message that waits.
func (q *srxMembers) addWaiting(s *srxMember) {
	if s.next != nil {
		return
	}
	q.waiting++
	if q.first == nil {
		s.prev, s.next, q.first = s, s, s
		return
	}
	s.next, s.prev = q.first, q.first.prev
	s.prev.next, s.next.prev = s, s
}

// removeWaiting takes it out.
func (q *srxMembers) removeWaiting(s *srxMember) {
	if s.next == nil {
		return
	}
	q.waiting--
	if q.first == s {
		if q.first = s.next; q.first == s {
			q.first = nil
		}
	}
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
}

func (q *srxMembers) setBlocked(s *srxMember, blocked bool) {
	if s.blocked == blocked {
		return
	}
	if s.blocked = blocked; blocked {
		q.blocked++
	} else {
		q.blocked--
	}
}
