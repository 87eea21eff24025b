package ope

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// What operations leave in the trail. With tracing off every span is 0.

// Follow begins the trail of a request with its kind, its length and its peer, which is
// nil of a receive from any peer.
func (o *Entry) Follow(l *trail.Log, with *peer.Link) {
	if l != nil {
		o.Span = follow(l, &o.Req, with)
	}
}

func follow(l *trail.Log, q *Request, with *peer.Link) uint64 {
	span := l.Next()
	l.Put(span, trail.Begin, uint8(q.role()), uint64(q.Len()), q.flags())
	if q.Flags&Traced != 0 {
		l.Put(span, trail.Parent, 0, q.ID, 0)
	}
	if with != nil {
		l.Put(span, trail.With, 0, with.Span, 0)
	}
	if q.Flags&Tagged != 0 {
		l.Put(span, trail.Tag, 0, q.Tag, 0)
	}
	return span
}

// drop ends a trail without an outcome, since other operations report what the request did.
func drop(l *trail.Log, o *Entry) {
	if o.Span != 0 {
		l.Put(o.Span, trail.Dropped, 0, 0, 0)
	}
}

// role is the part of a request's operation.
func (r *Request) role() trail.Role {
	switch r.Kind {
	case KindSend:
		return trail.Send
	case KindWrite:
		return trail.Write
	case KindRead:
		return trail.Read
	case KindAtomic:
		switch r.Form {
		case AtomicFetch:
			return trail.AtomicFetch
		case AtomicCompare:
			return trail.AtomicCompare
		default:
			return trail.AtomicWrite
		}
	default:
		return trail.Receive
	}
}

func (r *Request) flags() (f uint32) {
	if r.Flags&Tagged != 0 {
		f |= trail.FlagTagged
	}
	if r.Flags&HasData != 0 {
		f |= trail.FlagData
	}
	if r.Flags&Deliver != 0 {
		f |= trail.FlagDeliver
	}
	if r.Flags&Inject != 0 {
		f |= trail.FlagInject
	}
	return f
}

// requestConnids are those of requester and responder of a request of ours, theirs
// of one of the peer's.
func requestConnids(l *peer.Link) uint64   { return trail.Connids(l.Env().Addr.ConnID(), l.QKey) }
func responderConnids(l *peer.Link) uint64 { return trail.Connids(l.QKey, l.Env().Addr.ConnID()) }

// note leaves a record of the txe's operation.
func (t *Txe) note(k trail.Kind, code uint8, a uint64, b uint32) {
	if t.ticket.Span != 0 {
		t.leave(k, code, a, b)
	}
}

func (t *Txe) leave(k trail.Kind, code uint8, a uint64, b uint32) {
	t.pools.env.Trail.Put(t.ticket.Span, k, code, a, b)
}

func (t *Txe) noteChosen(p Proto) {
	ids, id := uint64(0), uint32(0)
	switch k := p.KeyKind(); {
	case k == trail.MsgID && t.marks.spent:
		ids, id = requestConnids(t.link), t.ticket.MsgID
	case k == trail.SendID:
		ids, id = requestConnids(t.link), t.id
	}
	t.note(trail.Chosen, uint8(p), ids, id)
}

// noteArrived: an RDMA write of n bytes has ended, or a packet arrived.
func (t *Txe) noteArrived(kind device.WR, off uint64, n int) {
	switch {
	case kind == device.WRWrite:
		t.leave(trail.SegmentDone, uint8(kind), off, uint32(n))
	case t.m.Flying == 0:
		t.leave(trail.Acked, 0, t.m.Acked, 0)
	}
}

// noteWaits: nothing more can be posted now. More than one call may find that.
func (t *Txe) noteWaits(s *sentBatch, already bool, why trail.Reason) {
	t.noteSent(s)
	if !already {
		t.note(trail.Waits, uint8(why), 0, 0)
	}
}

// noteAnswering begins the trail of an answer to a request of the peer's, which came
// by a subprotocol with an id.
func (t *Txe) noteAnswering(r trail.Role, p Proto, total uint64, id uint32) {
	t.pools.Mix.Served[p]++
	l := t.pools.env.Trail
	if l == nil {
		return
	}
	t.ticket.Span = l.Next()
	t.note(trail.Begin, uint8(r), total, 0)
	t.note(trail.With, 0, t.link.Span, 0)
	t.note(trail.Chosen, uint8(p), responderConnids(t.link), id)
}

