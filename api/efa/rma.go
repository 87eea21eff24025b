package efa

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/trace"

	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/wire"
)

// WriteReq is a write to a peer's memory, see [Memory.Write].
//
// Buf, or the pieces of Bufs one after the other, go to At, or one after the other to the
// pieces of Ats. A piece may have any length, 0 too; those of Ats together must have exactly as
// many bytes as those of Bufs (ErrInvalid). The borders on the two sides need not meet. Pieces of Ats
// that overlap are written in no order. The call is one operation: it has one outcome, when all bytes have
// been written, or when one part of it has failed and the others have ended; then N counts bytes that
// were written, in any of the pieces. Data reaches the peer once, after all bytes; of a write that
// went in several parts N of its completion there may be that of the last part alone.
type WriteReq struct {
	To   Addr
	At   Remote
	Ats  []Remote // instead of At: at most RMAIOVLimit pieces of one peer's memory, see [WriteReq]
	Buf  []byte
	Bufs [][]byte // instead of Buf: at most IOVLimit pieces
	// HasData sends Data along as remote CQ data.
	HasData bool
	Data    uint64
	Inject  bool // see [Inject]
	Quiet   bool // see [SendReq]
	Level   Level
	Fence   bool   // see [Fence]
	Token   uint64 // comes back in the completion
	Parent  trace.SpanContext
}

// ReadReq is a read of a peer's memory, see [Memory.Read].
type ReadReq struct {
	From  Addr // whose memory
	At    Remote
	Ats   []Remote // instead of At: at most RMAIOVLimit pieces of one peer's memory, see [WriteReq]
	Buf   []byte
	Bufs  [][]byte // instead of Buf: at most IOVLimit pieces, filled one after the other
	Quiet bool
	Fence bool // see [Fence]
	Token uint64

	Parent trace.SpanContext
}

// Memory is memory of a peer, as one endpoint reaches it: a handle, made by
// [Endpoint.Memory] at no cost and copied at will. It holds nothing and needs no Close.
type Memory struct {
	ep *Endpoint
	to Addr
	at Remote
}

// Memory is the memory at that the peer to has sent the name of.
func (e *Endpoint) Memory(to Addr, at Remote) Memory { return Memory{e, to, at} }

// Slice is the n bytes from offset off on, or as many of them as there are.
func (m Memory) Slice(off, n uint64) Memory { return Memory{m.ep, m.to, m.at.Slice(off, n)} }

// Write puts p at the beginning of the memory, which must have AccessRemoteWrite, and
// returns when p may be used again. The memory may be longer than p; shorter, the error
// is ErrInvalid. Writes have no order with anything else, unless [Fence] or [Order] gives them
// one, and the peer's program hears of those only that carry [Data].
//
// With the level Transmitted a write that fits a packet has only reached the peer's
// device when it completes. If the peer then finds that the memory is not there, or
// not to be written, nobody but the peer hears of it ([AccessRefused]). Complete
// with Delivered to know: then everybody there sees the data, or the error is
// ErrAccess. A libfabric peer, and all until after release 2.6, refuses in silence;
// then the error is ErrTimedOut after PeerTimeout, after four of them while this endpoint is over its
// TotalMemory or held back by the peer. Where the devices write by
// themselves both levels are the same.
//
// If ctx ends first, the write ends with that; some of the bytes may have been
// written.
func (m Memory) Write(ctx context.Context, p []byte, opts ...OpOption) error {
	var w wishes
	if !w.read(opts) {
		return m.ep.refused(ope.KindWrite, m.to, w.err())
	}
	r := WriteReq{
		To: m.to, At: m.at, Buf: p, HasData: w.has(optData), Data: w.values[optData],
		Inject: w.has(optInject), Level: w.level(), Fence: w.has(optFence), Token: w.values[optToken],
	}
	var req ope.Request
	if err := m.ep.writeRequest(&req, &r); err != nil {
		return m.ep.refused(ope.KindWrite, m.to, err)
	}
	if err := m.ep.run(ctx, &req); err != nil {
		return m.ep.refused(ope.KindWrite, m.to, err)
	}
	return nil
}

