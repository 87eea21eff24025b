package ope

import (
	"fmt"
	"strings"
	"time"

	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

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
func (q *Request) describe(s *Snapshot, born, now clock.Time) {
	s.Kind, s.ID = requestKinds[q.role()], q.ID
	s.Age = now.Sub(born)
	if q.Flags&Tagged != 0 {
		s.Tag = new(uint64)
		*s.Tag = q.Tag
	}
}

// Snapshot describes a receive that nothing has matched yet.
func (o *Order) Snapshot(now clock.Time) Snapshot {
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
func (t *outgoing) Snapshot() Snapshot {
	now := t.pools.env.Sh.Now()
	s := Snapshot{
		Peer: t.link.URI(), PeerName: t.link.NameOf(), Protocol: t.m.Proto.String(), State: t.m.State.String(),
		Bytes: t.m.Total, Done: t.m.Acked, Still: now.Sub(t.moved), SendID: t.id, Waits: t.waits(),
	}
	t.q.describe(&s, t.ord.Born, now)
	if name, ok := responses[t.m.Proto]; ok {
		s.Kind, s.ID = name, 0
	}
	if t.hasPeer {
		s.RecvID = t.peerID
	}
	if t.spent {
		id := t.turn.MsgID
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
func (t *outgoing) waits() string {
	var w []string
	switch {
	case t.turn.InLine():
		return t.turn.Waits()
	case t.link.Backoff:
		w = append(w, "the end of back-off after RNR")
	case t.slotWaits:
		w = append(w, "room in the send queue")
	case t.hold.Queued() && !t.link.Handshaken:
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
func (r *incoming) Snapshot() Snapshot {
	now := r.pools.env.Sh.Now()
	s := Snapshot{
		Peer: r.link.URI(), PeerName: r.link.NameOf(), Protocol: r.m.Proto.String(), State: r.m.State.String(),
		Bytes: r.m.Total, Done: min(r.m.Got+r.m.read, r.m.Total), Still: now.Sub(r.moved),
		SendID: r.says.SendID, RecvID: r.id, Waits: r.waits(),
	}
	switch {
	case r.ord != nil:
		r.ord.Req.describe(&s, r.ord.Born, now)
	case r.target:
		s.Kind, s.Age = "peer's write", now.Sub(r.born)
	default:
		s.Kind, s.Age = "unexpected message", now.Sub(r.born)
	}
	if r.IsMessage() {
		id := r.says.MsgID
		s.MsgID = &id
	}
	if r.says.Tagged {
		tag := r.says.Tag
		s.Tag = &tag
	}
	return s
}

func (r *incoming) waits() string {
	switch {
	case r.m.State == RxInit, r.m.State == RxUnexp:
		return "a receive that matches"
	case r.m.State == RxAsk:
		return r.x.turn.Waits()
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
	case r.link.Backoff && (r.owes != 0 || r.hold.Queued()):
		w = append(w, "the end of back-off after RNR")
	case r.slotWaits:
		w = append(w, "room in the send queue")
	}
	if r.flying > 0 {
		w = append(w, inFlight(int(r.flying)))
	}
	return strings.Join(w, ", ")
}
