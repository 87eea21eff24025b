package endpoint

import (
	"slices"

	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/ope"
)

// PoolSink takes the outcomes of those of a pool's receives that messages to one endpoint
// took. Its methods are called on the shard.
type PoolSink interface {
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

// seat is an endpoint's part in a pool.
type seat struct {
	e    *Endpoint
	sink PoolSink

	prev, next *seat // ring of those with messages that wait; nil: it is not in it
	// short: there was no room for an outcome, and messages wait that posted receives take.
	// No later message of the endpoint may be given a receive before them.
	short bool
}

// seats are a pool's endpoints. Those with messages that wait stand in a ring and are
// served in turn, one receive each, so that a flood at one leaves the others their share.
type seats struct {
	all    []*seat
	first  *seat // in the ring: whose turn it is
	inRing int
	shorts int
}

// join makes e one of the pool's endpoints. Runs on the shard.
func (e *Endpoint) join() *seat {
	s := &seat{e: e, sink: e.cfg.PoolSink}
	e.cfg.Pool.seats.all = append(e.cfg.Pool.seats.all, s)
	return s
}

// leave ends that. The receives that no message took are the pool's, as ever.
func (e *Endpoint) leave() {
	if e.seat == nil {
		return
	}
	q := &e.cfg.Pool.seats
	q.rest(e.seat)
	q.setShort(e.seat, false)
	q.all = slices.DeleteFunc(q.all, func(x *seat) bool { return x == e.seat })
	e.seat = nil
}

// take gives a message that none of the endpoint's own receives takes one of the pool's. If
// there is none it returns false, and the message is to be added to the endpoint's table.
func (s *seat) take(r *ope.Rxe, k match.Kind, tag uint64) bool {
	p := s.e.cfg.Pool
	if s.short || p.posted.Recvs() == 0 {
		p.seats.enter(s)
		return false
	}
	if !s.sink.Room() {
		p.seats.setShort(s, true)
		p.seats.enter(s)
		return false
	}
	o := p.posted.Arrive(k, tag, match.NotAvail)
	if o == nil {
		s.sink.Waive()
		p.seats.enter(s)
		return false
	}
	s.match(r, p.orders.At(o.Owner))
	return true
}

// match makes a receive of the pool's, for which Room was called, the endpoint's.
func (s *seat) match(r *ope.Rxe, o *ope.Order) {
	s.sink.Took(&o.Req)
	o.Req.Sink = s.sink
	r.Match(o)
}

// give has the receive o take the endpoint's oldest message that it can, if there is one.
func (s *seat) give(o *ope.Order) bool {
	if s.short {
		return false
	}
	m := s.e.table.Find(o.Recv.Kind, o.Recv.Tag, o.Recv.Ignore, match.AnySource)
	if m == nil {
		return false
	}
	if !s.sink.Room() {
		s.e.cfg.Pool.seats.setShort(s, true)
		return false
	}
	s.e.table.RemoveMsg(m)
	s.match(s.e.pools.Rxe(m.Owner), o)
	return true
}

// feed gives posted receives to messages that had to wait for room, as far as there is some.
func (s *seat) feed() (n int) {
	p := s.e.cfg.Pool
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
		s.match(s.e.pools.Rxe(m.Owner), p.orders.At(r.Owner))
		return true
	})
	p.seats.setShort(s, stuck)
	return n
}

// retry looks for room where there was none.
func (q *seats) retry() (n int) {
	if q.shorts == 0 {
		return 0
	}
	for _, s := range slices.Clone(q.all) {
		if s.short {
			n += s.feed()
		}
	}
	return n
}

// serve gives a receive to the first endpoint, from the one whose turn it is on, that has a
// message for it. Then it is the next one's turn.
func (q *seats) serve(o *ope.Order) bool {
	q.retry()
	s := q.first
	for range q.inRing {
		next := s.next
		if s.e.table.Msgs() == 0 {
			q.rest(s)
		} else if s.give(o) {
			if s.next == nil {
				return true // it has left
			}
			if q.first = s.next; s.e.table.Msgs() == 0 {
				q.rest(s)
			}
			return true
		}
		s = next
	}
	return false
}

// enter puts an endpoint into the ring: it is about to have a message that waits.
func (q *seats) enter(s *seat) {
	if s.next != nil {
		return
	}
	q.inRing++
	if q.first == nil {
		s.prev, s.next, q.first = s, s, s
		return
	}
	s.next, s.prev = q.first, q.first.prev
	s.prev.next, s.next.prev = s, s
}

// rest takes it out.
func (q *seats) rest(s *seat) {
	if s.next == nil {
		return
	}
	q.inRing--
	if q.first == s {
		if q.first = s.next; q.first == s {
			q.first = nil
		}
	}
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next = nil, nil
}

func (q *seats) setShort(s *seat, short bool) {
	if s.short == short {
		return
	}
	if s.short = short; short {
		q.shorts++
	} else {
		q.shorts--
	}
}
