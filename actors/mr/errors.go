package mr

import "github.com/efactor/efactor/actors/errno"

// Error is why memory that a remote side names may not be touched. The checks
// are made in this order, and the first that fails is reported.
type Error uint8

// The reasons.
const (
	// ErrKey: no live region has the key.
	ErrKey Error = iota + 1
	// ErrRight: the region was not registered for this access.
	ErrRight
	// ErrRange: the bytes are not all in the region.
	ErrRange
)

// Error describes the reason.
func (e Error) Error() string {
	switch e {
	case ErrKey:
		return "mr: no memory region has the key"
	case ErrRight:
		return "mr: the memory region does not allow the access"
	case ErrRange:
		return "mr: outside of the memory region"
	default:
		return "mr: no reason"
	}
}

// Errno is the number that libfabric reports for it.
func (e Error) Errno() errno.Errno {
	if e == ErrKey {
		return errno.ErrInvalid
	}
	return errno.ErrAccess
}

// Is lets errors.Is find the number that libfabric reports, and errno.ErrNoKey
// for a key that nobody has.
func (e Error) Is(target error) bool {
	n, ok := target.(errno.Errno)
	return ok && (n == e.Errno() || e == ErrKey && n == errno.ErrNoKey)
}
