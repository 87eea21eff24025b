package telemetry

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
)

// op is an operation in progress, as described by its records.
type op struct {
	span  uint64
	role  trail.Role
	flags uint32
	proto ope.Proto
	key   Key
	peer  *life
	tag   uint64
	size  uint64 // bytes of the buffer, or of the message
	moved uint64 // bytes, when its outcome was known

	parent trace.SpanContext // of the application

	began clock.Time
	both  clock.Time // of a receive, when it and its message were there
	told  clock.Time
	ended clock.Time // or when its last record was written

	events events
	since  [trail.NumReasons]clock.Time // began to wait
	waits  uint8                        // for which reasons: a bit each
	took   [trail.NumReasons]time.Duration
	rnr    uint32

	matched    bool
	wasTold    bool
	outcome    trail.Outcome
	err        error // nil of a failure: no longer known
	unsampled  bool  // no event is kept
	incomplete bool

	older, newer *op // by when they began
}

func (o *op) reset() {
	ev := o.events
	ev.reset()
	*o = op{events: ev}
}

// add keeps an event if the operation is to have a span with events.
func (o *op) add(ev event) {
	if !o.unsampled {
		o.events.add(ev)
	}
}

func (o *op) turn(ev event) {
	if !o.unsampled {
		o.events.turn(ev)
	}
}

func (o *op) gather(ev event) {
	if !o.unsampled {
		o.events.gather(ev)
	}
}

// wait begins a wait. In its peer's queue an operation waits for one thing at a time.
func (o *op) wait(r trail.Reason, at clock.Time) {
	if r >= trail.NumReasons {
		return
	}
	if o.proto == ope.ProtoNone {
		o.resume(0, at)
	}
	if o.waits&(1<<r) == 0 {
		o.waits |= 1 << r
		o.since[r] = at
		o.gather(event{at: at, kind: trail.Waits, code: uint8(r), n: 1})
	}
}

// resume ends a wait. Reason 0 ends all waits that the peer's state caused or, while
// the operation is in its peer's queue, all waits.
func (o *op) resume(r trail.Reason, at clock.Time) {
	for i := trail.ForTurn; i < trail.NumReasons; i++ {
		switch {
		case o.waits&(1<<i) == 0:
		case i == r, r == 0 && (o.proto == ope.ProtoNone || i == trail.ForBackoff || i == trail.ForHandshake):
			o.endWait(i, at)
		}
	}
}

func (o *op) endWait(r trail.Reason, at clock.Time) {
	o.waits &^= 1 << r
	d := at.Sub(o.since[r])
	o.took[r] += d
	if !o.unsampled {
		o.events.waited(r, d)
	}
}

// chosen notes the subprotocol; every wait before it was in the peer's queue.
func (o *op) chosen(p ope.Proto, k Key, at clock.Time) {
	o.resume(0, at)
	o.proto = p
	if !k.IsZero() {
		o.key = k
	}
	o.turn(event{at: at, kind: trail.Chosen, code: uint8(p)})
}

// end closes the waits that are still open.
func (o *op) end(at clock.Time) {
	o.ended = at
	for r := trail.ForTurn; r < trail.NumReasons; r++ {
		if o.waits&(1<<r) != 0 {
			o.endWait(r, at)
		}
	}
}

// failed reports whether the application got an error or, if it gets no outcome,
// whether there was one.
func (o *op) failed() bool { return o.outcome == trail.Failed }

// latency is the duration of the operation as the application sees it. A receive is
// counted from the time when both it and its message were there.
func (o *op) latency() time.Duration {
	from, to := o.began, o.told
	if o.matched {
		from = o.both
	}
	if !o.wasTold {
		to = o.ended
	}
	return to.Sub(from)
}

// event is one entry of a span's list. It stands for one record, or for several
// of a kind within one phase of the operation, whose a and n are sums then.
type event struct {
	at   clock.Time
	took time.Duration // of Waits: all of them
	a    uint64
	n    uint32 // of Waits, RNR and SegmentDone: how many
	kind trail.Kind
	code uint8 // of Begin: 1 if a packet brought it
}

// maxEvents is how many events a span has, apart from its last ones: fewer than
// OpenTelemetry's SDK keeps (128).
const maxEvents = 100

// events is the history of an operation. Happenings that come by the dozen while data
// moves are combined within a phase, which lasts until a window opens, an answer
// arrives or the like. So the list does not depend on how packets and
// acknowledgements happen to interleave.
type events struct {
	list    []event
	phase   int // where the present phase begins
	dropped int
}

func (e *events) reset() {
	e.list, e.phase, e.dropped = e.list[:0], 0, 0
}

// add appends an event that is not combined with others.
func (e *events) add(ev event) {
	if len(e.list) >= maxEvents && ev.kind != trail.Told {
		e.dropped++
		return
	}
	e.list = append(e.list, ev)
}

// turn appends an event that begins a new phase.
func (e *events) turn(ev event) {
	e.add(ev)
	e.phase = len(e.list)
}

// gather adds to an event of the same kind in this phase. Events of beginnings keep
// the time of the first, events of endings that of the latest.
func (e *events) gather(ev event) {
	for i := e.phase; i < len(e.list); i++ {
		x := &e.list[i]
		if x.kind != ev.kind || x.code != ev.code {
			continue
		}
		switch ev.kind {
		case trail.Acked:
			x.a, x.at = ev.a, ev.at
		case trail.Received, trail.SegmentDone:
			x.a, x.n, x.at = x.a+ev.a, x.n+ev.n, ev.at
		default:
			x.a, x.n = x.a+ev.a, x.n+ev.n
		}
		return
	}
	e.add(ev)
}

// waited adds to the latest wait for a reason.
func (e *events) waited(r trail.Reason, d time.Duration) {
	for i := len(e.list) - 1; i >= 0; i-- {
		if x := &e.list[i]; x.kind == trail.Waits && x.code == uint8(r) {
			x.took += d
			return
		}
	}
}

// join puts the events of a message before or behind those of the receive that got it.
func (e *events) join(m *events, before bool) {
	if before {
		e.list = append(e.list, m.list...)
		copy(e.list[len(m.list):], e.list[:len(e.list)-len(m.list)])
		copy(e.list, m.list)
	} else {
		e.list = append(e.list, m.list...)
	}
	e.dropped += m.dropped
	e.phase = len(e.list)
}
