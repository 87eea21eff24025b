package errno

import "strconv"

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
