package efa

import (
	"github.com/efactor/efactor/actors/ope"
)

// PostSend starts to send a message and returns at once; its outcome goes to the
// endpoint's SendQueue (ErrNoCQ if there is none). ErrAgain means that too many
// operations are in progress, or that the queue has no room for the outcome: read
// completions and try again. It allocates nothing, and nor does &SendReq{...} as its
// argument.
func (e *Endpoint) PostSend(r *SendReq) (OpID, error) {
	if e.state.Load() != enabled || e.sendTo == nil || !e.av.table.holds(uint64(r.To)) {
		if err := e.unsendable(r); err != nil {
			return 0, e.refused(ope.KindSend, r.To, err)
		}
	}
	quiet := r.Quiet || r.Inject
	req := e.room(e.sendTo, &e.tx, quiet)
	if req == nil {
		return 0, errsAgain[ope.KindSend]
	}
	if err := e.fillSend(req, r); err != nil {
		e.giveUp(req, e.sendTo, &e.tx, quiet)
		return 0, e.refused(ope.KindSend, r.To, err)
	}
	return e.hand(req, e.sendTo, &r.Parent)
}

// unsendable says why PostSend refuses a message before there is a request, if it does.
func (e *Endpoint) unsendable(r *SendReq) error {
	if err := e.may(CapMessages); err != nil {
		return err
	}
	if e.sendTo == nil {
		return errNoQueue
	}
	if !e.av.table.holds(uint64(r.To)) {
		return errNoPeer(r.To)
	}
	return nil // it was enabled meanwhile
}

// PostRecv posts a receive, whose outcome goes to the RecvQueue; see PostSend. With Multi its
// buffer takes many messages, see [RecvReq].
func (e *Endpoint) PostRecv(r *RecvReq) (OpID, error) {
	from := r.from()
	if e.state.Load() != enabled || e.cfg.ZeroCopyRecv || e.recvTo == nil || from != AnyAddr {
		if err := e.unreceivable(r, from); err != nil {
			return 0, err
		}
	}
	quiet := r.Quiet && !r.Multi
	req := e.room(e.recvTo, &e.rx, quiet)
	if req == nil {
		return 0, errsAgain[ope.KindRecv]
	}
	if err := e.fillRecv(req, from, r); err != nil {
		e.giveUp(req, e.recvTo, &e.rx, quiet)
		return 0, e.refused(ope.KindRecv, NoAddr, err)
	}
	return e.hand(req, e.recvTo, &r.Parent)
}

// unreceivable says why PostRecv refuses a receive before there is a request, if it does.
func (e *Endpoint) unreceivable(r *RecvReq, from Addr) error {
	if err := e.receivable(from, r.Tagged); err != nil {
		return e.refused(ope.KindRecv, NoAddr, err)
	}
	switch {
	case e.recvTo == nil:
		return e.refused(ope.KindRecv, from, errNoQueue)
	case from != AnyAddr && !e.av.table.holds(uint64(from)):
		return e.refused(ope.KindRecv, from, errNoPeer(from))
	}
	return nil
}

// PostWrite starts to write to a peer's memory, see PostSend and [Memory.Write].
func (e *Endpoint) PostWrite(r *WriteReq) (OpID, error) {
	var req ope.Request
	if err := e.writeRequest(&req, r); err != nil {
		return 0, e.refused(ope.KindWrite, r.To, err)
	}
	return e.post(&req, e.sendTo, &e.tx, &r.Parent)
}

// PostRead starts to read a peer's memory, see PostSend and [Memory.Read].
func (e *Endpoint) PostRead(r *ReadReq) (OpID, error) {
	var req ope.Request
	if err := e.readRequest(&req, r); err != nil {
		return 0, e.refused(ope.KindRead, r.From, err)
	}
	return e.post(&req, e.sendTo, &e.tx, &r.Parent)
}

// PostAtomic starts an atomic, see PostSend and [Cell].
func (e *Endpoint) PostAtomic(r *AtomicReq) (OpID, error) {
	var req ope.Request
	if err := e.atomicRequest(&req, r); err != nil {
		return 0, e.refused(ope.KindAtomic, r.To, err)
	}
	return e.post(&req, e.sendTo, &e.tx, &r.Parent)
}

// post hands a request over that was made aside, and whose outcome goes to a queue.
func (e *Endpoint) post(made *ope.Request, to *source, places *credits, parent *span) (OpID, error) {
	err := e.known(made)
	if to == nil {
		err = errNoQueue
	}
	if err != nil {
		putMore(made)
		return 0, e.refused(made.Kind, peerOf(made), err)
	}
	req := e.room(to, places, made.Flags&ope.Quiet != 0)
	if req == nil {
		putMore(made)
		return 0, errsAgain[made.Kind]
	}
	made.ID = req.ID
	*req = *made
	return e.hand(req, to, parent)
}

// room takes what a posted operation needs: one of places, a slot of the queue for its outcome
// unless it is quiet, and a request in the ring, to be filled in there. It returns nil if
// something is missing.
func (e *Endpoint) room(to *source, places *credits, quiet bool) *ope.Request {
	if !places.takeOne() && places.take(1, false) == 0 {
		return nil
	}
	if !quiet && !to.q.reserveOne() && to.q.reserve(1) == 0 {
		places.release()
		return nil
	}
	req := e.act.Load().Reserve()
	if req == nil {
		places.release()
		if !quiet {
			to.q.unreserve(1)
		}
	}
	return req
}

// reserveOne takes a slot, unless that needs a closer look: then reserve may. It is short enough to
// be inlined.
func (q *Queue) reserveOne() bool {
	used := q.used.Load()
	return used < int64(q.depth) && q.many.Load() == 0 && q.used.CompareAndSwap(used, used+1)
}

// hand hands over a request that has its room.
func (e *Endpoint) hand(req *ope.Request, to *source, parent *span) (OpID, error) {
	ticket := req.ID
	if req.Flags&(ope.Multi|ope.Inject) != 0 || e.tele != nil {
		if err := e.prepare(req, to, parent); err != nil {
			return 0, err
		}
	}
	req.Sink = to
	id := OpID(req.ID)
	e.act.Load().Commit(ticket)
	return id, nil
}

// prepare does for a request what few need.
func (e *Endpoint) prepare(req *ope.Request, to *source, parent *span) error {
	if req.Flags&ope.Multi != 0 && !to.q.keepOne() {
		e.giveUp(req, to, &e.rx, false)
		return errsAgain[ope.KindRecv]
	}
	own(req)
	if e.tele != nil {
		e.traced(req, *parent)
	}
	return nil
}

// giveUp gives back the room of a request that is not to be; quiet as room was told.
func (e *Endpoint) giveUp(req *ope.Request, to *source, places *credits, quiet bool) {
	ticket := req.ID
	req.Forget()
	e.act.Load().Commit(ticket)
	if !quiet {
		to.q.unreserve(1)
	}
	places.release()
}

// Cancel asks for the end of an operation. Its outcome comes as always, with
// ErrCanceled unless it was too late. To cancel what has ended does nothing.
func (e *Endpoint) Cancel(id OpID) (err error) {
	defer formed("cancel", &err)
	if err := e.live(); err != nil {
		return err
	}
	e.cancel(uint64(id))
	return nil
}
