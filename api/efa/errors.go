package efa

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/peer"
)

// Errno is a libfabric error number. It is comparable, so that errors.Is finds
// it, and matches the standard library's sentinels of the same meaning:
// ErrCanceled is context.Canceled, ErrClosed is net.ErrClosed, ErrTimedOut is
// os.ErrDeadlineExceeded, and those below 256 are the syscall.Errno.
type Errno = errno.Errno

// The error numbers that this package returns.
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
)

// ErrPeerFailed is what operations with a peer end with that died, fell silent or
// was replaced by another endpoint.
var ErrPeerFailed = peer.ErrPeerFailed

// ErrPeerClosed is what operations with a peer end with that has closed its endpoint, if
// its device tells ([PeerClosed]). It is an ErrPeerFailed, too.
var ErrPeerClosed = peer.ErrLeft

// ErrPeerAborted is what operations end with that their peer has given up, for
// instance since its application did.
var ErrPeerAborted = peer.ErrAborted

// OpError is the error of one operation.
type OpError struct {
	Op       string // "send", "recv", "write", "read", "atomic", "peek", "claim"
	Peer     Addr   // the other side, NoAddr if unknown
	Err      error  // the cause
	Provider int    // the device's status, or the EFA provider's code from 4096 on, ours or the peer's; 0 if none
	N, Lost  int    // ErrTruncated: bytes placed in the buffer, and bytes that had no room
}

// Error names the operation, its peer and the cause.
func (e *OpError) Error() string {
	if e.Peer >= NoAddr {
		return fmt.Sprintf("efa: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("efa: %s, peer %d: %v", e.Op, e.Peer, e.Err)
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }

// InsertError says which of the addresses given to Insert was not taken.
type InsertError struct {
	Index int
	Err   error
}

// Error names the address by its place.
func (e *InsertError) Error() string { return fmt.Sprintf("address %d: %v", e.Index, e.Err) }

// Unwrap gives the cause.
func (e *InsertError) Unwrap() error { return e.Err }

// opName is what an operation is called in errors.
func opName(k ope.Kind) string {
	switch k {
	case ope.KindSend:
		return "send"
	case ope.KindWrite:
		return "write"
	case ope.KindRead:
		return "read"
	case ope.KindAtomic:
		return "atomic"
	case ope.KindPeek:
		return "peek"
	case ope.KindClaim:
		return "claim"
	default:
		return "recv"
	}
}

// opError makes the public error of an outcome that is none.
func opError(q *ope.Request, r *ope.Result) error {
	if errors.Is(r.Err, ErrNoMessage) {
		return ErrNoMessage // by itself: who looks again and again allocates nothing
	}
	e := &OpError{Op: opName(q.Kind), Peer: Addr(q.Peer), Err: r.Err}
	if receives(q) {
		e.Peer = Addr(r.Peer)
	}
	var s *peer.StatusError
	if errors.As(r.Err, &s) {
		e.Provider = int(s.Provider)
		if s.Status == device.StatusBadAddress {
			e.Err = fmt.Errorf("%w: %w", ErrAccess, r.Err) // one error for all who may not
		}
	}
	var p *peer.RemoteError
	if errors.As(r.Err, &p) {
		e.Provider = int(p.Provider)
	}
	var t *ope.Truncated
	if errors.As(r.Err, &t) {
		e.N, e.Lost = t.Placed, t.Lost
	}
	if errors.Is(r.Err, peer.ErrRemoved) {
		e.Err = fmt.Errorf("%w: %w", ErrCanceled, r.Err)
	}
	return e
}
