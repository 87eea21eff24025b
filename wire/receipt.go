package wire

// ReceiptLen is the size of a RECEIPT packet.
const ReceiptLen = 16

// Receipt tells the sender of a DC packet that its data was delivered (§4.2, a
// table without a number).
//
//	0      4       8        12         16
//	+------+-------+--------+----------+
//	| base | tx_id | msg_id | multiuse |
//	+------+-------+--------+----------+
//
// Divergence: the specification calls tx_id send_id, libfabric tx_id. MsgID is
// the message's for DC RTMs alone: for DC_EAGER_RTW, DC_LONGCTS_RTW and
// DC_WRITE_RTA it has no meaning and is 0. Receivers go by TxID only.
type Receipt struct {
	TxID      uint32 // the DC packet's send_id
	MsgID     uint32
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
}

// Type is RECEIPT.
func (p *Receipt) Type() Type { return TypeReceipt }

// Len is the number of bytes that Append adds.
func (p *Receipt) Len() int { return ReceiptLen }

// Append adds the packet to b.
func (p *Receipt) Append(b []byte) []byte {
	b = appendBase(b, TypeReceipt, connIDFlag(p.HasConnID))
	b = le.AppendUint32(b, p.TxID)
	b = le.AppendUint32(b, p.MsgID)
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Parse reads the packet at the start of b.
func (p *Receipt) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *Receipt) Read(v *View) (n int, err error) {
	if n, err = v.header(famReceipt); err != nil {
		return 0, err
	}
	b := v.b
	*p = Receipt{
		TxID:      le.Uint32(b[4:]),
		MsgID:     le.Uint32(b[8:]),
		HasConnID: v.hasConnID,
		ConnID:    v.connID,
	}
	return n, nil
}

func (p *Receipt) fields(l *line) {
	l.uint("tx_id", uint64(p.TxID))
	l.uint("msg_id", uint64(p.MsgID))
	l.connID(p.HasConnID, p.ConnID)
}