// follow begins the trail of what a packet of the peer's begins here. A plain
// eager write has none, since no id connects it with the requester's half.
func (r *Rxe) follow(l *trail.Log, pkt *peer.Packet) {
	c := peerOp{role: trail.Message, proto: r.m.Proto, id: pkt.MsgID, length: pkt.Length, tag: pkt.Tag}
	if !pkt.Type.IsRTM() {
		c.role, c.id = trail.TargetWrite, pkt.SendID
	}
	if pkt.Tagged {
		c.flags |= trail.FlagTagged
	}
	if pkt.HasData {
		c.flags |= trail.FlagData
	}
	if r.m.Proto.dc() {
		c.flags |= trail.FlagDeliver
	}
	r.span = c.follow(l, r.link)
}

// peerOp is what the trail has of an operation that the peer began.
type peerOp struct {
	role   trail.Role
	proto  Proto
	flags  uint32
	id     uint32
	length uint64
	tag    uint64
}

func (c *peerOp) follow(l *trail.Log, with *peer.Link) uint64 {
	span := l.Next()
	l.Put(span, trail.Begin, uint8(c.role), c.length, c.flags)
	l.Put(span, trail.With, 0, with.Span, 0)
	if c.flags&trail.FlagTagged != 0 {
		l.Put(span, trail.Tag, 0, c.tag, 0)
	}
	l.Put(span, trail.Chosen, uint8(c.proto), responderConnids(with), c.id)
	return span
}

// note leaves a record of the rxe's operation.
func (r *Rxe) note(k trail.Kind, code uint8, a uint64, b uint32) {
	if r.span != 0 {
		r.leave(k, code, a, b)
	}
}

func (r *Rxe) leave(k trail.Kind, code uint8, a uint64, b uint32) {
	r.pools.env.Trail.Put(r.span, k, code, a, b)
}

// noteData counts data that came; noteReceived writes one record for many packets.
func (r *Rxe) noteData(p *peer.Packet) {
	if r.span != 0 {
		r.got += uint64(len(p.Payload))
		if r.gotPackets++; r.gotPackets == 1 {
			r.gotType = p.Type
		}
	}
}

func (r *Rxe) noteReceived() {
	if r.gotPackets > 0 {
		r.leaveReceived()
	}
}

func (r *Rxe) leaveReceived() {
	r.leave(trail.Received, uint8(r.gotType), r.got, r.gotPackets)
	r.got, r.gotPackets = 0, 0
}

// noteControl leaves a record of a packet that was posted for the rxe.
func (r *Rxe) noteControl(p *device.Pke, granted uint64) {
	if r.span == 0 {
		return
	}
	r.noteReceived()
	if t := wire.Type(p.Type()); t == wire.TypeCTS {
		r.note(trail.Window, 0, granted, 0)
	} else {
		r.note(trail.Answer, uint8(t), 0, 0)
	}
}

// sentBatch is what one call of pump posted.
type sentBatch struct {
	bytes uint64
	n     uint32
	first uint8
}

func (s *sentBatch) add(p *device.Pke) {
	if s.n == 0 {
		s.first = p.Type()
	}
	s.n++
	s.bytes += uint64(p.Bytes)
}

// noteSent leaves one record of it.
func (t *Txe) noteSent(s *sentBatch) {
	if t.ticket.Span != 0 && s.n > 0 {
		t.leaveSent(s)
	}
}

func (t *Txe) leaveSent(s *sentBatch) {
	if !protos[t.m.Proto].rdma {
		t.leave(trail.Sent, s.first, s.bytes, s.n)
	}
	*s = sentBatch{}
}

// Snapshot is an operation in progress at one moment: the application's, or a peer's
// that this endpoint answers. As JSON, durations are nanoseconds.
type Snapshot struct {
	Kind     string        `json:"kind"`           // "send", "receive", "write", "unexpected message", "peer's write", ...
	ID       uint64        `json:"id,omitempty"`   // efa.OpID, 0 of what a peer asked for
	Peer     string        `json:"peer,omitempty"` // its address as efa.Address has it, "" of a receive from anybody
	PeerName string        `json:"peer_name,omitempty"`
	Protocol string        `json:"protocol,omitempty"`
	State    string        `json:"state,omitempty"` // of its machine
	Bytes    uint64        `json:"bytes"`
	Done     uint64        `json:"done"` // of them, acknowledged or arrived
	Age      time.Duration `json:"age"`
	Still    time.Duration `json:"still"` // since it last got on
	Waits    string        `json:"waits"` // what for, in words
	Tag      *uint64       `json:"tag,omitempty,string"`
	MsgID    *uint32       `json:"msg_id,omitempty"`
	SendID   uint32        `json:"send_id,omitempty"`
	RecvID   uint32        `json:"recv_id,omitempty"`
}

