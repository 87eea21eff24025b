package errno

import (
	"context"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
)

// Errno is a libfabric error number (fi_errno.h): POSIX numbers below 256,
// libfabric's own above. It is comparable, so errors.Is finds it.
type Errno uint16

// The numbers that efactor uses.
const (
	ErrNoEntry      = Errno(enoent)
	ErrIO           = Errno(eio)
	ErrAgain        = Errno(eagain)
	ErrNoMemory     = Errno(enomem)
	ErrAccess       = Errno(eacces)
	ErrBusy         = Errno(ebusy)
	ErrInvalid      = Errno(einval)
	ErrNoMessage    = Errno(enomsg)
	ErrNoData       = Errno(enodata)
	ErrMsgSize      = Errno(emsgsize)
	ErrNotSupported = Errno(eopnotsupp)
	ErrAddrNotAvail = Errno(eaddrnotavail)
	ErrConnAborted  = Errno(econnaborted)
	ErrNotConnected = Errno(enotconn)
	ErrNoBuffers    = Errno(enobufs)
	ErrTimedOut     = Errno(etimedout)
	ErrHostUnreach  = Errno(ehostunreach)
	ErrAlready      = Errno(ealready)
	ErrRemoteIO     = Errno(remoteIO)
	ErrCanceled     = Errno(ecanceled)
	ErrClosed       = Errno(eshutdown)
	ErrOther        = Errno(256)
	ErrTooSmall     = Errno(257)
	ErrBadState     = Errno(258)
	ErrAvail        = Errno(259)
	ErrBadFlags     = Errno(260)
	ErrNoEQ         = Errno(261)
	ErrDomain       = Errno(262)
	ErrNoCQ         = Errno(263)
	ErrCRC          = Errno(264)
	ErrTruncated    = Errno(265)
	ErrNoKey        = Errno(266)
	ErrNoAV         = Errno(267)
	ErrOverrun      = Errno(268)
	ErrNoRx         = Errno(269)
	ErrNoMR         = Errno(270)
)

var text = map[Errno]string{
	ErrAgain:        "resources are used up, try again",
	ErrNotSupported: "operation not supported",
	ErrMsgSize:      "message too long",
	ErrNoData:       "nothing that fits",
	ErrCanceled:     "operation canceled",
	ErrClosed:       "endpoint closed",
	ErrNoMessage:    "no message of the desired kind",
	ErrOther:        "unspecified error",
	ErrTooSmall:     "provided buffer is too small",
	ErrBadState:     "operation not permitted in current state",
	ErrAvail:        "an error is to be read first",
	ErrBadFlags:     "flags are not supported",
	ErrNoEQ:         "missing event queue",
	ErrCRC:          "checksum does not fit",
	ErrDomain:       "object belongs to another domain",
	ErrNoCQ:         "missing completion queue",
	ErrTruncated:    "message was truncated",
	ErrNoKey:        "key not available",
	ErrNoAV:         "missing address vector",
	ErrOverrun:      "queue overrun",
	ErrNoRx:         "receiver not ready",
	ErrNoMR:         "memory registration limit exceeded",
}

// Error returns libfabric's meaning of the number.
func (e Errno) Error() string {
	if t, ok := text[e]; ok {
		return t
	}
	if e < 256 {
		return system(e).Error()
	}
	return fmt.Sprintf("libfabric error %d", uint16(e))
}

// Is lets errors.Is find the standard library's sentinel of the same meaning.
func (e Errno) Is(target error) bool {
	switch target {
	case context.Canceled:
		return e == ErrCanceled
	case os.ErrDeadlineExceeded:
		return e == ErrTimedOut
	case net.ErrClosed, fs.ErrClosed:
		return e == ErrClosed
	}
	if n, ok := target.(syscall.Errno); ok {
		return e < 256 && system(e) == n
	}
	return false
}

// Timeout is for net.Error's users.
func (e Errno) Timeout() bool { return e == ErrTimedOut }

// names are libfabric's, without the prefix.
var names = map[Errno]string{
	ErrNoEntry: "NOENT", ErrIO: "IO", ErrAgain: "AGAIN", ErrNoMemory: "NOMEM", ErrAccess: "ACCES", ErrBusy: "BUSY",
	ErrInvalid: "INVAL", ErrNoMessage: "NOMSG", ErrMsgSize: "MSGSIZE", ErrNotSupported: "OPNOTSUPP",
	ErrAddrNotAvail: "ADDRNOTAVAIL", ErrConnAborted: "CONNABORTED", ErrNotConnected: "NOTCONN", ErrTimedOut: "TIMEDOUT",
	ErrHostUnreach: "HOSTUNREACH", ErrAlready: "ALREADY", ErrRemoteIO: "REMOTEIO", ErrCanceled: "CANCELED",
	ErrNoData: "NODATA", ErrNoBuffers: "NOBUFS", ErrAvail: "AVAIL", ErrBadFlags: "BADFLAGS", ErrNoEQ: "NOEQ", ErrCRC: "CRC",
	ErrClosed: "SHUTDOWN", ErrOther: "OTHER", ErrTooSmall: "TOOSMALL", ErrBadState: "OPBADSTATE", ErrDomain: "DOMAIN",
	ErrNoCQ: "NOCQ", ErrTruncated: "TRUNC", ErrNoKey: "NOKEY", ErrNoAV: "NOAV", ErrOverrun: "OVERRUN", ErrNoRx: "NORX",
	ErrNoMR: "NOMR",
}

// Name is libfabric's name of the number: "FI_EIO".
func (e Errno) Name() string {
	if n, ok := names[e]; ok {
		return "FI_E" + n
	}
	return "FI_E" + strconv.Itoa(int(e))
}
