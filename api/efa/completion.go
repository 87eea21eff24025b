package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/ope"
)

// OpID names an accepted operation of an endpoint, for Cancel and logs. It is
// never 0 and never used again.
type OpID uint64

// Kind says what a completion is of.
type Kind uint8

// The kinds of completion.
const (
	Sent     Kind = iota + 1
	Received      // a message
	Wrote         // to a peer's memory
	Fetched       // a peer's memory, by a read
	Updated       // a peer's memory, by an atomic of any form
	// RemoteWrite: a peer has written N bytes with Data to memory here, and they
	// are there. No operation of ours is over by that: ID and Token are 0.
	// Where in memory they are, Data must tell. Writes without data are not
	// told of, but see EndpointConfig.RMAEvents; those that [Arrivals] counts are not either.
	RemoteWrite
	// Released: the buffer of a receive with Multi is the application's again, N bytes of it
	// were used, and nothing comes into it any more. It is the one outcome of the
	// receive, with the error that ended it if there was one, and follows those of the
	// messages in the buffer. Each message is a Received of its own, with the ID and
	// the Token of the receive, and Offset says where in the buffer it lies.
	Released
	// Peeked: a [PeekReq] has found a message, which Message describes as Peek does, or, if
	// Err is ErrNoMessage, none.
	Peeked
)

var kindNames = [...]string{"none", "sent", "received", "wrote", "fetched", "updated", "remote write", "released", "peeked"}

// String gives the name in small letters, "none" of 0.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// kinds are what the completions of requests are of. Requests that have none are not there. It
// has a power of two rows, so that no index needs a check.
var kinds = [numKinds]Kind{
	ope.KindSend: Sent, ope.KindWrite: Wrote, ope.KindRead: Fetched, ope.KindAtomic: Updated,
	ope.KindRecv: Received, ope.KindTake: Received, ope.KindPeek: Peeked, ope.KindClaim: Peeked,
	ope.KindWritten: RemoteWrite,
}

const numKinds = 16

// kindOf is what the completion of a request is of.
func kindOf(k ope.Kind, f ope.Flags) Kind {
	switch {
	case f&(ope.Multi|ope.Discard) == 0:
		return kinds[k%numKinds]
	case f&ope.Multi != 0:
		return Released
	default:
		return Peeked
	}
}

// Message describes a message that was received.
type Message struct {
	N       int    // bytes placed in the buffer
	From    Addr   // the sender's handle; NoAddr if it is in no address vector, see [Endpoint.Reply]
	Tag     uint64 // the sender's tag
	Data    uint64 // remote CQ data, if HasData
	HasData bool
	Tagged  bool
	raw     *RawAddr
}

// Raw is the sender's address, also when it is in no address vector (FI_SOURCE,
// FI_SOURCE_ERR); zero for a message that was sent.
func (m Message) Raw() RawAddr {
	if m.raw == nil {
		return RawAddr{}
	}
	return *m.raw
}

// Completion is the outcome of one operation. A failed one stands in the queue in
// its place, with Err set.
type Completion struct {
	Kind  Kind
	ID    OpID
	Token uint64 // as given when the operation was posted
	Err   error
	// Protocol is the subprotocol that carried it: "eager", "long-CTS write",
	// "direct read" and so on, or "-" if none did.
	Protocol Protocol
	// Offset is where in the buffer of a receive with Multi the message begins, a multiple
	// of [MultiRecvAlign]; else 0.
	Offset int
	// Message describes what was received; of what began here N is the bytes
	// that were sent, written, fetched, or given to an atomic, and From the peer.
	Message
}

// Protocol is a subprotocol of Table 1.1.
type Protocol = ope.Proto

// fill makes a Completion of an outcome of an endpoint's, without allocating unless it failed.
// Before that it is zero.
func (c *Completion) fill(of *Endpoint, q *ope.Request, r *ope.Result) {
	f := q.Flags
	k := kindOf(q.Kind, f)
	c.Kind, c.ID, c.Token, c.Protocol = k, OpID(q.ID), q.Token, r.Proto
	c.Message.fill(k, q, r)
	if f&ope.Part != 0 { // of a receive with Multi
		c.Offset = int(q.Addr)
	}
	if r.Err != nil {
		c.Err = of.opError(q, r)
	}
}

// ofOurs are the kinds of completion that have no message of a peer's.
const ofOurs uint64 = 1<<Sent | 1<<Wrote | 1<<Fetched | 1<<Updated | 1<<Released

// fill describes what r is the outcome of. Before that no message of a peer's was described.
func (m *Message) fill(k Kind, q *ope.Request, r *ope.Result) {
	f := q.Flags
	m.N, m.Tagged = r.N, f&ope.Tagged != 0
	if ofOurs>>(k%64)&1 != 0 {
		m.From, m.Tag, m.Data, m.HasData = Addr(q.Peer), q.Tag, q.Data, f&ope.HasData != 0
		return
	}
	m.From, m.raw = Addr(r.Peer), r.From
	m.Tag, m.Data, m.HasData = r.Tag, r.Data, r.HasData
}
