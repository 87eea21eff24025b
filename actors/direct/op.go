package direct

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
)

// op is an operation in progress: a receive until its message comes; anything else in the
// line until the device has it, and then until that is done with it.
type op struct {
	idx   uint64 // in Port.ops
	req   ope.Request
	to    *remote // nil of a receive
	span  uint64
	born  clock.Time
	used  *mr.Region // that its buffer lies in
	own   device.MR  // registered for it
	state state
	next  *op
}

type state uint8

const (
	idle   state = iota
	waits        // in the line, or a receive
	posted       // the device has it
	told         // so has the caller its outcome
)

var stateNames = [...]string{idle: "idle", waits: "waits", posted: "posted", told: "told"}

// list is operations in order.
type list struct {
	head, tail *op
	n          int
}

func (l *list) push(o *op) {
	if l.n++; l.tail == nil {
		l.head = o
	} else {
		l.tail.next = o
	}
	l.tail = o
}

// pop takes the first operation, nil if there is none.
func (l *list) pop() *op {
	o := l.head
	if o == nil {
		return nil
	}
	if l.head = o.next; l.head == nil {
		l.tail = nil
	}
	l.n--
	o.next = nil
	return o
}

// take takes out all operations that are meant, in order.
func (l *list) take(meant func(*op) bool) (out []*op) {
	all := *l
	*l = list{}
	for o := all.pop(); o != nil; o = all.pop() {
		if meant(o) {
			out = append(out, o)
		} else {
			l.push(o)
		}
	}
	return out
}

// begin makes an operation of a request.
func (p *Port) begin(r *ope.Request, to *remote) *op {
	o := p.free
	if o == nil {
		o = &op{idx: uint64(len(p.ops))}
		p.ops = append(p.ops, o)
	} else {
		p.free, o.next = o.next, nil
	}
	p.inUse++
	o.req, o.to, o.born, o.state = *r, to, p.cfg.Shard.Now(), waits
	if l := p.cfg.Trail; l != nil {
		x := ope.Order{Req: *r}
		x.Follow(l, nil)
		o.span = x.Span
	}
	return o
}

// tell gives the outcome to the caller, who has not had it.
func (p *Port) tell(o *op, res *ope.Result) {
	if o.state == told {
		return
	}
	o.state = told
	p.cfg.Trail.Outcome(o.span, trail.Told, uint64(res.N), res.Err)
	p.cfg.Tally.Count(o.req.Kind, uint64(res.N), res.Err)
	if s := o.req.Sink; s != nil {
		s.Done(&o.req, res)
	}
}

// end tells the outcome and gives back all that the operation has.
func (p *Port) end(o *op, res *ope.Result) {
	p.tell(o, res)
	p.cfg.Trail.Outcome(o.span, trail.End, uint64(res.N), res.Err)
	if o.used != nil {
		o.used.Done()
	}
	p.unregister(o.own)
	p.inUse--
	*o = op{idx: o.idx, next: p.free}
	p.free = o
}

// fail ends an operation that the device does not have.
func (p *Port) fail(o *op, err error) { p.end(o, &ope.Result{Err: err, Peer: o.req.Peer}) }
