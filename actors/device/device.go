package device

import (
	"errors"
	"fmt"
)

// GID is the 16-byte address of a port, in network order (§1.4).
type GID [16]byte

// AH is the number of an address handle: the device's short name for a GID.
type AH uint16

// UnknownAH is the source of a packet whose sender has no address handle here.
const UnknownAH AH = 0xffff

// Errors that a driver returns from a call. What goes wrong later arrives as a
// completion's Status.
var (
	ErrQueueFull    = errors.New("device: send queue is full")
	ErrTooLong      = errors.New("device: longer than the MTU")
	ErrBadAH        = errors.New("device: no such address handle")
	ErrQPNInUse     = errors.New("device: queue pair number is in use")
	ErrClosed       = errors.New("device: closed")
	ErrNoMemory     = errors.New("device: memory registration refused")
	ErrNotSupported = errors.New("device: not supported")
)

// Device is one attachment to a fabric: what a verbs context and its protection
// domain are on EFA. Its methods may be called from any goroutine.
type Device interface {
	// Info never changes after the device was opened.
	Info() Info
	// OpenQP makes a queue pair with its completion queue, ready to use.
	OpenQP(QPConfig) (QP, error)
	// Close fails with an error while queue pairs are open.
	Close() error
}

// Info is what a device can do.
type Info struct {
	Name   string // of the driver and the attachment: "sim", "shm:<dir>"
	GID    GID
	MTU    int    // bytes of the largest packet, headers of the protocol included
	MaxSQ  int    // most outstanding sends of a queue pair
	MaxRQ  int    // most posted receives of a queue pair
	MaxQP  int    // most queue pairs
	PartID uint32 // vendor part id, sent as device_version in HANDSHAKE (§2.1.1)

	// CopiesAtPost: the bytes of a send are taken before PostSend returns, so
	// that only a packet that must be sent again needs them later.
	CopiesAtPost bool

	RDMARead, RDMAWrite bool

	// MaxMedium and MinRead are the device's switch points between
	// subprotocols, in bytes; 0 means EFA's own (65536 and 1 MiB).
	MaxMedium, MinRead int
}

// QPConfig says what queue pair to open. Zero depths mean the device's default.
type QPConfig struct {
	SQDepth, RQDepth int
	QPN              uint16 // 0: any free one
	QKey             uint32 // also the connid of the endpoint (§1.4)
	RNRRetry         uint8  // device resends before it reports RNR; 7: for ever

	// Notify is called from any goroutine when something may have become
	// ready after Arm, by drivers that run inside the process. Others make
	// one of FDs readable.
	Notify func()
}

// QP is a queue pair and its completion queue. It belongs to one shard: no two
// of its methods run at once, except that Close may follow the owner's last call
// from another goroutine.
//
// The contract is EFA's: packets arrive at most once, whole, in any order. A
// completed send has reached a posted receive of the other side. With none
// posted there the send ends with StatusRNR after RNRRetry device resends. A
// receive from a sender with no address handle shows UnknownAH and the GID.
type QP interface {
	QPN() uint16

	// CreateAH returns the address handle of gid; the same gid gives the same
	// handle, counted, until as many DestroyAH. A dead or unknown gid is no
	// error here: sends to it end with a status.
	CreateAH(gid GID) (AH, error)
	DestroyAH(ah AH) error

	// PostSend queues one packet. ErrQueueFull, ErrTooLong, ErrBadAH and
	// ErrClosed change nothing. Buffers stay the device's until the
	// completion, unless Info.CopiesAtPost.
	PostSend(wr *SendWR) error

	// RecvSlots is the number of receive buffers; the driver owns their
	// memory (each MTU bytes), numbered from 0. All begin unposted.
	RecvSlots() int
	// RecvBytes is slot's memory. It holds a packet from the completion that
	// names it until the slot is posted again. In shared memory the other
	// side could still change it: read a header field once, then check.
	RecvBytes(slot int) []byte
	// PostRecv gives slots (back) to the device.
	PostRecv(slots []int32)

	// Doorbell makes what was posted since the last one go out.
	Doorbell()

	// Poll fills c with completions and returns how many. It allocates
	// nothing and does not block.
	Poll(c []Completion) int

	// Arm asks for a notification of the next completion. False: something
	// is ready already (or Poll must be called for another reason), so do not
	// sleep. An armed queue is disarmed by the next Poll.
	Arm() bool
	// FDs are descriptors that become readable when an armed queue pair has
	// work; nil for drivers that use QPConfig.Notify. Poll drains them.
	FDs() []int

	// Close flushes: nothing completes afterwards and no memory is touched.
	Close() error
}

// SendWR is one packet to send: Header then Payload, together at most the MTU.
type SendWR struct {
	ID      uint64 // echoed in the completion
	AH      AH
	QPN     uint16
	QKey    uint32
	Header  []byte
	Payload []byte
}

// Op tells completions apart.
type Op uint8

// The kinds of completion.
const (
	OpSend Op = iota + 1
	OpRecv
	// OpGone is a software device's knowledge that the process behind
	// (AH, SrcQPN, QKey) is dead. AH is UnknownAH if there is none.
	OpGone
)

// Completion is one entry of the completion queue.
type Completion struct {
	ID     uint64 // OpSend: SendWR.ID; OpRecv: the slot
	Op     Op
	Status Status
	AH     AH     // OpRecv, OpGone: of the sender
	SrcQPN uint16 // OpRecv, OpGone
	Len    int    // OpRecv: bytes in the slot
	SrcGID GID    // OpRecv, OpGone: set when AH is UnknownAH
	QKey   uint32 // OpGone
}

// Access is what a memory region may be used for.
type Access uint8

// Access rights.
const (
	LocalWrite  Access = 1 << iota
	RemoteWrite        // needs LocalWrite
	RemoteRead
)

// String prints the GID as an IPv6 address in its full form without brackets.
func (g GID) String() string {
	return fmt.Sprintf("%x:%x:%x:%x:%x:%x:%x:%x",
		uint16(g[0])<<8|uint16(g[1]), uint16(g[2])<<8|uint16(g[3]),
		uint16(g[4])<<8|uint16(g[5]), uint16(g[6])<<8|uint16(g[7]),
		uint16(g[8])<<8|uint16(g[9]), uint16(g[10])<<8|uint16(g[11]),
		uint16(g[12])<<8|uint16(g[13]), uint16(g[14])<<8|uint16(g[15]))
}
