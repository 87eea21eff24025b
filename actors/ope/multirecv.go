package ope

import (
	"math"

	"github.com/efactor/efactor/actors/trail"
)

// The flags of receives that are not for one message of a known size.
const (
	// Multi: the buffer of a KindRecv takes message after message, until less than Data bytes
	// of it are left. The Sink is a Many.
	Multi Flags = 1 << (31 - iota)
	// Part marks the receive of one message of a Multi. Addr is where in the buffer it lies.
	Part
	// QuietParts: the messages of a Multi are Quiet. Its end is not.
	QuietParts
	// Sized: a KindRecv takes a message only if the first packet has all of it and Buf has the
	// room. Another one is claimed under the request's ID: N of the outcome is then the
	// complement of its length. Data says how many calls had left a message before it; if one
	// more does, N is Recalled.
	Sized
)

// Recalled is N of the outcome of a receive with the flag Sized that has got no message, since one
// is left elsewhere.
const Recalled = math.MinInt

// MultiAlign is what the offset of each message in a buffer for many is a multiple of.
const MultiAlign = 8

// MultiRecvSink is the sink of a receive of many messages.
type MultiRecvSink interface {
	Sink
	// Room takes the place for the outcome of one more message, and reports whether there
	// was one. If not, the endpoint gets a request of some kind when there may be.
	Room() bool
}

// MultiRecv is a posted buffer that takes many messages: where the next one goes, and how many are
// under way to it. It makes a receive for each message, whose sink it is. When it takes no
// more, and all messages in it have ended, the buffer is given back, by the outcome of the
// request that posted it.
type MultiRecv struct {
	order  *Entry
	pools  *Pools
	sink   MultiRecvSink
	at     int // where the next message goes
	out    int // messages with a place in it and without an outcome
	closed bool
	err    error
	next   *MultiRecv
}

// MultiRecv makes the entry a receive of many messages.
func (o *Entry) MultiRecv(p *Pools, sink MultiRecvSink) {
	m := p.multis
	if m == nil {
		m = new(MultiRecv)
	} else {
		p.multis = m.next
	}
	*m = MultiRecv{order: o, pools: p, sink: sink}
	o.Multi = m
}

// Fits reports whether a message of n bytes goes into the rest of the buffer. Nothing is too
// long for all of it: there it is cut off.
func (m *MultiRecv) Fits(n uint64) bool {
	return m.at == 0 || m.at <= len(m.order.Req.Buf) && n <= uint64(len(m.order.Req.Buf)-m.at)
}

// Place makes the receive of a message of n bytes, which fits. full: it is the last one.
func (m *MultiRecv) Place(n uint64) (part *Entry, full bool) {
	q := &m.order.Req
	end := m.at + int(min(n, uint64(len(q.Buf)-m.at)))
	part = m.pools.Entries.Get(q, m.pools.env.Sh.Now())
	p := &part.Req
	p.Flags = q.Flags&^(Multi|QuietParts|Traced) | Part
	if q.Flags&QuietParts != 0 {
		p.Flags |= Quiet
	}
	p.Buf, p.Addr, p.Data, p.Sink = q.Buf[m.at:end:end], uint64(m.at), 0, m
	part.Follow(m.pools.env.Trail, nil)
	m.at = (end + MultiAlign - 1) &^ (MultiAlign - 1)
	m.out++
	left := len(q.Buf) - m.at
	return part, left <= 0 || uint64(left) < q.Data
}

// Room takes the place for the outcome of a message.
func (m *MultiRecv) Room() bool { return m.order.Req.Flags&QuietParts != 0 || m.sink.Room() }

// Done implements Sink, for the receive of one message.
func (m *MultiRecv) Done(q *Request, r *Result) {
	m.sink.Done(q, r)
	m.left()
}

// Forget ends the receive of a message without an outcome, since the endpoint ends.
func (m *MultiRecv) Forget(part *Entry) {
	drop(m.pools.env.Trail, part)
	m.pools.Entries.Put(part)
	m.left()
}

func (m *MultiRecv) left() {
	m.out--
	m.settle()
}

// Close takes no more messages. It is not in the matcher.
func (m *MultiRecv) Close(err error) {
	if !m.closed {
		m.closed, m.err = true, err
		m.settle()
	}
}

// settle gives the buffer back if nothing is under way to it.
func (m *MultiRecv) settle() {
	if !m.closed || m.out > 0 {
		return
	}
	o, p := m.order, m.pools
	q, res := &o.Req, &p.res
	*res = Result{Err: m.err, N: min(m.at, len(q.Buf)), Peer: q.Peer}
	if res.Err != nil {
		p.Tally.Count(q.Kind, 0, res.Err)
		p.env.Trail.Outcome(o.Span, trail.Told, uint64(res.N), res.Err)
		p.env.Trail.Outcome(o.Span, trail.End, uint64(res.N), res.Err)
	} else {
		drop(p.env.Trail, o) // its messages are operations of their own
	}
	m.sink.Done(q, res)
	p.Entries.Put(o)
	*m = MultiRecv{next: p.multis}
	p.multis = m
}
