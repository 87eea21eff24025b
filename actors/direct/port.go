package direct

import (
	"log/slog"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Config is what a Port needs. Its functions are called on the shard.
type Config struct {
	Shard   *shard.Shard
	Device  device.Device
	Book    Book
	Regions *mr.Table
	Tally   *ope.Tally
	Log     *slog.Logger
	Trail   *trail.Log // may be nil

	// Datagram: the queue pair is one of unreliable datagrams.
	Datagram bool

	// Reject ends a request that never became an operation.
	Reject func(*ope.Request, error)
	// News tells the port, by Insert, of addresses that were inserted into the vector, if it does
	// not know all of it yet.
	News func()
	// Written takes a peer's write with data. The handle is peer.Unlisted and the connid of
	// the address 0 if it is in no address vector.
	Written func(handle uint64, from *wire.RawAddr, n int, data uint64)
	// Gone: the process behind an address in the address vector is dead, or has closed its
	// endpoint. Refused: the device has refused an access by a peer.
	Gone    func(handle uint64, from *wire.RawAddr, left bool)
	Refused func(handle uint64, from *wire.RawAddr)
	// Fatal: the queue pair has ended.
	Fatal func(*device.Fatal)
}

// Book is the address vector.
type Book interface {
	// Address returns the address of a handle, or why there is none.
	Address(handle uint64) (wire.RawAddr, error)
	// Name is what people call a handle's peer, "" if it has no name.
	Name(handle uint64) string
	// Age orders insertions: a later one has a higher age.
	Age(handle uint64) uint64
	// Now returns the age of the latest insertion.
	Now() uint64
}

// Port is the actor of an endpoint without a protocol.
//
//   - It owns the operations in progress, the posted receives, the messages that wait for
//     one, and the directory of addresses.
//   - The endpoint calls it with requests, and with what changes: handles, regions, the end.
//     The device queue sends it packets and the ends of its own.
//   - It sends nothing but outcomes, to the sinks of requests.
//   - It waits for nothing.
//   - It stops with its endpoint, which has called Fail and Abandon by then.
type Port struct {
	cfg   Config
	info  device.Info
	ref   shard.Ref
	q     *device.Queue
	dir   directory
	empty device.MR // see nothing; nil before it is needed

	ops   []*op
	free  *op
	inUse int
	line  list // operations that wait for room in the send queue
	room  device.SlotWait

	receives list
	early    []*device.RecvPkt // that came without a receive, oldest first
	err      error             // not nil: the endpoint closes, and why
}

// New makes a port. Start follows.
func New(c Config) *Port {
	p := &Port{cfg: c, info: c.Device.Info()}
	if c.Datagram {
		p.info.RDMARead, p.info.RDMAWrite = false, false
	}
	return p
}

// Start begins the use of a queue that Kept its slots and has the port as router. The port's
// actor is ref. Runs on the shard.
func (p *Port) Start(q *device.Queue, ref shard.Ref) {
	p.q, p.ref, p.room.To = q, ref, ref
	p.dir.start(q.QP(), p.cfg.Book, p.cfg.News)
}

// Receive is the actor's message switch.
func (p *Port) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *device.Arrived:
		p.onPacket(m.Pkt)
	case *device.SendDone:
		p.onDone(m.Pke)
	case *device.SendProblem:
		p.onProblem(m.Pke, m.Status)
	case *device.SlotWait:
		p.advance()
	case *device.Written:
		p.onWritten(m)
	case *device.Gone:
		if x := p.dir.find(m.AH, m.QPN, m.GID); x != nil && x.addr.ConnID() == m.QKey {
			p.cfg.Gone(x.handle, &x.addr, m.Left)
		}
	case *device.Refused:
		handle, from := p.dir.source(m.AH, m.QPN, m.GID)
		p.cfg.Refused(handle, from)
	case *device.Fatal:
		p.cfg.Fatal(m)
	}
}

// Route implements device.Router: everything is the port's.
func (p *Port) Route(device.AH, uint16) shard.Ref { return p.ref }

// Deliver implements device.Router.
func (p *Port) Deliver(r *device.RecvPkt) {
	r.Imm, r.HasImm = p.q.Imm()
	p.cfg.Shard.Call(p.ref, r.Arrived())
}

// Handle takes a request of the application's, and reports whether it is one for the port:
// KindControl is not. Runs on the shard.
func (p *Port) Handle(r *ope.Request) bool {
	switch r.Kind {
	case ope.KindControl:
		return false
	case ope.KindCancel:
		p.cancel(r.ID)
	case ope.KindRecv:
		p.postRecv(r)
	default:
		p.submit(r)
	}
	return true
}

// Insert tells of the n handles from first in the address vector. Runs on the shard.
func (p *Port) Insert(first, n uint64) {
	for h := first; h < first+n; h++ {
		p.dir.learn(h)
	}
}

