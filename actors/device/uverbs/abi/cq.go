package abi

// CompEventLen is the size of an event of a completion channel: the user handle of
// its CQ, a u64. A shorter read fails.
const CompEventLen = 8

// Types of an AsyncEvent.
const (
	EventCQError     = 0
	EventQPFatal     = 1
	EventSQDrained   = 5
	EventDeviceFatal = 8
	EventPortActive  = 9
	EventPortError   = 10
)

// AsyncEventLen is the size of an AsyncEvent.
const AsyncEventLen = 16

// AsyncEvent is an event of the descriptor of AsyncEventAlloc.
type AsyncEvent struct {
	Element  uint64 // user handle of the CQ or QP, or the port
	Type     uint32
	Reserved uint32
}

// Append adds e to b.
func (e *AsyncEvent) Append(b []byte) []byte {
	b = le.AppendUint64(b, e.Element)
	b = le.AppendUint32(b, e.Type)
	return le.AppendUint32(b, e.Reserved)
}

// Parse reads e.
func (e *AsyncEvent) Parse(b []byte) error {
	if err := need(b, AsyncEventLen); err != nil {
		return err
	}
	*e = AsyncEvent{Element: le.Uint64(b), Type: le.Uint32(b[8:]), Reserved: le.Uint32(b[12:])}
	return nil
}

// Flags of a CreateCQ.
const (
	CQChannel = 1 << 0 // events go to the channel of CreateCQChannel
	CQSGID    = 1 << 1 // shows the GID of an unknown sender; takes entries of 32 bytes
	CQWideIDs = 1 << 2 // newer than 6.1
)

// CreateCQLen is the size of a CreateCQ.
const CreateCQLen = 16

// CreateCQ is the driver's input of CQCreate.
//
//	0           4            8        10      11         16
//	+-----------+------------+--------+-------+----------+
//	| comp_mask | entry_size | subcqs | flags | reserved |
//	+-----------+------------+--------+-------+----------+
type CreateCQ struct {
	CompMask  uint32
	EntrySize uint32 // 16 or 32
	SubCQs    uint16 // ContextResp.SubCQs
	Flags     uint8
	Reserved  [5]byte
}

// Append adds c to b.
func (c *CreateCQ) Append(b []byte) []byte {
	b = le.AppendUint32(b, c.CompMask)
	b = le.AppendUint32(b, c.EntrySize)
	b = le.AppendUint16(b, c.SubCQs)
	b = append(b, c.Flags)
	return append(b, c.Reserved[:]...)
}

// Parse reads c.
func (c *CreateCQ) Parse(b []byte) error {
	if err := need(b, CreateCQLen); err != nil {
		return err
	}
	*c = CreateCQ{
		CompMask:  le.Uint32(b),
		EntrySize: le.Uint32(b[4:]),
		SubCQs:    le.Uint16(b[8:]),
		Flags:     b[10],
		Reserved:  [5]byte(b[11:16]),
	}
	return nil
}

// CQHasDoorbell is a bit of CreateCQResp.CompMask: DoorbellOff and DoorbellKey are
// valid.
const CQHasDoorbell = 1 << 0

// CreateCQRespLen is the size of a CreateCQResp.
const CreateCQRespLen = 40

// CreateCQResp is the driver's output of CQCreate. Keys are what mmap takes for the
// offset; 0 is one.
//
//	0           4          8       16       24      26         28       32       40
//	+-----------+----------+-------+--------+-------+----------+--------+--------+
//	| comp_mask | reserved | q_key | q_size | index | reserved | db_off | db_key |
//	+-----------+----------+-------+--------+-------+----------+--------+--------+
type CreateCQResp struct {
	CompMask    uint32
	Reserved1   uint32
	Key         uint64 // of the rings
	Size        uint64 // bytes, whole pages
	Index       uint16
	Reserved2   uint16
	DoorbellOff uint32 // in its page
	DoorbellKey uint64 // of one page
}

// Append adds r to b.
func (r *CreateCQResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.CompMask)
	b = le.AppendUint32(b, r.Reserved1)
	b = le.AppendUint64(b, r.Key)
	b = le.AppendUint64(b, r.Size)
	b = le.AppendUint16(b, r.Index)
	b = le.AppendUint16(b, r.Reserved2)
	b = le.AppendUint32(b, r.DoorbellOff)
	return le.AppendUint64(b, r.DoorbellKey)
}

// Parse reads r.
func (r *CreateCQResp) Parse(b []byte) error {
	if err := need(b, CreateCQRespLen); err != nil {
		return err
	}
	*r = CreateCQResp{
		CompMask:    le.Uint32(b),
		Reserved1:   le.Uint32(b[4:]),
		Key:         le.Uint64(b[8:]),
		Size:        le.Uint64(b[16:]),
		Index:       le.Uint16(b[24:]),
		Reserved2:   le.Uint16(b[26:]),
		DoorbellOff: le.Uint32(b[28:]),
		DoorbellKey: le.Uint64(b[32:]),
	}
	return nil
}

// DestroyCQRespLen is the size of a DestroyCQResp.
const DestroyCQRespLen = 8

// DestroyCQResp is the output of CQDestroy: how many events the program has read.
type DestroyCQResp struct{ CompEvents, AsyncEvents uint32 }

// Append adds r to b.
func (r *DestroyCQResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.CompEvents)
	return le.AppendUint32(b, r.AsyncEvents)
}

// Parse reads r.
func (r *DestroyCQResp) Parse(b []byte) error {
	if err := need(b, DestroyCQRespLen); err != nil {
		return err
	}
	*r = DestroyCQResp{CompEvents: le.Uint32(b), AsyncEvents: le.Uint32(b[4:])}
	return nil
}

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
