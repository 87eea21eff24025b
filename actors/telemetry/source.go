package telemetry

import (
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// Source is one endpoint as the Collector sees it: the ring that its shard writes, and
// the operations, peers and endpoint that its records describe.
//
// Apart from Log and SetParent, it is used only with the Collector's lock held.
type Source struct {
	c    *Collector
	ring *trail.Ring
	log  *trail.Log

	parents parents
	name    string
	label   string // of metrics
	sample  Sampler
	peer    func(wire.RawAddr) (uint64, string, bool)
	latest  *Sample
	closed  bool

	ops            map[uint64]*op
	oldest, newest *op
	lives          map[uint64]*life // peers
	self           *life            // the endpoint
	missing        uint64           // records, according to gaps
	at             clock.Time       // of the latest record
	connID         uint32
}

// maxLives is how many peers of an endpoint have a span at a time.
const maxLives = 1 << 16

// Log is the log that the endpoint's shard writes.
func (s *Source) Log() *trail.Log { return s.log }

// SetParent notes the span that the operation of a request is part of; the request has
// the flag Traced. Any goroutine may call it, before the request is submitted.
func (s *Source) SetParent(id uint64, sc trace.SpanContext) {
	s.parents.put(id, sc, max(s.ring.Len()/8, 64))
}

// drain reads the new records and returns their number.
func (s *Source) drain() int { return s.ring.Drain(s.record) }

// record takes the next record.
func (s *Source) record(r *trail.Record) {
	k := r.Kind
	s.at = r.At
	switch {
	case k == trail.Gap:
		s.gap(r.A)
	case k >= trail.PeerBegin:
		s.life(k, r)
	case k == trail.Begin:
		s.begin(r)
	default:
		if o := s.ops[r.Span]; o != nil {
			s.operation(o, k, r)
		} else if l := s.lifeOf(r.Span); l != nil {
			l.trouble(k, r)
		}
	}
}

// lifeOf finds a peer, or the endpoint.
func (s *Source) lifeOf(span uint64) *life {
	if s.self != nil && s.self.span == span {
		return s.self
	}
	return s.lives[span]
}

// gap marks all operations in progress: records are missing.
func (s *Source) gap(n uint64) {
	s.missing += n
	for o := s.oldest; o != nil; o = o.newer {
		o.incomplete = true
	}
	for _, l := range s.lives {
		l.incomplete = true
	}
	if s.self != nil {
		s.self.incomplete = true
	}
}

// begin enters an operation.
func (s *Source) begin(r *trail.Record) {
	if o := s.ops[r.Span]; o != nil { // no Log does that
		s.finish(o, r.At)
	}
	if s.c.open >= s.c.cfg.MaxOpen && !s.c.dropOldest(s) {
		return
	}
	o := s.c.free.get()
	o.span, o.role, o.size, o.flags, o.began, o.ended = r.Span, trail.Role(r.Code), r.A, r.B, r.At, r.At
	o.unsampled = s.c.tracer == nil
	ev := event{at: r.At, kind: trail.Begin, a: r.A}
	if !o.role.Ours() {
		ev.code = 1
	}
	o.add(ev)
	s.ops[r.Span] = o
	s.c.open++
	if o.older = s.newest; o.older == nil {
		s.oldest = o
	} else {
		o.older.newer = o
	}
	s.newest = o
}

// leave takes an operation out.
func (s *Source) leave(o *op) {
	delete(s.ops, o.span)
	s.c.open--
	if o.older == nil {
		s.oldest = o.newer
	} else {
		o.older.newer = o.newer
	}
	if o.newer == nil {
		s.newest = o.older
	} else {
		o.newer.older = o.older
	}
}

// operation takes a record of an operation.
func (s *Source) operation(o *op, k trail.Kind, r *trail.Record) {
	o.ended = r.At
	ev := event{at: r.At, kind: k, code: r.Code, a: r.A, n: r.B}
	switch k {
	case trail.Parent:
		o.parent = s.parents.take(r.A)
	case trail.With:
		o.peer = s.lives[r.A]
	case trail.Tag:
		o.tag, o.flags = r.A, o.flags|trail.FlagTagged
	case trail.Waits:
		o.wait(trail.Reason(r.Code), r.At)
	case trail.GoesOn:
		o.resume(trail.Reason(r.Code), r.At)
	case trail.Chosen:
		s.chosen(o, r)
	case trail.Matched:
		s.matched(o, r)
	case trail.RNR:
		o.rnr++
		o.gather(event{at: r.At, kind: k, code: r.Code, n: 1})
	case trail.Sent, trail.Acked, trail.Received:
		o.gather(ev)
	case trail.Segment:
		o.add(ev)
	case trail.SegmentDone:
		o.gather(event{at: r.At, kind: k, code: r.Code, a: uint64(r.B), n: 1})
	case trail.Window, trail.Unexpected, trail.Answer, trail.Restarted:
		o.turn(ev)
	case trail.Told:
		o.told, o.wasTold, o.moved = r.At, true, r.A
		s.outcome(o, r)
		o.turn(event{at: r.At, kind: trail.Told, a: r.A})
		s.c.durations.record(s.label, o)
	case trail.Dropped:
		s.leave(o)
		s.c.free.put(o)
	case trail.End:
		if !o.wasTold {
			o.moved = r.A
			s.outcome(o, r)
			o.turn(event{at: r.At, kind: trail.Told, a: r.A})
		}
		s.finish(o, r.At)
	default: // from a newer writer than this reader
	}
}

// chosen: from now on it is known whether the operation is sampled. For a message,
// the receive that matches it decides, too.
func (s *Source) chosen(o *op, r *trail.Record) {
	p := ope.Proto(r.Code)
	if p >= ope.NumProtos {
		return
	}
	o.chosen(p, keyOf(p, r.A, r.B), r.At)
	if o.role != trail.Message && !s.sampled(o) {
		o.unsampled = true
	}
}

// sampled decides by the key, or for an operation without one by itself. If the
// application's span is sampled, so is the operation.
func (s *Source) sampled(o *op) bool {
	switch {
	case s.c.tracer == nil:
		return false
	case o.parent.IsSampled():
		return true
	case o.key.IsZero():
		return s.c.ratio.takes(s.own(o))
	default:
		return s.c.ratio.sampled(o.key)
	}
}

// own is a hash for operations without a key; no other operation has the same.
func (s *Source) own(o *op) uint64 { return mix(mix(uint64(s.connID)) ^ o.span) }

// matched joins a message to the receive that it matched.
func (s *Source) matched(o *op, r *trail.Record) {
	m := s.ops[r.A]
	if m == nil || m == o {
		o.incomplete = true
		return
	}
	s.leave(m)
	first := m.began < o.began || m.began == o.began && m.span < o.span // the message was there before the receive
	if !o.unsampled {
		o.events.join(&m.events, first)
	}
	o.matched, o.both = true, max(o.began, m.began)
	if first {
		o.began = m.began
	}
	o.proto, o.key, o.peer, o.incomplete = m.proto, m.key, m.peer, o.incomplete || m.incomplete
	o.flags |= m.flags
	if m.flags&trail.FlagTagged != 0 {
		o.tag = m.tag
	}
	o.rnr += m.rnr
	for i := range o.took {
		o.took[i] += m.took[i]
	}
	s.c.free.put(m)
	o.unsampled = !s.sampled(o)
	o.turn(event{at: r.At, kind: trail.Matched})
}

// outcome notes how it ended.
func (s *Source) outcome(o *op, r *trail.Record) {
	if o.outcome = trail.Outcome(r.Code); o.outcome == trail.Failed {
		o.err = s.log.Err(r.B)
	}
}

// finish makes the span of an operation that is over.
func (s *Source) finish(o *op, at clock.Time) {
	o.end(at)
	if o.proto == ope.ProtoNone && !o.unsampled && !s.sampled(o) {
		o.unsampled = true // it ended before its subprotocol was chosen
	}
	s.leave(o)
	if o.role != trail.Message || o.failed() {
		s.span(o)
	}
	s.c.free.put(o)
}

// close ends everything that is still open: the endpoint is closed.
func (s *Source) close() {
	s.drain()
	if lost := s.ring.Lost(); lost > s.missing {
		s.gap(lost - s.missing)
	}
	s.endOps()
	s.endLives()
}

// endOps ends the operations that are still open.
func (s *Source) endOps() {
	for s.oldest != nil {
		o := s.oldest
		o.incomplete = o.incomplete || !o.wasTold
		s.finish(o, s.at)
	}
}

// parents holds the application's spans that operations are part of, by the IDs of
// the requests. Posting goroutines put them in, the reader of the records takes them
// out. A newer span replaces one that was not taken in time.
type parents struct {
	mu    sync.Mutex
	slots []parent
}

type parent struct {
	id uint64
	sc trace.SpanContext
}

func (p *parents) put(id uint64, sc trace.SpanContext, slots int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots == nil {
		p.slots = make([]parent, slots)
	}
	p.slots[id%uint64(len(p.slots))] = parent{id, sc}
}

func (p *parents) take(id uint64) (sc trace.SpanContext) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slots == nil {
		return sc
	}
	if x := &p.slots[id%uint64(len(p.slots))]; x.id == id {
		sc, *x = x.sc, parent{}
	}
	return sc
}

// pool keeps operations for use again, with the room for their events.
type pool struct{ list *op }

func (p *pool) get() *op {
	o := p.list
	if o == nil {
		return new(op)
	}
	p.list, o.newer = o.newer, nil
	return o
}

func (p *pool) put(o *op) {
	o.reset()
	o.newer, p.list = p.list, o
}
