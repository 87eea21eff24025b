package efa

import (
	"github.com/efactor/efactor/actors/ope"
)

// OpID names an accepted operation of an endpoint, for Cancel and logs.
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
	N       int     // bytes placed in the buffer
	From    Addr    // the sender's handle; AnyAddr if it is in no address vector
	Raw     RawAddr // the sender's address, always
	Tag     uint64  // the sender's tag
	Data    uint64  // remote CQ data, if HasData
	HasData bool
	Tagged  bool
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
func (c *Completion) fill(r *ope.Result) {
	*c = Completion{
		Kind: Sent, ID: OpID(r.ID), Token: r.Token, Err: opError(r), Protocol: r.Proto,
		Message: message(r),
	}
	if r.Kind == ope.KindRecv {
		c.Kind = Received
	}
}

func message(r *ope.Result) Message {
	m := Message{
		N: r.N, From: Addr(r.Peer), Raw: r.From, Tag: r.Tag,
		Data: r.Data, HasData: r.HasData, Tagged: r.Flags&ope.Tagged != 0,
	}
	if m.From == notAvail {
		m.From = AnyAddr
	}
	return m
}
