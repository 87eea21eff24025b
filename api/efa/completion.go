package efa

import (
	"github.com/efactor/efactor/actors/ope"
)

// OpID names an accepted operation of an endpoint, for Cancel and logs. It is
// never 0 and never used again.
type OpID uint64

// Kind says what a completion is of.
type Kind uint8

// The kinds of completion.
const (
	Sent Kind = iota + 1
	Received
)

// String gives "sent" or "received".
func (k Kind) String() string {
	switch k {
	case Sent:
		return "sent"
	case Received:
		return "received"
	default:
		return "none"
	}
}

// Message describes a message that was received.
type Message struct {
	N       int    // bytes placed in the buffer
	From    Addr   // the sender's handle; AnyAddr if it is in no address vector
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
	Token any // as given when the operation was posted
	Err   error
	// Protocol is the subprotocol that carried the message: "eager", "medium",
	// "long-CTS", or "-" if none did.
	Protocol Protocol
	// Message describes what was received; of a sent message N is the length
	// and From the peer.
	Message
}

// Protocol is a subprotocol of Table 1.1.
type Protocol = ope.Proto

// fill makes a Completion of an outcome, without allocating unless it failed.
func (c *Completion) fill(q *ope.Request, r *ope.Result) {
	c.Kind, c.ID, c.Token, c.Protocol = Sent, OpID(q.ID), q.Token, r.Proto
	if q.Kind == ope.KindRecv {
		c.Kind = Received
	}
	c.Err = nil
	if r.Err != nil {
		c.Err = opError(q, r)
	}
	c.Message.fill(q, r)
}

func (m *Message) fill(q *ope.Request, r *ope.Result) {
	m.N, m.Tagged = r.N, q.Flags&ope.Tagged != 0
	if q.Kind == ope.KindSend {
		m.From, m.raw = Addr(q.Peer), nil
		m.Tag, m.Data, m.HasData = q.Tag, q.Data, q.Flags&ope.HasData != 0
		return
	}
	m.From, m.raw = Addr(r.Peer), r.From
	if m.From == notAvail {
		m.From = AnyAddr
	}
	m.Tag, m.Data, m.HasData = r.Tag, r.Data, r.HasData
}
