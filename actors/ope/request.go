package ope

import (
	"fmt"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/wire"
)

// Kind of a request.
type Kind uint8

// The kinds of request.
const (
	KindNone Kind = iota // a place in the ring whose request was given up: it is passed over
	KindSend
	KindRecv
	KindCancel  // of the operation ID
	KindControl // More.Run runs on the shard
	KindWrite   // Buf to Addr in the peer's memory
	KindRead    // Addr in the peer's memory to Buf
	KindAtomic  // AtomicOp with Buf at Addr in the peer's memory
	KindPeek    // what a receive of this kind would take now
	KindClaim   // the same, and take it out of matching
	KindTake    // receive the message that was claimed as ID Data
	KindWritten // never submitted: a peer's write with data, told to the endpoint

	NumKinds = int(KindWritten) + 1
)

// The three forms of an atomic (§3.3).
const (
	AtomicWrite   = atomics.Write   // WRITE_RTA, or DC_WRITE_RTA
	AtomicFetch   = atomics.Fetch   // FETCH_RTA: what was there goes to More.Result
	AtomicCompare = atomics.Compare // COMPARE_RTA: with More.Compare
)

// Flags of a request.
type Flags uint32

// The flags.
const (
	Tagged        Flags = 1 << iota
	HasData             // remote CQ data travels with the message
	Inject              // the buffer was copied already
	Quiet               // no completion unless it fails
	Deliver             // complete when the data is where it belongs (delivery complete, §4.2)
	Discard             // KindTake, KindPeek: throw the message away
	Traced              // a span of the application's can be found by ID
	Borrowed            // Buf is the caller's again when the call that hands the request over returns
	Fence               // it begins when all earlier operations with the peer are over
	Ordered             // the endpoint has an order (settings.Order)
	HasIOV              // More.Local is in place of Buf
	Follows             // it is a part of a request that has begun, see parts
	HasGeneration       // it says which peer the handle meant when it was made, see SetGeneration
)

// Await is Deliver of KindPeek and KindClaim, to which that means nothing: they wait until
// there is a message.
const Await = Deliver

// Request is what the application asked for, as it crosses to the shard. In the ring it is two
// cache lines with its sequence word.
type Request struct {
	Kind   Kind
	Form   atomics.Form // KindAtomic
	Op     uint8        // KindAtomic: a wire.AtomicOp, all of which are small
	Type   uint8        // KindAtomic: the wire.Datatype of the elements of Buf
	Flags  Flags
	ID     uint64 // of this operation of the endpoint
	Peer   uint64 // handle of the destination, or source to match
	Tag    uint64
	Ignore uint64
	Data   uint64
	Addr   uint64 // in the peer's memory, of KindWrite, KindRead and KindAtomic
	Key    uint64 // of its region
	Buf    []byte
	Token  uint64
	Sink   Sink
	More   *More
}

// Forget makes it the zero request: the memory that it refers to is free although the struct is
// used again, and the next user of the struct sets only the fields that are not zero.
func (r *Request) Forget() { *r = Request{} }

// Moved is the request at another place; where it was there is none any more.
func (r *Request) Moved() *Request {
	x := new(Request)
	*x = *r
	r.Forget()
	return x
}

// AtomicSize is what an atomic carries in its longer direction, in bytes.
func (r *Request) AtomicSize() int {
	switch r.Form {
	case AtomicCompare:
		return max(len(r.Buf)+len(r.More.Compare), len(r.More.Result))
	case AtomicFetch:
		return max(len(r.Buf), len(r.More.Result))
	default:
		return len(r.Buf)
	}
}

// A handle that was removed may be another peer's soon. A request whose caller had to wait
// before it could hand it over says which of the two it means: by the age of the handle, which
// is another one after each insertion.

// SetGeneration notes the age of the handle Peer. Requests without a peer have none.
func (r *Request) SetGeneration(age uint64) {
	r.Flags |= HasGeneration
	if r.Kind == KindRecv {
		r.Key = age // no receive has a key, and what leaves ignores no bits of a tag
	} else {
		r.Ignore = age
	}
}

// Generation is what SetGeneration has noted. Precondition: HasGeneration is set.
func (r *Request) Generation() uint64 {
	if r.Kind == KindRecv {
		return r.Key
	}
	return r.Ignore
}

// More is what few requests have.
type More struct {
	Run    func()   // KindControl
	Pieces [][]byte // KindRecv without the protocol: where Buf is to be copied in the end

	// Stripes are the paths that KindRead and KindWrite may go by, if there are several.
	Stripes []Stripe

	// The pieces of memory of KindSend, KindRecv, KindRead and KindWrite, where there is more
	// than one on a side. Packets take their payload from where the pieces lie, or are
	// scattered into them; an access by RDMA is cut wherever a piece ends on either side. The
	// slices are the request's own copy, which [Request.PutIOV] takes back with the outcome;
	// the memory is the caller's, lent until then.
	Local  [][]byte      // instead of Buf, if the request has HasIOV; none is empty
	Remote []wire.RMAIOV // instead of Addr and Key, if there are any; none is empty
	Total  uint64        // bytes of Local

	localAt, remoteAt iovPos // where the last search ended, since the next goes on there

	Compare []byte // KindAtomic: as long as the operand
	Result  []byte // KindAtomic: where what was fetched goes; as long as the target
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
