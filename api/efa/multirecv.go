package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/ope"
)

// MultiRecvAlign is what Completion.Offset of each message in the buffer of a receive with
// Multi is a multiple of. A message uses up its length, rounded up to it.
const MultiRecvAlign = ope.MultiAlign

var errMultiStart = fmt.Errorf("%w: a receive with Multi has many outcomes: they want a queue", ErrInvalid)

// multiRequest goes on with the request of a receive with Multi.
func (e *Endpoint) multiRequest(req *ope.Request, r *RecvReq) error {
	switch {
	case e.cfg.Direct || e.cfg.ZeroCopyRecv:
		return fmt.Errorf("%w: Multi on an endpoint with Direct or ZeroCopyRecv", ErrNotSupported)
	case r.Bufs != nil || len(r.Buf) == 0 || r.MinLeft < 0:
		return fmt.Errorf("%w: a receive with Multi has one buffer, of %d bytes, and MinLeft %d", ErrInvalid, len(r.Buf), r.MinLeft)
	case e.cfg.RecvQueue != nil && e.cfg.RecvQueue.depth < 2:
		return fmt.Errorf("%w: a receive with Multi on a queue for one completion: its end takes one, and each message", ErrInvalid)
	}
	req.Flags |= ope.Multi
	if r.Quiet {
		req.Flags |= ope.QuietParts
	}
	req.Data = uint64(r.MinLeft)
	if r.MinLeft == 0 {
		req.Data = uint64(e.minMulti())
	}
	return nil
}

// minMulti is EndpointConfig.MinMultiRecv in force.
func (e *Endpoint) minMulti() int {
	if n := e.cfg.MinMultiRecv; n > 0 {
		return n
	}
	return e.dom.fab.dev.Info().MTU
}

// finishedMany is finished of receives that are not for one message of a known size.
func (e *Endpoint) finishedMany(q *ope.Request, r *ope.Result) {
	if q.Flags&ope.Part == 0 {
		e.free[ope.KindRecv]++
	}
	if s, ok := q.Sink.(*source); ok && q.Flags&ope.Multi != 0 {
		s.q.leaveOne()
	}
	switch {
	case e.received == nil:
	case r.Err == nil && (q.Flags&ope.Multi != 0 || r.N < 0): // no message has been received by that
	default:
		e.received.count(r.N, r.Err)
	}
}

// Room implements ope.Many: it takes the place for one more completion. If there is none, the
// endpoint gets a turn when the queue was read.
func (s *source) Room() bool {
	if s.q.reserveOf(int64(s.q.depth), 1) > 0 {
		return true
	}
	s.behind.Store(true)
	return s.q.reserveOf(int64(s.q.depth), 1) > 0 // who read meanwhile did not know
}

// keepOne sees to it that a slot is left which posted operations do not reserve, so that
// the messages of a receive with Multi, whose own slot is reserved, come out one by one at least.
// It reports whether there is one; leaveOne ends it with the receive.
func (q *Queue) keepOne() bool {
	q.many.Add(1)
	if q.used.Load() < int64(q.depth) {
		return true
	}
	q.many.Add(-1)
	return false
}

func (q *Queue) leaveOne() { q.many.Add(-1) }
