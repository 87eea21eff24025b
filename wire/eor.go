package wire

// Sizes of an EOR packet.
const (
	EORLen      = 16
	EORShortLen = 12 // release 1.13 and older: no multiuse word
)

// EOR is an End Of Read packet (§4.1, Table 4.2): the receiver has read the
// sender's buffer.
//
//	0      4         8         12         16
//	+------+---------+---------+----------+
//	| base | send_id | recv_id | multiuse |
//	+------+---------+---------+----------+
//
// Divergence: release 1.13 and older send 12 bytes, without the multiuse word.
// Read accepts them if FlagConnID isn't set; Append writes them if Short is.
type EOR struct {
	SendID    uint32 // from the LONGREAD or RUNTREAD packet
	RecvID    uint32
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
	Short     bool   // 12 bytes, as until 1.13: there is no place for the connid
}

// Type is EOR.
func (p *EOR) Type() Type { return TypeEOR }

// Append adds the packet to b.
func (p *EOR) Append(b []byte) []byte {
	b = appendBase(b, TypeEOR, connIDFlag(p.HasConnID && !p.Short))
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.RecvID)
	if p.Short {
		return b
	}
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *EOR) Read(v *View) (n int, err error) {
	if n, err = v.header(famEOR); err != nil {
		return 0, err
	}
	b := v.b
	q := EOR{SendID: le.Uint32(b[4:]), RecvID: le.Uint32(b[8:])}
	switch {
	case len(b) >= EORLen:
		q.ConnID, q.HasConnID = v.connID, v.hasConnID
		n = EORLen
	case v.Flags&FlagConnID != 0:
		return 0, fail(TypeEOR, connIDShort)
	default:
		q.Short = true
	}
	*p = q
	return n, nil
}

// ReadNACKLen is the size of a READ_NACK packet.
const ReadNACKLen = 16

// ReadNACK refuses an RDMA read (§4.7, Table 4.2, the second of that number):
// the receiver of a LONGREAD or RUNTREAD packet can't register its buffer, and
// the sender goes on with the long-CTS subprotocol.
//
//	0      4         8         12         16
//	+------+---------+---------+----------+
//	| base | send_id | recv_id | multiuse |
//	+------+---------+---------+----------+
type ReadNACK struct {
	SendID    uint32 // from the LONGREAD or RUNTREAD packet
	RecvID    uint32
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
}

// Type is READ_NACK.
func (p *ReadNACK) Type() Type { return TypeReadNACK }

// Append adds the packet to b.
func (p *ReadNACK) Append(b []byte) []byte {
	b = appendBase(b, TypeReadNACK, connIDFlag(p.HasConnID))
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.RecvID)
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *ReadNACK) Read(v *View) (n int, err error) {
	if n, err = v.header(famReadNACK); err != nil {
		return 0, err
	}
	b := v.b
	*p = ReadNACK{
		SendID:    le.Uint32(b[4:]),
		RecvID:    le.Uint32(b[8:]),
		HasConnID: v.hasConnID,
		ConnID:    v.connID,
	}
	return n, nil
}

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

// Append adds the packet to b.
func (p *Receipt) Append(b []byte) []byte {
	b = appendBase(b, TypeReceipt, connIDFlag(p.HasConnID))
	b = le.AppendUint32(b, p.TxID)
	b = le.AppendUint32(b, p.MsgID)
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Read reads the headers of the packet that v has opened, and returns their length.
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