// Read fills p from the beginning of the memory, which must have AccessRemoteRead. It may
// be longer than p; shorter, the error is ErrInvalid. Reads have no order with anything
// else, see Write; of the options only Fence means something. A peer that refuses says so, and the error is ErrAccess; for peers that have no
// word for it see [Memory.Write].
//
// If ctx ends first, or after an error, p has anything in it.
func (m Memory) Read(ctx context.Context, p []byte, opts ...OpOption) error {
	var w wishes
	if !w.read(opts) {
		return m.ep.refused(ope.KindRead, m.to, w.err())
	}
	var req ope.Request
	if err := m.ep.readRequest(&req, &ReadReq{From: m.to, At: m.at, Buf: p, Fence: w.has(optFence)}); err != nil {
		return m.ep.refused(ope.KindRead, m.to, err)
	}
	if err := m.ep.made(ctx, &req, &m.ep.tx, nil); err != nil {
		return m.ep.refused(ope.KindRead, m.to, err)
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
	if err := r.fill(e, &req); err != nil {
		return 0, e.refused(ope.KindAtomic, r.To, err)
	}
	return e.post(&req, e.sendTo, &e.tx, &r.Parent)
}

func (r *WriteReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.writeRequest(req, r)
}

func (r *ReadReq) request(e *Endpoint, req *ope.Request) (*span, error) {
	return &r.Parent, e.readRequest(req, r)
}

func (r *WriteReq) target() (ope.Kind, Addr) { return ope.KindWrite, r.To }

func (r *ReadReq) target() (ope.Kind, Addr) { return ope.KindRead, r.From }

// writeRequest checks a write and makes the request for the shard.
func (e *Endpoint) writeRequest(req *ope.Request, r *WriteReq) error {
	if err := r.Level.check(); err != nil {
		return err
	}
	if err := e.may(CapWrite); err != nil {
		return err
	}
	*req = ope.Request{
		Kind: ope.KindWrite, Peer: uint64(r.To), Buf: r.Buf, Token: r.Token, Flags: e.flags(r.Level, r.Inject, r.Quiet),
	}
	withData(req, r.HasData, r.Data)
	fenced(req, r.Fence)
	if err := e.outgoing(req, r.Bufs); err != nil {
		return err
	}
	return e.locateAll(req, r.At, r.Ats)
}

// readRequest checks a read and makes the request for the shard.
func (e *Endpoint) readRequest(req *ope.Request, r *ReadReq) error {
	if err := e.may(CapRead); err != nil {
		return err
	}
	*req = ope.Request{Kind: ope.KindRead, Peer: uint64(r.From), Buf: r.Buf, Token: r.Token}
	if r.Quiet {
		req.Flags |= ope.Quiet
	}
	if e.cfg.Order != 0 {
		req.Flags |= ope.Ordered
	}
	fenced(req, r.Fence)
	if err := e.incoming(req, r.Bufs); err != nil {
		return err
	}
	return e.locateAll(req, r.At, r.Ats)
}

// locate says in req what the device that carries to the peer calls n bytes at at, and
// checks that they are within it, before the peer does.
func (e *Endpoint) locate(req *ope.Request, at Remote, n int) (err error) {
	if req.Addr, req.Key, err = at.on(e.cfg.AV.gid(req.Peer), n); err != nil || n < minStriped || !e.dom.fab.twins || req.Flags&ope.HasIOV != 0 {
		return err
	}
	if ss := e.stripes(req.Peer, at); ss != nil {
		if req.More == nil {
			req.More = new(ope.More)
		}
		req.More.Stripes = ss
	}
	return nil
}

// How many pieces of memory an operation may name. More are refused with ErrInvalid.
const (
	// IOVLimit is the most pieces of a request's own memory (Bufs). Packets take them from where
	// they lie where the device gathers, and copy them once into the packet elsewhere; what
	// arrives is copied, or read by the device, straight into its piece.
	IOVLimit = 1024
	// RMAIOVLimit is the most pieces of a peer's memory (Ats). A packet of the protocol names 4
	// of them, a request of a device one: the operation is cut.
	RMAIOVLimit = 1024
)

// locateAll is locate for a request that may name several pieces of the peer's memory. After
// an error the request has no lists.
func (e *Endpoint) locateAll(req *ope.Request, at Remote, ats []Remote) error {
	err := e.locatePieces(req, at, ats)
	if err != nil {
		req.PutIOV()
	}
	return err
}

func (e *Endpoint) locatePieces(req *ope.Request, at Remote, ats []Remote) error {
	n := req.Len()
	switch {
	case len(ats) == 0:
		return e.locate(req, at, n)
	case at.names != nil || at.n != 0:
		return fmt.Errorf("%w: a request has At or Ats, not both", ErrInvalid)
	case len(ats) > RMAIOVLimit:
		return fmt.Errorf("%w: %d pieces of remote memory, at most %d", ErrInvalid, len(ats), RMAIOVLimit)
	}
	left, only := uint64(n), -1
	for i := range ats {
		if ats[i].n > left {
			return fmt.Errorf("%w: pieces of remote memory of more than the %d bytes", ErrInvalid, n)
		}
		if left -= ats[i].n; ats[i].n > 0 || only < 0 && i == len(ats)-1 {
			only = i
		}
	}
	switch {
	case left > 0:
		return fmt.Errorf("%w: %d bytes, and pieces of remote memory of %d", ErrInvalid, n, uint64(n)-left)
	case ats[only].n == uint64(n):
		return e.locate(req, ats[only], n)
	case e.cfg.Direct:
		return fmt.Errorf("%w: several pieces of remote memory in one request of the device", ErrNotSupported)
	}
	l, gid := req.GetIOV(), e.cfg.AV.gid(req.Peer)
	for i := range ats {
		if ats[i].n == 0 {
			continue
		}
		addr, key, err := ats[i].on(gid, int(ats[i].n))
		if err != nil {
			l.Remote = append(l.Remote, wire.RMAIOV{}) // so that the lists are taken back
			return err
		}
		l.Remote = append(l.Remote, wire.RMAIOV{Addr: addr, Len: ats[i].n, Key: key})
	}
	return nil
}

// pieced gives a request a list of pieces of its own memory.
func pieced(req *ope.Request, pieces [][]byte) error {
	switch {
	case req.Buf != nil:
		return errBothBufs
	case len(pieces) > IOVLimit:
		return fmt.Errorf("%w: %d pieces, at most %d", ErrInvalid, len(pieces), IOVLimit)
	}
	l := req.GetIOV()
	req.Flags |= ope.HasIOV
	for _, p := range pieces {
		if !l.AddLocal(p) {
			req.PutIOV()
			return fmt.Errorf("%w: pieces of more bytes than an int counts", ErrMsgSize)
		}
	}
	if len(l.Local) < 2 {
		if len(l.Local) == 1 {
			req.Buf = l.Local[0]
		}
		req.PutIOV()
	}
	return nil
}

// gathered makes one buffer of a request's pieces, for an endpoint that does without the
// protocol: there a message is one packet, and a write one request of the device.
func gathered(req *ope.Request) {
	if req.Flags&ope.HasIOV == 0 {
		return
	}
	b := make([]byte, req.Len())
	req.Gather(b)
	req.PutIOV()
	req.Buf = b
}

// minStriped is from how many bytes on a read or write of memory goes over all paths of a
// kind that both hosts have.
const minStriped = 2 * ope.MinStripe

// twins reports whether two of the paths are of one kind.
func twins(paths []fabricPath) bool {
	for i := range paths {
		for j := range paths[:i] {
			if paths[i].scheme == paths[j].scheme {
				return true
			}
		}
	}
	return false
}

// stripes are the paths to the peer with a handle on which at names its memory, its own
// first: our first device of the kind leads to the peer's first, the second to the second,
// as far as both have them. nil: there are not several.
func (e *Endpoint) stripes(h uint64, at Remote) []ope.Stripe {
	x := e.cfg.AV.table.get(h)
	if x.age == 0 || x.all == nil || at.names == nil || len(*at.names) < 2 {
		return nil
	}
	f := e.dom.fab
	var ss []ope.Stripe
	theirs := x.all.paths
	for i := range f.paths {
		ours := &f.paths[i]
		if ours.scheme != f.paths[x.path].scheme {
			continue
		}
		for len(theirs) > 0 && theirs[0].scheme != ours.scheme {
			theirs = theirs[1:]
		}
		if len(theirs) == 0 {
			break
		}
		to := theirs[0].raw
		theirs = theirs[1:]
		name := at.exactly(to.GID())
		if name == nil || !ours.dev.Reaches(to.GID()) {
			continue
		}
		ss = append(ss, ope.Stripe{Path: uint8(i), To: to, Addr: name.addr + at.off, Key: name.key})
	}
	if len(ss) < 2 || ss[0].To != x.raw || ss[0].Path != x.path {
		return nil
	}
	return ss
}

// exactly is what the device with a GID calls the memory; nil: it is not known.
func (r Remote) exactly(gid GID) *remoteName {
	for i := range *r.names {
		if n := &(*r.names)[i]; n.gid == gid && n.addr+r.off >= n.addr && n.addr+r.off+r.n >= n.addr {
			return n
		}
	}
	return nil
}

// onWritten runs on the shard when a peer has written here with data.
func (e *Endpoint) onWritten(w endpoint.Written) {
	if c := e.cfg.RemoteWriteCounter; c != nil {
		c.count(nil)
	}
	if s := e.recvTo; s != nil {
		q := ope.Request{Kind: ope.KindWritten}
		r := ope.Result{N: w.N, Peer: w.Handle, From: w.From, Data: w.Data, HasData: true}
		s.ring.Put().fill(e, &q, &r)
		return
	}
	ev := e.events.event(endpoint.Event{Kind: RemoteWritten, Handle: w.Handle, Addr: *w.From})
	ev.N, ev.Data = w.N, w.Data
	e.events.add(ev)
}
