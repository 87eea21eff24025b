package efa

import (
	"errors"
	"fmt"

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
	ErrNoAV         = errno.ErrNoAV         // FI_ENOAV
	ErrTruncated    = errno.ErrTruncated    // FI_ETRUNC: the message was longer than the buffer
	ErrNoRx         = errno.ErrNoRx         // FI_ENORX: the peer has no receive posted
	ErrNoMemory     = errno.ErrNoMemory     // FI_ENOMEM
	ErrIO           = errno.ErrIO           // FI_EIO: the device failed
	ErrAddrNotAvail = errno.ErrAddrNotAvail // FI_EADDRNOTAVAIL: no path to the address from this device
	ErrHostUnreach  = errno.ErrHostUnreach  // FI_EHOSTUNREACH: the device cannot reach the peer
	ErrTimedOut     = errno.ErrTimedOut     // FI_ETIMEDOUT
)

// ErrPeerFailed is what operations with a peer end with that died, fell silent or
// was replaced by another endpoint.
var ErrPeerFailed = peer.ErrPeerFailed

// OpError is the error of one operation.
type OpError struct {
	Op       string // "send", "recv"
	Peer     Addr   // the other side, AnyAddr if unknown
	Err      error  // the cause
	Provider int    // the device's status, or the EFA provider's code from 4096 on; 0 if none
	N, Lost  int    // ErrTruncated: bytes placed in the buffer, and bytes that had no room
}

// Error names the operation, its peer and the cause.
func (e *OpError) Error() string {
	if e.Peer >= notAvail {
		return fmt.Sprintf("efa: %s: %v", e.Op, e.Err)
	}
	return fmt.Sprintf("efa: %s, peer %d: %v", e.Op, e.Peer, e.Err)
}

// Unwrap gives the cause.
func (e *OpError) Unwrap() error { return e.Err }

// opError makes the public error of an outcome that is none.
func opError(q *ope.Request, r *ope.Result) error {
	e := &OpError{Op: "send", Peer: Addr(q.Peer), Err: r.Err}
	if q.Kind == ope.KindRecv {
		e.Op, e.Peer = "recv", Addr(r.Peer)
	}
	var s *peer.StatusError
	if errors.As(r.Err, &s) {
		e.Provider = int(s.Provider)
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
