package efa

import (
	"github.com/efactor/efactor/actors/ope"
)

// PostSends posts messages in their order until one is refused, and returns how many
// were accepted, with the error of the next; see PostSend. The shard is woken once for
// all of them, and the device's doorbell rings once for those that go out together: up to 64.
func (e *Endpoint) PostSends(rs []SendReq) (int, error) {
	b := batch{e: e, to: e.sendTo, places: &e.tx}
	for i := range rs {
		r := &rs[i]
		if !b.begin(len(rs)-i) || !b.made(e.sendRequest(&b.req, r)) || !b.push(&r.Parent) {
			break
		}
	}
	return b.end()
}

// PostRecvs posts receives in their order until one is refused, see PostSends.
func (e *Endpoint) PostRecvs(rs []RecvReq) (int, error) {
	b := batch{e: e, to: e.recvTo, places: &e.rx}
	for i := range rs {
		r := &rs[i]
		if !b.begin(len(rs)-i) || !b.made(e.recvRequest(&b.req, r)) || !b.push(&r.Parent) {
			break
		}
	}
	return b.end()
}

// batch is requests of one kind on their way to the shard. Their places, and the slots of
// their completions, are taken in one step.
type batch struct {
	e      *Endpoint
	to     *source
	places *credits
	req    ope.Request

	credit, slots int // taken, not used yet
	n             int // accepted
	err           error
}

// begin sees to it that there is a place for the next request, where left are to come.
func (b *batch) begin(left int) bool {
	b.req = ope.Request{}
	switch {
	case b.to == nil:
		b.err = errNoQueue
	case b.credit == 0:
		if b.credit = b.places.take(left, false); b.credit == 0 {
			b.err = ErrAgain
		}
	}
	return b.err == nil
}

// made notes whether the next request is one.
func (b *batch) made(err error) bool {
	b.err = err
	return err == nil
}

// push hands the request to the shard, which is not woken yet.
func (b *batch) push(parent *span) bool {
	if b.err = b.e.known(&b.req); b.err != nil {
		return false
	}
	quiet := b.req.Flags&ope.Quiet != 0
	if !quiet && b.slots == 0 {
		if b.slots = b.to.q.reserve(b.credit); b.slots == 0 {
			b.err = ErrAgain
			return false
		}
	}
	multi := b.req.Flags&ope.Multi != 0
	if multi && !b.to.q.keepOne() {
		if b.slots < 2 {
			b.err = ErrAgain
			return false
		}
		b.to.q.unreserve(1) // one that was to be a later request's
		b.slots--
		if multi = b.to.q.keepOne(); !multi {
			b.err = ErrAgain
			return false
		}
	}
	b.e.accept(&b.req, b.to)
	if b.e.tele != nil {
		b.e.traced(&b.req, *parent)
	}
	if !b.e.act.Load().Push(&b.req) {
		if multi {
			b.to.q.leaveOne()
		}
		disown(&b.req)
		b.req.PutLists()
		b.err = ErrAgain
		return false
	}
	b.credit--
	if !quiet {
		b.slots--
	}
	b.n++
	return true
}

// end gives back what was not used, and wakes the shard.
func (b *batch) end() (int, error) {
	if b.slots > 0 {
		b.to.q.unreserve(b.slots)
	}
	if b.n > 0 {
		b.e.act.Load().Pushed()
	}
	if b.credit > 0 {
		b.places.settle(-int64(b.credit))
	}
	if b.err != nil {
		kind := ope.KindSend
		if b.places == &b.e.rx {
			kind = ope.KindRecv
		}
		b.err = b.e.refused(kind, b.peer(), b.err)
	}
	return b.n, b.err
}
