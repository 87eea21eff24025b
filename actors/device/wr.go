package device

import "fmt"

// WR is the kind of a work request of the send queue.
type WR uint8

// The kinds of work request.
const (
	WRSend  WR = iota // a packet: Header, Payload and More, together at most the MTU
	WRRead            // RDMA read at Remote into Payload and More
	WRWrite           // RDMA write of Payload and More to Remote
)

var wrNames = [...]string{"send", "read", "write"}

// String gives the name in small letters.
func (w WR) String() string {
	if int(w) < len(wrNames) {
		return wrNames[w]
	}
	return fmt.Sprintf("WR(%d)", uint8(w))
}

// SendWR is one work request of the send queue. RDMA moves at most
// Info.MaxRDMA bytes, within one region of the other side; 0 bytes are allowed. A
// wrong key, range or right there ends it with StatusBadAddress, a wrong LKey with
// StatusInvalidLKey, and RDMA that the other device has not with StatusMismatch.
//
// With Stays a device that copies at post may take the payload as late as in Doorbell, and of a long one it need
// keep no copy: StatusRNR may be reported before the retries of QPConfig.RNRRetry, if that is a number.
//
// The local side is several pieces, one after the other: Header, Payload, and those of
// More. Info.MaxPieces and MaxRDMAPieces bound how many; more are ErrNotSupported.
type SendWR struct {
	ID      uint64 // echoed in the completion
	AH      AH
	QPN     uint16
	QKey    uint32
	Kind    WR
	HasImm  bool // WRSend, WRWrite: the receiver's completion shows Imm
	Begins  bool // WRSend without immediate: the packet is of message Turn, see QP.HoldBack
	Stays   bool // WRSend: Payload stays as it is until Doorbell returns, and its owner sends it again after RNR
	Prompt  bool // by the caller: PostSend may set Over in place of a completion
	Again   bool // the packet was posted before, and did not arrive; for those who watch
	Over    bool // by the device, if Prompt; false before PostSend. EFA never knows so early
	Imm     uint32
	MsgID   uint32
	Header  []byte // WRSend
	Payload []byte // WRRead, WRWrite: the local side

	LKey   uint32 // of the region that Payload lies in, if Info.LocalKeys; WRRead needs LocalWrite; else 0
	Whole  uint32 // WRWrite with HasImm: what OpWritten reports as Len, if more than the bytes; see Info.Foreign
	RKey   uint64
	Remote uint64 // address in the other side's region

	HeaderKey uint32  // of the region that Header lies in, if Info.SendKeys
	More      []Piece // after Payload; the slice itself is free when PostSend returns
}

// Piece is a part of the local side of a request.
type Piece struct {
	Mem  []byte
	LKey uint32 // of the region that Mem lies in, if Info.LocalKeys or Info.SendKeys
}

// Len is the bytes of all pieces.
func (wr *SendWR) Len() int {
	n := len(wr.Header) + len(wr.Payload)
	for i := range wr.More {
		n += len(wr.More[i].Mem)
	}
	return n
}

// Gather copies the pieces one after the other to b, as far as they fit, and returns how
// many bytes that were.
func (wr *SendWR) Gather(b []byte) int {
	n := copy(b, wr.Header)
	n += copy(b[n:], wr.Payload)
	for i := range wr.More {
		n += copy(b[n:], wr.More[i].Mem)
	}
	return n
}

// Pieces counts them: Header and Payload if they are not empty, and all of More.
func (wr *SendWR) Pieces() int {
	n := len(wr.More)
	if len(wr.Header) > 0 {
		n++
	}
	if len(wr.Payload) > 0 {
		n++
	}
	return n
}
