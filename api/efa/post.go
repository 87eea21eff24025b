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
	var req ope.Request
	if err := e.sendRequest(&req, r); err != nil {
		return 0, e.refused(ope.KindSend, r.To, err)
	}
	return e.post(&req, e.sendTo, &e.tx, &r.Parent)
}

// PostRecv posts a receive, whose outcome goes to the RecvQueue; see PostSend. With Multi its
// buffer takes many messages, see [RecvReq].
func (e *Endpoint) PostRecv(r *RecvReq) (OpID, error) {
	var req ope.Request
	if err := e.recvRequest(&req, r); err != nil {
		return 0, e.refused(ope.KindRecv, NoAddr, err)
	}
	return e.post(&req, e.recvTo, &e.rx, &r.Parent)
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

// post hands a request over whose outcome goes to a queue.
func (e *intake) post(req *ope.Request, to *source, places *credits, parent *span) (OpID, error) {
	if to == nil {
		putMore(req)
		return 0, e.refused(req.Kind, peerOf(req), errNoQueue)
	}
	if err := e.known(req); err != nil {
		putMore(req)
		return 0, e.refused(req.Kind, peerOf(req), err)
	}
	if places.take(1, false) == 0 {
		putMore(req)
		return 0, errsAgain[req.Kind]
	}
	if req.Flags&ope.Quiet == 0 && to.q.reserve(1) == 0 {
		putMore(req)
		places.release()
		return 0, errsAgain[req.Kind]
	}
	if req.Flags&ope.Multi != 0 && !to.q.keepOne() {
		to.q.unreserve(1)
		places.release()
		return 0, errsAgain[req.Kind]
	}
	e.accept(req, to)
	if e.tele != nil {
		e.traced(req, *parent)
	}
	if !e.act.Load().Submit(req) {
		if req.Flags&ope.Multi != 0 {
			to.q.leaveOne()
		}
		if req.Flags&ope.Quiet == 0 {
			to.q.unreserve(1)
		}
		e.refuse(req)
		return 0, errsAgain[req.Kind]
	}
	return OpID(req.ID), nil
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
