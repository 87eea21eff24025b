package abi

import (
	"math/bits"
	"strings"
)

// Sizes of the entries of a send queue, and what they hold.
const (
	WQELen     = 64  // 32 bytes of meta data, 32 of body
	WideWQELen = 128 // 32 bytes of meta data, 96 of body

	MaxInline     = 32 // most bytes inline in a send of 64 bytes
	MaxInlineWide = 80 // most bytes inline in a send or a write of 128 bytes

	MaxSendSGE = 2 // of a send; RDMA has one

	metaLen   = 32
	sgeLen    = 16
	rdmaLocal = metaLen + sgeLen // where the local side of RDMA is
)

// WorkOp is the kind of a work request, and of its completion.
type WorkOp uint8

// Operations; a WQE has four bits for them, a CQE three.
const (
	WorkSend  WorkOp = 0
	WorkRead  WorkOp = 1 // RDMA read
	WorkWrite WorkOp = 2 // RDMA write; of a receive: one with immediate that came
)

// SGE is a piece of local memory.
type SGE struct {
	Length uint32
	LKey   uint32 // 24 bits
	Addr   uint64
}

// RemoteAddr is the other side of RDMA.
type RemoteAddr struct {
	Length uint32 // of the local side, too
	RKey   uint32
	Addr   uint64
}

// WQE is a work request in the send queue: of 64 bytes, or of 128 if the queue was
// made so. It lies in write-combining memory of the device (the "low latency
// queue"), which its user writes and never reads.
//
//	0       2      3      4         6       8    12  14     15 16    20 26         32
//	+-------+------+------+---------+-------+----+---+------+-+------+-+-----------+
//	| reqid | op.. | ph.. | destqpn | length| imm| ah| hint |0| qkey |0| reqid 16- | meta
//	+-------+------+------+---------+-------+----+---+------+-+------+-+-----------+
//
//	32                     48                      64                 128
//	+----------------------+-----------------------+
//	| SGE                  | SGE                   |                     send
//	+----------------------+-----------------------+------------------+
//	| data, 32 or 80 bytes                                        | 0 |  send, inline
//	+----------------------+-----------------------+------------------+
//	| remote               | SGE                   |                     RDMA
//	+----------------------+-----------------------+------------------+
//	| remote               | data, 80 bytes                           |  write, inline
//	+----------------------+-----------------------+------------------+
type WQE struct {
	ReqID   uint64 // 16 bits, or 64 in a queue of such ids; echoed in the completion
	Op      WorkOp
	HasImm  bool
	Inline  bool
	Meta    bool // always 1
	Phase   bool // 0 on the first lap of the ring, toggles with each
	First   bool // always 1
	Last    bool // always 1
	CompReq bool // always 1: there is no request without a completion
	DestQPN uint16
	Length  uint16 // of inline data; otherwise the number of SGEs
	Imm     uint32 // if HasImm: the number, see Immediate
	AH      uint16
	Burst   bool // a hint: many small packets
	QKey    uint32

	Remote RemoteAddr      // RDMA
	SGE    [MaxSendSGE]SGE // RDMA has its local side in the first
	Data   []byte          // inline; Parse: part of the parsed bytes

	Reserved WQEReserved // Parse: parts that should be 0 and aren't
}

// Bits of the bytes 2 and 3.
const (
	ctrl1Op     = 0x0f
	ctrl1Imm    = 1 << 4
	ctrl1Inline = 1 << 5
	ctrl1Zero   = 1 << 6
	ctrl1Meta   = 1 << 7

	ctrl2Phase   = 1 << 0
	ctrl2First   = 1 << 2
	ctrl2Last    = 1 << 3
	ctrl2CompReq = 1 << 4
	ctrl2Zero    = 1<<1 | 7<<5

	ctrl3Burst = 1 << 0

	lkeyMask = 1<<24 - 1
)

func bit[T uint8 | uint32](set bool, b T) T {
	if set {
		return b
	}
	return 0
}

