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
	ErrTooLong      = errors.New("device: longer than the MTU, or than MaxRDMA")
	ErrBadAH        = errors.New("device: no such address handle")
	ErrQPNInUse     = errors.New("device: queue pair number is in use")
	ErrClosed       = errors.New("device: closed")
	ErrNoMemory     = errors.New("device: memory registration refused")
	ErrNotSupported = errors.New("device: not supported")
	ErrKeyInUse     = errors.New("device: another region has the key")
)

// Device is one attachment to a fabric: what a verbs context and its protection
// domain are on EFA. Its methods may be called from any goroutine.
type Device interface {
	// Info never changes after the device was opened.
	Info() Info
	// OpenQP makes a queue pair with its completion queue, ready to use.
	OpenQP(QPConfig) (QP, error)
	// Register makes mem known to the device for the accesses in a, until the
	// region is closed (ErrNoMemory: refused, there may be too many). mem must
	// stay where it is and be reachable until then.
	Register(mem []byte, a Access) (MR, error)
	// Alloc returns a region of n zeroed bytes outside the Go heap, in the kind
	// of memory that the device reaches best.
	Alloc(n int, a Access) (MR, error)
	// Close fails with an error while queue pairs or regions are open.
	Close() error
}

// MR is a memory region. Any goroutine may call its methods.
type MR interface {
	// Bytes is the memory; of a closed region of Alloc it must not be touched.
	Bytes() []byte
	// Addr is what remote accesses call the first byte: its virtual address,
	// or on a simulated device a number.
	Addr() uint64
	// LKey and RKey name the region in work requests, for the local and the
	// remote side. RKey cannot be guessed. Software devices have one number for
	// both; EFA's LKey has 24 bits.
	LKey() uint32
	RKey() uint32
	// Remote tells whether the device carries RDMA of others to this region.
	// False: only emulated accesses reach it (shm: memory that was registered
	// and not allocated lies in one process alone).
	Remote() bool
	// Close ends remote access: what is under way may end with StatusBadAddress,
	// and afterwards nobody touches the memory, which is given back if it came
	// from Alloc. A second call reports ErrClosed.
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

	// RDMARead, RDMAWrite: WRRead and WRWrite work, up to MaxRDMA bytes each.
	RDMARead, RDMAWrite bool
	MaxRDMA             int
	// LocalKeys: the local side of RDMA must lie in a region, named by LKey.
	// Otherwise any memory will do.
	LocalKeys bool
	// UnsolicitedWrite: a WRWrite with immediate takes no posted receive.
	UnsolicitedWrite bool

	// MaxMedium, MinRead and MinReadWrite are the device's switch points between
	// subprotocols, in bytes; 0 means EFA's own (65536, 1 MiB and 65536).
	MaxMedium, MinRead, MinReadWrite int
}

// QPConfig says what queue pair to open. Zero depths mean the device's default.
type QPConfig struct {
	SQDepth, RQDepth int
	QPN              uint16 // 0: any free one; EFA chooses itself and refuses others
	QKey             uint32 // also the connid of the endpoint (§1.4); bit 31 is the kernel's on EFA
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
	// error on a software device: sends to it end with a status. EFA refuses
	// what it knows to be out of reach, and more handles than it has.
	CreateAH(gid GID) (AH, error)
	DestroyAH(ah AH) error

	// PostSend queues one packet or RDMA request. ErrQueueFull, ErrTooLong,
	// ErrBadAH, ErrNotSupported and ErrClosed change nothing. Buffers stay the
	// device's until the completion, except that those of a WRSend are free at
	// once if Info.CopiesAtPost. A request that sets wr.Prompt has no completion
	// if wr.Over is true afterwards: then it has succeeded already.
	PostSend(wr *SendWR) error

	// RecvSlots is the number of receive buffers; the driver owns their
	// memory (each MTU bytes), numbered from 0. All begin unposted.
	RecvSlots() int
	// RecvBytes is slot's memory, always the same. It holds a packet from the completion that
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

// WR is the kind of a work request of the send queue.
type WR uint8

// The kinds of work request.
const (
	WRSend  WR = iota // a packet: Header then Payload, together at most the MTU
	WRRead            // RDMA read of len(Payload) bytes at Remote into Payload
	WRWrite           // RDMA write of Payload to Remote
)

// SendWR is one work request of the send queue. RDMA moves at most
// Info.MaxRDMA bytes, within one region of the other side; 0 bytes are allowed. A
// wrong key, range or right there ends it with StatusBadAddress, a wrong LKey with
// StatusInvalidLKey, and RDMA that the other device has not with StatusMismatch.
type SendWR struct {
	ID      uint64 // echoed in the completion
	AH      AH
	QPN     uint16
	QKey    uint32
	Kind    WR
	HasImm  bool // WRSend, WRWrite: the receiver's completion shows Imm
	Prompt  bool // by the caller: PostSend may set Over in place of a completion
	Over    bool // by the device, if Prompt; false before PostSend. EFA never knows so early
	Imm     uint32
	Header  []byte // WRSend
	Payload []byte // WRRead, WRWrite: the local side

	LKey   uint32 // of the region that Payload lies in, if Info.LocalKeys; WRRead needs LocalWrite
	RKey   uint32
	Remote uint64 // address in the other side's region
}

// Op tells completions apart.
type Op uint8

// The kinds of completion.
const (
	OpSend Op = iota + 1 // a work request of the send queue ended, of whatever kind
	OpRecv
	// OpWritten: the other side's WRWrite with immediate has put Len bytes into a
	// region here. ID is the receive slot that it took, NoSlot if
	// Info.UnsolicitedWrite; a slot is the caller's again, with nothing in it.
	OpWritten
	// OpRefused is a software device's knowledge that it has refused an RDMA
	// request of (AH, SrcQPN): a key, range or right was wrong. Imm is the key.
	OpRefused
	// OpGone is a software device's knowledge that the process behind
	// (AH, SrcQPN, QKey) is dead. AH is UnknownAH if there is none.
	OpGone
)

// NoSlot is the ID of an OpWritten that took no receive slot.
const NoSlot = ^uint64(0)

// Completion is one entry of the completion queue.
type Completion struct {
	ID     uint64 // OpSend: SendWR.ID; OpRecv, OpWritten: the slot
	Op     Op
	Status Status
	HasImm bool   // OpRecv; always of OpWritten
	AH     AH     // of the other side; not OpSend
	SrcQPN uint16 // of the other side; not OpSend
	Imm    uint32 // if HasImm
	Len    int    // OpRecv: bytes in the slot; OpWritten: bytes written
	SrcGID GID    // of the other side, set when AH is UnknownAH; not OpSend
	QKey   uint32 // OpGone
}

// Access is what a memory region may be used for.
type Access uint8

// Access rights.
const (
	LocalWrite  Access = 1 << iota
	RemoteWrite        // implies LocalWrite
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