// Remove tells of a handle that has been taken out of the address vector: operations with it
// end with ErrRemoved, but RDMA that the device has. Runs on the shard.
func (p *Port) Remove(handle uint64) {
	if x := p.dir.remove(handle); x != nil {
		p.abort(func(o *op) bool { return o.to == x }, peer.ErrRemoved)
	}
}

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
	idle      state = iota
	waits           // in the line, or a receive
	posted          // the device has it
	completed       // so has the caller its outcome
)

var stateNames = [...]string{idle: "idle", waits: "waits", posted: "posted", completed: "told"}

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

// removeIf takes out all operations that are meant, in order.
func (l *list) removeIf(meant func(*op) bool) (out []*op) {
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
		x := ope.Entry{Req: *r}
		x.Follow(l, nil)
		o.span = x.Span
	}
	return o
}

// complete gives the outcome to the caller, unless it has it already.
func (p *Port) complete(o *op, res *ope.Result) {
	if o.state == completed {
		return
	}
	o.state = completed
	p.cfg.Trail.Outcome(o.span, trail.Told, uint64(res.N), res.Err)
	p.cfg.Tally.Count(o.req.Kind, uint64(res.N), res.Err)
	if s := o.req.Sink; s != nil {
		s.Done(&o.req, res)
	}
}

// end completes an operation and gives back all that the operation has.
func (p *Port) end(o *op, res *ope.Result) {
	p.complete(o, res)
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

// cancel ends the operation with an id if it has not ended.
func (p *Port) cancel(id uint64) {
	p.abort(func(o *op) bool { return o.req.ID == id }, errno.ErrCanceled)
}

// abort ends the operations that are meant and that the device does not have. A send that
// it has lets its caller go if the bytes were copied; RDMA stays, since the device may use the
// buffer yet.
func (p *Port) abort(meant func(*op) bool, err error) {
	p.failWaiting(meant, err)
	for _, o := range p.ops {
		if o.state == posted && o.req.Kind == ope.KindSend && p.info.CopiesAtPost && meant(o) {
			p.complete(o, &ope.Result{Err: err, Peer: o.req.Peer})
		}
	}
}

// failWaiting ends the receives and the operations in the line that are meant.
func (p *Port) failWaiting(meant func(*op) bool, err error) {
	for _, o := range p.receives.removeIf(meant) {
		p.fail(o, err)
	}
	for _, o := range p.line.removeIf(meant) {
		p.fail(o, err)
	}
}

// Revoke ends the operations whose buffer lies in a region that is being closed; those that
// the device has keep it in use until they are over.
func (p *Port) Revoke(r *mr.Region) {
	p.failWaiting(func(o *op) bool { return ope.Overlap(r.Bytes(), o.req.Buf) }, ope.ErrRegionClosed)
}

// Fail ends what the device does not have, and all that is submitted from now on.
func (p *Port) Fail(err error) {
	if p.err == nil {
		p.err = err
	}
	p.failWaiting(func(*op) bool { return true }, err)
	for _, pkt := range p.early {
		pkt.Release()
	}
	p.early = nil
}

// Abandon ends what the device had: the queue pair is closed.
func (p *Port) Abandon(err error) {
	p.Fail(err)
	for _, o := range p.ops {
		if o.state != idle { // one that a panic interrupted is in no list
			p.fail(o, err)
		}
	}
	p.unregister(p.empty)
	p.empty = nil
}

// Has reports whether the request with an id became an operation that has not ended.
func (p *Port) Has(id uint64) bool {
	return slices.ContainsFunc(p.ops, func(o *op) bool { return o.state != idle && o.req.ID == id })
}

// Depths says how many operations are in progress: receives, and others.
func (p *Port) Depths() (receives, others int) { return p.receives.n, p.inUse - p.receives.n }

// Remotes is the number of addresses that are known.
func (p *Port) Remotes() int { return len(p.dir.byAddr) }

// Each calls f with a description of each operation in progress.
func (p *Port) Each(f func(ope.Snapshot)) {
	now, kind := p.cfg.Shard.Now(), device.KindOf(p.cfg.Device.Info().Name)
	for _, o := range p.ops {
		if o.state == idle {
			continue
		}
		x := ope.Entry{Req: o.req, Born: o.born}
		s := x.Snapshot(now)
		s.State = stateNames[o.state]
		if o.to != nil {
			s.Peer, s.PeerName = o.to.addr.URI(kind), p.cfg.Book.Name(o.to.handle)
		}
		switch {
		case o.to == nil:
			s.Waits = "a message"
		case o.state == waits:
			s.Waits = "a place in the send queue"
		default:
			s.Waits = "the device"
		}
		f(s)
	}
}