// Append adds the work request as size bytes, WQELen or WideWQELen. Data beyond
// what goes into that, SGEs beyond Length and ids beyond 64 bits are left out.
func (w *WQE) Append(b []byte, size int) []byte {
	at := len(b)
	b = le.AppendUint16(b, uint16(w.ReqID))
	b = append(b,
		uint8(w.Op)&ctrl1Op|bit[uint8](w.HasImm, ctrl1Imm)|bit[uint8](w.Inline, ctrl1Inline)|bit[uint8](w.Meta, ctrl1Meta),
		bit[uint8](w.Phase, ctrl2Phase)|bit[uint8](w.First, ctrl2First)|bit[uint8](w.Last, ctrl2Last)|bit[uint8](w.CompReq, ctrl2CompReq))
	b = le.AppendUint16(b, w.DestQPN)
	b = le.AppendUint16(b, w.Length)
	b = le.AppendUint32(b, bit(w.HasImm, w.Imm))
	b = le.AppendUint16(b, w.AH)
	b = append(b, bit[uint8](w.Burst, ctrl3Burst), 0)
	b = le.AppendUint32(b, w.QKey)
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint16(b, uint16(w.ReqID>>16))
	b = le.AppendUint32(b, uint32(w.ReqID>>32))
	if w.Op == WorkRead || w.Op == WorkWrite {
		b = le.AppendUint32(b, w.Remote.Length)
		b = le.AppendUint32(b, w.Remote.RKey)
		b = le.AppendUint64(b, w.Remote.Addr)
	}
	if w.Inline {
		b = append(b, w.Data[:min(len(w.Data), w.room(size))]...)
	} else {
		for i := range min(int(w.Length), w.sges()) {
			b = w.SGE[i].append(b)
		}
	}
	return append(b, zeroes[:max(size-(len(b)-at), 0)]...)
}

var zeroes [WideWQELen]byte

// room is how many bytes of inline data there may be, and sges how many SGEs.
func (w *WQE) room(size int) int {
	switch {
	case size >= WideWQELen:
		return MaxInlineWide
	case w.Op == WorkSend:
		return MaxInline
	}
	return 0
}

func (w *WQE) sges() int {
	if w.Op == WorkRead || w.Op == WorkWrite {
		return 1
	}
	return MaxSendSGE
}

func (s *SGE) append(b []byte) []byte {
	b = le.AppendUint32(b, s.Length)
	b = le.AppendUint32(b, s.LKey&lkeyMask)
	return le.AppendUint64(b, s.Addr)
}

// Parse reads the work request in b: WideWQELen bytes, or else WQELen. It checks no
// values: Op may be unknown, and Length more than there is room for.
func (w *WQE) Parse(b []byte) error {
	if err := need(b, WQELen); err != nil {
		return err
	}
	size := WQELen
	if len(b) >= WideWQELen {
		size = WideWQELen
	}
	b = b[:size]
	c1, c2, c3 := b[2], b[3], b[14]
	*w = WQE{
		ReqID: uint64(le.Uint16(b)) | uint64(le.Uint16(b[26:]))<<16 | uint64(le.Uint32(b[28:]))<<32,
		Op:    WorkOp(c1 & ctrl1Op), HasImm: c1&ctrl1Imm != 0, Inline: c1&ctrl1Inline != 0, Meta: c1&ctrl1Meta != 0,
		Phase: c2&ctrl2Phase != 0, First: c2&ctrl2First != 0, Last: c2&ctrl2Last != 0, CompReq: c2&ctrl2CompReq != 0,
		DestQPN: le.Uint16(b[4:]), Length: le.Uint16(b[6:]),
		AH: le.Uint16(b[12:]), Burst: c3&ctrl3Burst != 0, QKey: le.Uint32(b[16:]),
	}
	w.Reserved.set(c1&ctrl1Zero != 0, ReservedCtrl1)
	w.Reserved.set(c2&ctrl2Zero != 0, ReservedCtrl2)
	w.Reserved.set(c3&^ctrl3Burst != 0, ReservedCtrl3)
	w.Reserved.set(b[15] != 0 || !zero(b[20:26]), ReservedMeta)
	if imm := le.Uint32(b[8:]); w.HasImm {
		w.Imm = imm
	} else {
		w.Reserved.set(imm != 0, ReservedImm)
	}
	w.parseBody(b, size)
	return nil
}

