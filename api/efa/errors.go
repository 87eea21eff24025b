package efa

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/api/internal/errtext"
)

// Errno is a libfabric error number. It is comparable, so that errors.Is finds
// it, and matches the standard library's sentinels of the same meaning:
// ErrCanceled is context.Canceled, ErrClosed is net.ErrClosed, ErrTimedOut is
// os.ErrDeadlineExceeded, and those below 256 are the syscall.Errno.
type Errno = errno.Errno

// The error numbers. Those of the second block are not returned by this package, but are
// libfabric's, for programs that compare or carry them.
const (
	ErrAgain        = errno.ErrAgain        // FI_EAGAIN: a queue is full, try again
	ErrBusy         = errno.ErrBusy         // FI_EBUSY: objects that depend on it are open
	ErrInvalid      = errno.ErrInvalid      // FI_EINVAL
	ErrMsgSize      = errno.ErrMsgSize      // FI_EMSGSIZE
	ErrNotSupported = errno.ErrNotSupported // FI_EOPNOTSUPP
	ErrCanceled     = errno.ErrCanceled     // FI_ECANCELED
	ErrClosed       = errno.ErrClosed       // FI_ESHUTDOWN: the endpoint was closed
	ErrBadState     = errno.ErrBadState     // FI_EOPBADSTATE: not enabled, or enabled already
	ErrDomain       = errno.ErrDomain       // FI_EDOMAIN: object of another domain
	ErrNoCQ         = errno.ErrNoCQ         // FI_ENOCQ: no queue for the outcome
	ErrTruncated    = errno.ErrTruncated    // FI_ETRUNC: the message was longer than the buffer
	ErrNoRx         = errno.ErrNoRx         // FI_ENORX: the peer has no receive posted
	ErrNoMemory     = errno.ErrNoMemory     // FI_ENOMEM
	ErrIO           = errno.ErrIO           // FI_EIO: the device failed
	ErrAddrNotAvail = errno.ErrAddrNotAvail // FI_EADDRNOTAVAIL: no path to the address from this device
	ErrHostUnreach  = errno.ErrHostUnreach  // FI_EHOSTUNREACH: the device cannot reach the peer
	ErrTimedOut     = errno.ErrTimedOut     // FI_ETIMEDOUT
	ErrAccess       = errno.ErrAccess       // FI_EACCES: memory that may not be touched, or not so
	ErrNoKey        = errno.ErrNoKey        // FI_ENOKEY: no memory region has the key, of an AccessRefused
	ErrNoMR         = errno.ErrNoMR         // FI_ENOMR: the device takes no more memory regions
	ErrNoMessage    = errno.ErrNoMessage    // FI_ENOMSG: no message to peek at
	ErrNoData       = errno.ErrNoData       // FI_ENODATA: no device is as the Hints want it
	ErrConnAborted  = errno.ErrConnAborted  // FI_ECONNABORTED: the peer's device was reset, or does not answer
	ErrNotConnected = errno.ErrNotConnected // FI_ENOTCONN: there is no such endpoint at the address, or it has no address handle for us
	ErrRemoteIO     = errno.ErrRemoteIO     // FI_EREMOTEIO: the peer's device failed
	ErrAlready      = errno.ErrAlready      // FI_EALREADY: too late to withdraw the message, which goes on from a copy; see Send
	ErrOther        = errno.ErrOther        // FI_EOTHER: of Number, an error that has none

	ErrNoEntry   = errno.ErrNoEntry   // FI_ENOENT
	ErrNoBuffers = errno.ErrNoBuffers // FI_ENOBUFS: memory for what nobody asked for holds senders back here
	ErrTooSmall  = errno.ErrTooSmall  // FI_ETOOSMALL: buffers here grow
	ErrAvail     = errno.ErrAvail     // FI_EAVAIL: errors here come in the order of completions
	ErrBadFlags  = errno.ErrBadFlags  // FI_EBADFLAGS: wishes here are typed
	ErrNoEQ      = errno.ErrNoEQ      // FI_ENOEQ: every endpoint has events
	ErrCRC       = errno.ErrCRC       // FI_ECRC: devices check for themselves
	ErrNoAV      = errno.ErrNoAV      // FI_ENOAV: every endpoint has one
	ErrOverrun   = errno.ErrOverrun   // FI_EOVERRUN: queues refuse operations rather than lose outcomes
)

// Provider is a code of the EFA provider: below 4096 the device's status, from there on the
// provider's own (efa_errno.h), ours or the peer's. String says what it means, Name is the
// provider's name for its own ones.
type Provider = errno.Provider

