package abi

// Sizes of the entries of a completion queue.
const (
	CQELen     = 16
	WideCQELen = 32 // with the GID of an unknown sender, or lengths above 65535
)

// UnknownAH is the address handle of a sender that has none.
const UnknownAH = 0xffff

// QueueType is the queue of a queue pair that a completion belongs to.
type QueueType uint8

// The queues.
const (
	SendQueue QueueType = 1
	RecvQueue QueueType = 2
)

// CQE is a completion. An entry is new when its phase is the one expected, which is
// 1 on the first lap and toggles with each: so [CQEWord] is read first and
// written last, at once.
//
//	0       2        3       4     6       8       10      12    16          32
//	+-------+--------+-------+-----+-------+-------+-------+-----+-----------+
//	| reqid | status | flags | qpn | reqid 16 to 63, or any| 0   | 0         | send
//	+-------+--------+-------+-----+-------+-------+-------+-----+-----------+
//	| reqid | status | flags | qpn | length| ah    |src_qpn| imm | GID, or.. | receive
//	+-------+--------+-------+-----+-------+-------+-------+-----+-----------+
//
// The GID is there if AH is UnknownAH, the queue was asked for it and it is no
// write: that has the bits 16 to 31 of its length there.
type CQE struct {
	ReqID  uint64 // of sends 64 bits, of which the upper 48 mean something only in a queue made for such ids
	Status uint8
	Phase  bool
	Queue  QueueType
	Op     WorkOp // older devices leave it 0
	QPN    uint16 // of this side

	// Receives.
	HasImm      bool
	Unsolicited bool // a write with immediate that has taken no receive
	Length      uint32
	AH          uint16
	SrcQPN      uint16
	Imm         uint32   // the number, see Immediate
	GID         [16]byte // of the sender
}

// Bits of the flags.
const (
	cqePhase       = 1 << 0
	cqeQueueShift  = 1
	cqeImm         = 1 << 3
	cqeOpShift     = 4
	cqeUnsolicited = 1 << 7
)

// CQEWord is the first four bytes of an entry as a number.
type CQEWord uint32

// Phase is the entry's.
func (w CQEWord) Phase() bool { return w>>24&cqePhase != 0 }

// Append adds the completion as size bytes, CQELen or WideCQELen.
func (c *CQE) Append(b []byte, size int) []byte {
	b = le.AppendUint16(b, uint16(c.ReqID))
	flags := bit[uint8](c.Phase, cqePhase) | uint8(c.Queue)&3<<cqeQueueShift | uint8(c.Op)&7<<cqeOpShift
	if c.Queue == RecvQueue {
		flags |= bit[uint8](c.HasImm, cqeImm) | bit[uint8](c.Unsolicited, cqeUnsolicited)
	}
	b = append(b, c.Status, flags)
	b = le.AppendUint16(b, c.QPN)
	if c.Queue != RecvQueue {
		b = le.AppendUint16(b, uint16(c.ReqID>>16))
		b = le.AppendUint32(b, uint32(c.ReqID>>32))
		return append(b, zeroes[:size-12]...)
	}
	b = le.AppendUint16(b, uint16(c.Length))
	b = le.AppendUint16(b, c.AH)
	b = le.AppendUint16(b, c.SrcQPN)
	b = le.AppendUint32(b, c.Imm)
	switch {
	case size < WideCQELen:
		return b
	case c.Op == WorkWrite:
		b = le.AppendUint16(b, uint16(c.Length>>16))
		return append(b, zeroes[:14]...)
	}
	return append(b, c.GID[:]...)
}

// Parse reads the completion that b is: WideCQELen bytes, or else CQELen.
func (c *CQE) Parse(b []byte) error {
	if err := need(b, CQELen); err != nil {
		return err
	}
	flags := b[3]
	*c = CQE{
		ReqID: uint64(le.Uint16(b)), Status: b[2],
		Phase: flags&cqePhase != 0, Queue: QueueType(flags >> cqeQueueShift & 3), Op: WorkOp(flags >> cqeOpShift & 7),
		QPN: le.Uint16(b[4:]),
	}
	if c.Queue != RecvQueue {
		c.ReqID |= uint64(le.Uint16(b[6:]))<<16 | uint64(le.Uint32(b[8:]))<<32
		return nil
	}
	c.HasImm, c.Unsolicited = flags&cqeImm != 0, flags&cqeUnsolicited != 0
	c.Length, c.AH, c.SrcQPN, c.Imm = uint32(le.Uint16(b[6:])), le.Uint16(b[8:]), le.Uint16(b[10:]), le.Uint32(b[12:])
	switch {
	case len(b) < WideCQELen:
	case c.Op == WorkWrite:
		c.Length |= uint32(le.Uint16(b[16:])) << 16
	default:
		copy(c.GID[:], b[16:])
	}
	return nil
}
