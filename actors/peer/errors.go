package peer

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
)

// Causes of a peer's end.
var (
	ErrPeerFailed = errors.New("peer failed")
	ErrRemoved    = errors.New("peer was removed from the address vector")
	ErrReplaced   = fmt.Errorf("%w: another endpoint has taken its address", ErrPeerFailed)
	ErrDied       = fmt.Errorf("%w: its process died", ErrPeerFailed)
	ErrLeft       = fmt.Errorf("%w: it has closed its endpoint", ErrPeerFailed)
	ErrSilent     = fmt.Errorf("%w: nothing was heard of it for the whole PeerTimeout", ErrPeerFailed)
	ErrOverMemory = fmt.Errorf("%w: it sent more than PeerMemory that nobody asked for", ErrPeerFailed)
	ErrIntruder   = fmt.Errorf("%w: it used too many keys that name no memory here", ErrPeerFailed)
	ErrUnreadable = fmt.Errorf("%w: it sent a packet that cannot be read", ErrPeerFailed)
	ErrRestarted  = fmt.Errorf("%w: the actor of the peer was restarted", ErrPeerFailed)
	ErrStopped    = errors.New("endpoint closed")

	// ErrUntrusted is why a packet of an endpoint in no address vector is dropped.
	ErrUntrusted = errors.New("its sender is not let in: too many endpoints come, or have left messages, at its place, and too much of theirs waits")
)

// Causes of an operation's end with a peer that lives.
var (
	// ErrNoAnswer: an access to the peer's memory was not answered for
	// PeerTimeout. It was refused, or the peer is stuck.
	ErrNoAnswer = fmt.Errorf("%w: the peer has not answered the request, it may have refused the access", errno.ErrTimedOut)
	// ErrAborted: the peer gave the operation up (PEER_ERROR).
	ErrAborted = fmt.Errorf("%w: aborted by the peer", errno.ErrCanceled)
	// ErrRefused: the peer refused access to its memory.
	ErrRefused = fmt.Errorf("%w: refused by the peer", errno.ErrAccess)
)

// RemoteError is why a peer has ended an operation (PEER_ERROR): Err, which is
// ErrRefused or ErrAborted, and the code that it gave.
type RemoteError struct {
	Err      error
	Provider errno.Provider
}

// Error gives both.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("%v: %v (provider code %d)", e.Err, e.Provider, uint16(e.Provider))
}

// Unwrap gives Err.
func (e *RemoteError) Unwrap() error { return e.Err }

// StatusError is a device's verdict with libfabric's numbers.
type StatusError struct {
	Status   device.Status
	Errno    errno.Errno
	Provider errno.Provider
	Peer     bool  // the whole peer is concerned
	Why      error // the device's reason, if it knows one: an error of TLS for example
}

// Error says what the device said.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s (EFA status %d, provider code %d)", e.Provider, e.Status, uint16(e.Provider))
	if e.Why != nil {
		text += ": " + e.Why.Error()
	}
	return text
}

// Unwrap gives the libfabric number, ErrPeerFailed where that is so, and Why.
func (e *StatusError) Unwrap() []error {
	errs := []error{e.Errno}
	if e.Peer {
		errs = append(errs, ErrPeerFailed)
	}
	if e.Why != nil {
		errs = append(errs, e.Why)
	}
	return errs
}

// HasLeft reports whether a peer failed for that its queue pair is gone. It may have sent
// packets before, which still come.
func HasLeft(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Status == device.StatusBadDestQPN
}

// ErrMalformed ends a message of which a packet came that cannot be read.
var ErrMalformed = fmt.Errorf("%w: a packet of the message cannot be read", errno.ErrIO)