// Number gives an error of this package as libfabric's number: the Errno in it, ErrConnAborted
// of a peer that failed in a way that has no number, ErrTimedOut and ErrCanceled of a
// context's, and ErrOther of everything else. nil is 0.
func Number(err error) Errno {
	var n Errno
	var has interface{ Errno() Errno } // why memory may not be touched
	switch {
	case err == nil:
		return 0
	case errors.As(err, &n):
		return n
	case errors.As(err, &has):
		return has.Errno()
	case errors.Is(err, ErrPeerFailed):
		return ErrConnAborted
	case errors.Is(err, context.DeadlineExceeded):
		return ErrTimedOut
	case errors.Is(err, context.Canceled):
		return ErrCanceled
	default:
		return ErrOther
	}
}

// ErrPeerFailed is what operations with a peer end with that died, fell silent or
// was replaced by another endpoint.
var ErrPeerFailed = peer.ErrPeerFailed

// ErrUntrusted is why a packet was dropped that could be read, of a [BadPacket]: endpoints that
// are in no address vector are let in by rate and by share, and the packets of others wait. Where the
// device cannot hold one sender back (EFA), one that says with each packet that it is another could use up the memory of all:
// beyond PeerMemory and 64 MiB its packets are dropped.
var ErrUntrusted = peer.ErrUntrusted

// ErrPeerClosed is what operations with a peer end with that has closed its endpoint, if
// its device tells ([PeerClosed]). It is an ErrPeerFailed, too.
var ErrPeerClosed = peer.ErrLeft

// ErrPeerAborted is what operations end with that their peer has given up, for
// instance since its application did.
var ErrPeerAborted = peer.ErrAborted

// OpError is the error of one operation that was accepted. Like all errors of this
// package it is one line: "efa: ", the operation, the peer with its name, the cause.
type OpError struct {
	Op       string   // "send", "recv", "write", "read", "atomic", "peek", "claim", "wait"
	Peer     Addr     // the other side, NoAddr if unknown
	Name     string   // of Peer, if it has one, see [AddressVector.SetName]
	Err      error    // the cause
	Provider Provider // what the device or the peer said; 0 if neither did
	N, Lost  int      // ErrTruncated: bytes placed in the buffer, and bytes that had no room
}

// Error names the operation, its peer and the cause.
func (e *OpError) Error() string {
	return fmt.Sprintf("efa: %s: %s", opAt(e.Op, e.Peer, e.Name), errtext.Cause(e.Err))
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }

// InsertError says which of the addresses given to Insert was not taken.
type InsertError struct {
	Index int
	Err   error
}

// Error names the address by its place.
func (e *InsertError) Error() string {
	return fmt.Sprintf("efa: insert, address %d: %s", e.Index, errtext.Cause(e.Err))
}

// Unwrap gives the cause.
func (e *InsertError) Unwrap() error { return e.Err }

// formed gives the error of a call the form of this package's errors, see [OpError]: "efa", the
// operation, the cause. It is for defer, in calls that are not made for each message.
func formed(op string, err *error) {
	if *err != nil {
		*err = callError(op, *err)
	}
}

// callError is formed for an error that is not nil.
func callError(op string, err error) error {
	if inner := new(errtext.Error); errors.As(err, &inner) && inner.Op == op {
		return inner
	}
	return &errtext.Error{Package: "efa", Op: op, Err: err}
}

// opAt is an operation and its peer, as errors have them.
func opAt(op string, p Addr, name string) string {
	switch {
	case p >= NoAddr:
		return op
	case name != "":
		return fmt.Sprintf("%s, peer %d (%s)", op, p, name)
	default:
		return fmt.Sprintf("%s, peer %d", op, p)
	}
}

// opNames are what operations are called in errors.
var opNames = [...]string{
	ope.KindSend: "send", ope.KindRecv: "recv", ope.KindWrite: "write", ope.KindRead: "read",
	ope.KindAtomic: "atomic", ope.KindPeek: "peek", ope.KindClaim: "claim", ope.KindTake: "recv",
}

// opName is what an operation is called in errors.
func opName(k ope.Kind) string {
	if int(k) < len(opNames) && opNames[k] != "" {
		return opNames[k]
	}
	return "recv"
}

// The errors that a program meets again and again while nothing is wrong, so that they cost it
// no allocation, by the kind of the operation.
var errsAgain, errsNoMessage = func() (again, none [len(opNames)]error) {
	for k := range opNames {
		name := opName(ope.Kind(k))
		again[k] = &errtext.Error{Package: "efa", Op: name, Err: ErrAgain}
		none[k] = &errtext.Error{Package: "efa", Op: name, Err: ErrNoMessage}
	}
	return again, none
}()