// requestKinds are the application's requests as people read them.
var requestKinds = map[trail.Role]string{
	trail.Send: "send", trail.Receive: "receive", trail.Write: "write", trail.Read: "read",
	trail.AtomicWrite: "atomic", trail.AtomicFetch: "fetching atomic", trail.AtomicCompare: "comparing atomic",
}

// lookKinds are requests that wait for a message and do not receive it.
var lookKinds = map[Kind]string{KindPeek: "peek", KindClaim: "claim"}

// describe fills in what a request says that was accepted at born.
func (r *Request) describe(s *Snapshot, born, now clock.Time) {
	s.Kind, s.ID = requestKinds[r.role()], r.ID
	s.Age = now.Sub(born)
	if r.Flags&Tagged != 0 {
		s.Tag = new(uint64)
		*s.Tag = r.Tag
	}
}

// Snapshot describes a receive that nothing has matched yet.
func (o *Entry) Snapshot(now clock.Time) Snapshot {
	s := Snapshot{Bytes: uint64(o.Req.Len()), Waits: "a message that matches"}
	o.Req.describe(&s, o.Born, now)
	if name, ok := lookKinds[o.Req.Kind]; ok {
		s.Kind = name
	}
	s.Still = s.Age
	if o.from != nil {
		s.Peer, s.PeerName = o.from.URI(), o.from.NameOf()
	}
	return s
}

// responses are what a txe sends that answers a peer.
var responses = map[Proto]string{
	ReadResponse: "peer's read", AtomicResponse: "peer's atomic", ReceiptOnly: "receipt", ErrorOnly: "peer error",
}

// Snapshot describes the operation.
func (t *Txe) Snapshot() Snapshot {
	now := t.pools.env.Sh.Now()
	s := Snapshot{
		Peer: t.link.URI(), PeerName: t.link.NameOf(), Protocol: t.m.Proto.String(), State: t.m.State.String(),
		Bytes: t.m.Total, Done: t.m.Acked, Still: now.Sub(t.lastProgress), SendID: t.id, Waits: t.waits(),
	}
	t.q.describe(&s, t.entry.Born, now)
	if name, ok := responses[t.m.Proto]; ok {
		s.Kind, s.ID = name, 0
	}
	if t.marks.hasPeer {
		s.RecvID = t.peerID
	}
	if t.marks.spent {
		id := t.ticket.MsgID
		s.MsgID = &id
	}
	if t.m.State == TxReq && t.m.Proto == ProtoNone {
		s.Protocol = "" // not chosen yet
	}
	return s
}

// answers are the packets that operations wait for in the end.
var answers = map[answer]wire.Type{receipt: wire.TypeReceipt, eor: wire.TypeEOR, atomRsp: wire.TypeATOMRSP}

// waits says what the operation waits for.
func (t *Txe) waits() string {
	var w []string
	switch {
	case t.ticket.InLine():
		return t.ticket.Waits()
	case t.link.BackingOff():
		w = append(w, "the end of back-off after RNR")
	case t.marks.slotWaits:
		w = append(w, "room in the send queue")
	case t.blocked.Queued() && !t.link.Handshaken:
		w = append(w, "HANDSHAKE")
	case t.m.State == TxWait:
		w = append(w, "CTS")
	case t.m.State == TxAwait:
		w = append(w, answers[protos[t.m.Proto].answer].String())
	case t.m.State == TxReq, t.m.State == TxSend:
		w = append(w, "its next turn on the shard")
	}
	if t.m.Flying > 0 {
		w = append(w, inFlight(int(t.m.Flying)))
	}
	return strings.Join(w, ", ")
}

func inFlight(n int) string {
	if n == 1 {
		return "the acknowledgement of 1 packet"
	}
	return fmt.Sprintf("the acknowledgement of %d packets", n)
}

// Snapshot describes the operation.
func (r *Rxe) Snapshot() Snapshot {
	now := r.pools.env.Sh.Now()
	s := Snapshot{
		Peer: r.link.URI(), PeerName: r.link.NameOf(), Protocol: r.m.Proto.String(), State: r.m.State.String(),
		Bytes: r.m.Total, Done: min(r.m.Got+r.m.read, r.m.Total), Still: now.Sub(r.lastProgress),
		SendID: r.first.SendID, RecvID: r.id, Waits: r.waits(),
	}
	switch {
	case r.entry != nil:
		r.entry.Req.describe(&s, r.entry.Born, now)
	case r.target:
		s.Kind, s.Age = "peer's write", now.Sub(r.born)
	default:
		s.Kind, s.Age = "unexpected message", now.Sub(r.born)
	}
	if r.IsMessage() {
		id := r.first.MsgID
		s.MsgID = &id
	}
	if r.first.Tagged {
		tag := r.first.Tag
		s.Tag = &tag
	}
	return s
}

