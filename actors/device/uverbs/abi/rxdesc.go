package abi

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
