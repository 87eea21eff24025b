package telemetry

import (
	"time"

	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
)

// step is the kind of an event.
type step uint8

const (
	stepPosted step = iota
	stepArrived
	stepWaited // code: trail.Reason; n: times; took: all of them
	stepProtocol
	stepSent     // code: wire.Type; a: bytes; n: packets
	stepAcked    // a: bytes, so far
	stepWindow   // code: 1 if it came; a: bytes
	stepReceived // code: wire.Type; a: bytes; n: packets
	stepSegment  // code: device.WR; a: offset; b: bytes
	stepSegments // that have ended. code: device.WR; a: bytes; n: how many
	stepRNR      // code: wire.Type; n: how many
	stepUnexpected
	stepMatched
	stepAnswer // code: wire.Type; n: 1 if it came
	stepRestarted
	stepTold // a: bytes
)

// event is one entry of a span's list. It stands for one happening, or for several
// of a kind within one phase of the operation.
type event struct {
	at   clock.Time
	took time.Duration
	a    uint64
	b, n uint32
	step step
	code uint8
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
	if len(e.list) >= maxEvents && ev.step != stepTold {
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
		if x.step != ev.step || x.code != ev.code {
			continue
		}
		switch ev.step {
		case stepAcked:
			x.a, x.at = ev.a, ev.at
		case stepReceived, stepSegments:
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
		if x := &e.list[i]; x.step == stepWaited && x.code == uint8(r) {
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