// parseBody reads the body according to Op and Inline.
func (w *WQE) parseBody(b []byte, size int) {
	at := metaLen
	switch w.Op {
	case WorkSend:
	case WorkRead, WorkWrite:
		w.Remote = RemoteAddr{Length: le.Uint32(b[at:]), RKey: le.Uint32(b[at+4:]), Addr: le.Uint64(b[at+8:])}
		at = rdmaLocal
	default:
		return
	}
	if w.Inline {
		n := min(int(w.Length), w.room(size))
		w.Data = b[at : at+n : at+n]
		w.Reserved.set(!zero(b[at+n:]), ReservedBody)
		return
	}
	for i := range min(int(w.Length), w.sges()) {
		lkey := le.Uint32(b[at+4:])
		w.SGE[i] = SGE{Length: le.Uint32(b[at:]), LKey: lkey & lkeyMask, Addr: le.Uint64(b[at+8:])}
		w.Reserved.set(lkey&^lkeyMask != 0, ReservedLKey)
		at += sgeLen
	}
	w.Reserved.set(!zero(b[at:]), ReservedBody)
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// Immediate is the number in a WQE or CQE for immediate data n as libfabric means it, and the
// other way round. Verbs' immediate data is big-endian, and rdma-core turns it for the device;
// libfabric gives verbs its n as it is, so that for EFA n lies there the wrong way round. A
// driver that did not do so would show libfabric's peers other numbers than they sent.
func Immediate(n uint32) uint32 { return bits.ReverseBytes32(n) }

// WQEReserved is the set of parts of a WQE that are not 0 though they should be.
type WQEReserved uint8

// The parts.
const (
	ReservedCtrl1 WQEReserved = 1 << iota // byte 2
	ReservedCtrl2                         // byte 3
	ReservedCtrl3                         // byte 14, without the hint
	ReservedMeta                          // the bytes 15 and 20 to 25
	ReservedImm                           // immediate data of a request that has none
	ReservedLKey                          // of an SGE, above its 24 bits
	ReservedBody                          // what the body leaves unused
)

var reservedNames = [...]string{"ctrl1", "ctrl2", "ctrl3", "meta", "immediate", "lkey", "body"}

func (r *WQEReserved) set(on bool, part WQEReserved) {
	if on {
		*r |= part
	}
}

// String names the parts.
func (r WQEReserved) String() string {
	var names []string
	for i, name := range reservedNames {
		if r&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// RxDescLen is the size of a receive descriptor.
const RxDescLen = 16

// RxDesc is one buffer of a receive, in a ring in ordinary memory. A receive takes
// as many in a row as it has buffers, and counts as that many in the doorbell.
//
//	0         4         8       10       12                     16
//	+---------+---------+-------+--------+----------------------+
//	| addr_lo | addr_hi | reqid | length | lkey 24, first, last |
//	+---------+---------+-------+--------+----------------------+
type RxDesc struct {
	Addr   uint64
	ReqID  uint16 // of the first
	Length uint16
	LKey   uint32 // 24 bits
	First  bool
	Last   bool

	Reserved bool // Parse: the bits between are not 0
}

const (
	rxFirst    = 1 << 30
	rxLast     = 1 << 31
	rxReserved = 0x3f << 24
)

// Append adds the descriptor.
func (d *RxDesc) Append(b []byte) []byte {
	b = le.AppendUint64(b, d.Addr)
	b = le.AppendUint16(b, d.ReqID)
	b = le.AppendUint16(b, d.Length)
	return le.AppendUint32(b, d.LKey&lkeyMask|bit[uint32](d.First, rxFirst)|bit[uint32](d.Last, rxLast))
}

// Parse reads the descriptor at the start of b.
func (d *RxDesc) Parse(b []byte) error {
	if err := need(b, RxDescLen); err != nil {
		return err
	}
	ctrl := le.Uint32(b[12:])
	*d = RxDesc{
		Addr: le.Uint64(b), ReqID: le.Uint16(b[8:]), Length: le.Uint16(b[10:]),
		LKey: ctrl & lkeyMask, First: ctrl&rxFirst != 0, Last: ctrl&rxLast != 0,
		Reserved: ctrl&rxReserved != 0,
	}
	return nil
}

// Doorbells are words of 32 bits, each written with one store.

// WorkDoorbell is the doorbell of a send or receive queue: all entries below the
// free-running count pc are valid. A send queue counts WQEs, a receive queue
// descriptors.
func WorkDoorbell(pc uint16) uint32 { return uint32(pc) }

// ParseWorkDoorbell returns the count; reserved reports whether the other bits are not
// 0.
func ParseWorkDoorbell(w uint32) (pc uint16, reserved bool) { return uint16(w), w>>16 != 0 }

// CQDoorbell is the doorbell of a completion queue.
type CQDoorbell struct {
	Consumed uint16 // free-running count of completions, of all sub-queues together
	CmdSN    uint8  // two bits; counts the events that were read
	Arm      bool   // asks for one event

	Reserved bool // the bits between are not 0
}

const (
	cqCmdSNShift = 29
	cqArm        = 1 << 31
	cqReserved   = 0x1fff << 16
)

// Word is the doorbell as it is written.
func (d CQDoorbell) Word() uint32 {
	return uint32(d.Consumed) | uint32(d.CmdSN&3)<<cqCmdSNShift | bit[uint32](d.Arm, cqArm)
}

// ParseCQDoorbell reads a word.
func ParseCQDoorbell(w uint32) CQDoorbell {
	return CQDoorbell{
		Consumed: uint16(w), CmdSN: uint8(w >> cqCmdSNShift & 3), Arm: w&cqArm != 0,
		Reserved: w&cqReserved != 0,
	}
}