func (r *Rxe) waits() string {
	switch {
	case r.m.State == RxInit, r.m.State == RxUnexp:
		return "a receive that matches"
	case r.m.State == RxAsk:
		return r.x.ticket.Waits()
	}
	var w []string
	switch {
	case r.m.State != RxMatched:
	case r.asks() && !r.rsp:
		w = append(w, "READRSP")
	case r.x != nil && r.x.nacked:
		w = append(w, "the message in packets, after READ_NACK")
	case r.m.reading > 0:
		w = append(w, fmt.Sprintf("%d RDMA reads with the device", r.m.reading))
	case r.m.Window > 0:
		w = append(w, fmt.Sprintf("CTSDATA: %d bytes are granted", r.m.Window))
	case r.m.Got < r.m.packets:
		w = append(w, fmt.Sprintf("packets with %d bytes", r.m.packets-r.m.Got))
	}
	switch {
	case r.link.BackingOff() && (r.pending != 0 || r.blocked.Queued()):
		w = append(w, "the end of back-off after RNR")
	case r.slotWaits:
		w = append(w, "room in the send queue")
	}
	if r.flying > 0 {
		w = append(w, inFlight(int(r.flying)))
	}
	return strings.Join(w, ", ")
}

// Served is an access of the peer's that was carried out here, see [Pools.OnServed].
type Served struct {
	Access  mr.Access // device.RemoteRead or device.RemoteWrite
	N       uint64    // bytes
	HasData bool
	Regions []*mr.Region // that it was in, while the call lasts
}

// servedWrite reports a write of the peer's that is complete.
func (r *Rxe) servedWrite() {
	if r.pools.OnServed == nil || r.err != nil || !r.target || r.x == nil || r.x.nacked {
		return
	}
	s := Served{Access: device.RemoteWrite, N: r.m.Total, HasData: r.first.HasData, Regions: r.x.used.regions[:r.x.used.n]}
	r.pools.OnServed(r.link, &s)
}

// servedRead reports a read of the peer's whose last packet has arrived, once: the regions
// are let go next.
func (t *Txe) servedRead() {
	if t.pools.OnServed == nil || t.m.Proto != ReadResponse || t.m.State != TxDone || t.x.used.n == 0 {
		return
	}
	s := Served{Access: device.RemoteRead, N: t.m.Total, Regions: t.x.used.regions[:t.x.used.n]}
	t.pools.OnServed(t.link, &s)
}

// Tally counts how the operations ended that the application asked for. Written on
// the shard.
type Tally struct {
	OK, Failed [NumKinds]uint64
	Bytes      [NumKinds]uint64  // sent, placed or fetched
	Errors     map[string]uint64 // by ErrorType
}

// Count notes the outcome of a request.
func (c *Tally) Count(k Kind, bytes uint64, err error) {
	if err != nil {
		c.fail(k, bytes, err)
		return
	}
	c.succeed(k, bytes)
}

// succeed is Count of a request that did not fail.
func (c *Tally) succeed(k Kind, bytes uint64) {
	c.OK[k]++
	c.Bytes[k] += bytes
}

func (c *Tally) fail(k Kind, bytes uint64, err error) {
	c.Failed[k]++
	c.Bytes[k] += bytes
	if c.Errors == nil {
		c.Errors = make(map[string]uint64)
	}
	c.Errors[ErrorType(err)]++
}

// causes are the errors that have no libfabric number of their own, or a more
// telling name.
var causes = []struct {
	err  error
	name string
}{
	{peer.ErrDied, "peer_died"},
	{peer.ErrSilent, "peer_silent"},
	{peer.ErrReplaced, "peer_replaced"},
	{peer.ErrOverMemory, "peer_over_memory"},
	{peer.ErrUnreadable, "peer_unreadable"},
	{peer.ErrIntruder, "peer_intruder"},
	{peer.ErrRemoved, "peer_removed"},
	{peer.ErrAborted, "peer_aborted"},
	{peer.ErrRefused, "peer_refused"},
	{peer.ErrNoAnswer, "no_answer"},
	{peer.ErrPeerFailed, "peer_failed"},
	{peer.ErrStopped, "FI_ESHUTDOWN"},
	{ErrRegionClosed, "region_closed"},
	{ErrInternal, "internal"},
	{ErrViolation, "protocol_violation"},
}

// ErrorType names the kind of an error: libfabric's number, or a word for what has
// none. There are few, so that they can be counted by.
func ErrorType(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	var n errno.Errno
	if errors.As(err, &n) {
		return n.Name()
	}
	return "_OTHER"
}
