package direct

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/trail"
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
	// News tells the port, by Insert, of what was inserted into the address vector, if it does
	// not know all of it yet.
	News func()
	// Written takes a peer's write with data. The handle is peer.Unlisted and the connid of
	// the address 0 if it is in no address vector.
	Written func(handle uint64, from *wire.RawAddr, n int, data uint64)
	// Gone: the process behind an address in the address vector is dead, or has closed its
	// endpoint. Refused: the device has refused an access of somebody's.
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
	cfg    Config
	info   device.Info
	ref    shard.Ref
	q      *device.Queue
	places places
	empty  device.MR // see nothing; nil before it is needed

	ops   []*op
	free  *op
	inUse int
	line  list // operations that wait for a place in the send queue
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
	p.places.start(q.QP(), p.cfg.Book, p.cfg.News)
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
		if x := p.places.find(m.AH, m.QPN, m.GID); x != nil && x.addr.ConnID() == m.QKey {
			p.cfg.Gone(x.handle, &x.addr, m.Left)
		}
	case *device.Refused:
		handle, from := p.places.source(m.AH, m.QPN, m.GID)
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
		p.receive(r)
	default:
		p.submit(r)
	}
	return true
}

// Insert tells of the n handles from first in the address vector. Runs on the shard.
func (p *Port) Insert(first, n uint64) {
	for h := first; h < first+n; h++ {
		p.places.learn(h)
	}
}
