package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/wire"
)

// Kind of a request.
type Kind uint8

// The kinds of request.
const (
	KindSend Kind = iota + 1
	KindRecv
	KindCancel  // of the operation ID
	KindControl // Control runs on the shard
)

// Flags of a request.
type Flags uint16

// The flags.
const (
	Tagged  Flags = 1 << iota
	HasData       // remote CQ data travels with the message
	Inject        // the buffer was copied already
	Quiet         // no completion unless it fails
)

// Request is what the application asked for, as it crosses to the shard.
type Request struct {
	Kind   Kind
	Flags  Flags
	ID     uint64 // of this operation of the endpoint
	Peer   uint64 // handle of the destination, or source to match
	Tag    uint64
	Ignore uint64
	Data   uint64
	Buf    []byte
	Token  any
	Sink   Sink
	More   *More
}

// More is what few requests have.
type More struct {
	Run    func()   // KindControl
	Pieces [][]byte // KindRecv: where Buf is to be copied in the end
}

// Sink takes an operation's outcome, on the shard. It must not block or allocate,
// nor keep what it is given.
type Sink interface {
	Done(*Request, *Result)
}

// Result is a request's outcome.
type Result struct {
	Err     error
	N       int // bytes sent, or placed in the buffer
	Lost    int // bytes that had no room
	Proto   Proto
	HasData bool          // of a received message, as what follows
	Peer    uint64        // handle of its sender
	From    *wire.RawAddr // address of its sender, never changed
	Tag     uint64
	Data    uint64
}

// Truncated is the error of a receive whose buffer was too small: the rest of the
// message is gone (FI_ETRUNC).
type Truncated struct {
	Placed, Lost int // bytes
}

// Error gives both lengths.
func (e *Truncated) Error() string {
	return fmt.Sprintf("message of %d bytes was truncated to the buffer's %d", e.Placed+e.Lost, e.Placed)
}

// Unwrap is ErrTruncated.
func (e *Truncated) Unwrap() error { return errno.ErrTruncated }
