package efa

import "github.com/efactor/efactor/actors/ope"

// bind enters the endpoint where others must know of it. After a failure unbind
// takes it out again.
func (e *Endpoint) bind() (err error) {
	e.dom.add(e)
	for _, n := range e.cfg.counters() {
		n.bind(e.sh)
	}
	if p := e.cfg.RecvPool; p != nil {
		if err := p.bind(e); err != nil {
			return err
		}
	}
	if err := e.cfg.AV.bind(e); err != nil {
		return err
	}
	if q := e.cfg.SendQueue; q != nil {
		if e.sendTo, err = q.bind(e); err != nil {
			return err
		}
	}
	if q := e.cfg.RecvQueue; q != nil {
		if e.recvTo, err = q.bind(e); err != nil {
			return err
		}
	}
	return nil
}

func (e *Endpoint) unbind() {
	e.cfg.AV.unbind(e)
	if e.cfg.RecvPool != nil {
		e.cfg.RecvPool.unbind(e)
	}
	for _, q := range []*Queue{e.cfg.SendQueue, e.cfg.RecvQueue} {
		if q != nil {
			q.unbind(e)
		}
	}
	for _, n := range e.cfg.counters() {
		n.unbind()
	}
	e.dom.remove(e)
	e.dom.leave(&e.dom.open)
}

// flusher returns what runs on the shard at the end of a turn. A program that reads a completion
// may post the next operation: places come first. It is not inlined: calls would not be inlined in it, then.
//
//go:noinline
func (e *Endpoint) flusher() func() {
	return func() {
		if n := e.free[ope.KindSend]; n > 0 {
			e.free[ope.KindSend] = 0
			e.tx.settle(-n)
		}
		if n := e.free[ope.KindRecv]; n > 0 {
			e.free[ope.KindRecv] = 0
			e.rx.settle(-n)
		}
		if e.sendTo != nil {
			e.sendTo.publish()
		}
		if e.recvTo != nil && e.recvTo != e.sendTo {
			e.recvTo.publish()
		}
	}
}

// unread is how many completions wait for a reader.
func (e *Endpoint) unread() (n int64) {
	if e.sendTo != nil {
		n = int64(e.sendTo.ring.Len())
	}
	if e.recvTo != nil && e.recvTo != e.sendTo {
		n += int64(e.recvTo.ring.Len())
	}
	return n
}

// readable is how many completions may wait for a reader. A queue of several endpoints counts for each.
func (e *Endpoint) readable() (n int64) {
	if e.sendTo != nil {
		n = int64(e.sendTo.q.depth)
	}
	if e.recvTo != nil && e.recvTo != e.sendTo {
		n += int64(e.recvTo.q.depth)
	}
	return n
}

// writtenRoom takes the place for a [RemoteWrite] in the receive queue, if there is
// one. It runs on the shard.
func (e *Endpoint) writtenRoom() bool {
	return e.recvTo == nil || e.recvTo.Room()
}
