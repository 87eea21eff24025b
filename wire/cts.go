package wire

// CTSLen is the size of a CTS packet.
const CTSLen = 24

// CTS is a Clear To Send packet (§3.2, Table 3.6): the receiver of a long-CTS
// transfer grants its sender RecvLength more bytes, which is never 0.
//
//	0      4          8         12        16                24
//	+------+----------+---------+---------+-----------------+
//	| base | multiuse | send_id | recv_id | recv_length u64 |
//	+------+----------+---------+---------+-----------------+
//
// A CTS for an emulated read, where the responder is the sender, must have
// EmulatedRead set: releases 1.10 to 1.15 look send_id up elsewhere then.
type CTS struct {
	EmulatedRead bool // CTS_EMULATED_READ (§3.2), C: EFA_RDM_CTS_READ_REQ
	HasConnID    bool
	ConnID       uint32 // multiuse, if HasConnID
	SendID       uint32 // from the LONGCTS RTM or RTW, or from READRSP
	RecvID       uint32 // to be echoed in CTSDATA
	RecvLength   uint64 // bytes, not packets
}

// Type is CTS.
func (p *CTS) Type() Type { return TypeCTS }

// Append adds the packet to b.
func (p *CTS) Append(b []byte) []byte {
	flags := connIDFlag(p.HasConnID)
	if p.EmulatedRead {
		flags |= FlagCTSEmulatedRead
	}
	b = appendBase(b, TypeCTS, flags)
	b = appendConnID(b, p.HasConnID, p.ConnID)
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.RecvID)
	return le.AppendUint64(b, p.RecvLength)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *CTS) Read(v *View) (n int, err error) {
	if n, err = v.header(famCTS); err != nil {
		return 0, err
	}
	b := v.b
	*p = CTS{
		EmulatedRead: v.Flags&FlagCTSEmulatedRead != 0,
		HasConnID:    v.hasConnID,
		ConnID:       v.connID,
		SendID:       le.Uint32(b[8:]),
		RecvID:       le.Uint32(b[12:]),
		RecvLength:   le.Uint64(b[16:]),
	}
	return n, nil
}

// Sizes of CTSDATA's header.
const (
	CTSDataLen       = 24 // without the connid
	CTSDataConnIDLen = 32 // with the connid and its padding
)

// CTSData carries bytes of a long-CTS transfer that a CTS granted (§3.2, Table
// 3.7).
//
//	0      4         8                16               24       28    32
//	+------+---------+----------------+----------------+--------+-----+
//	| base | recv_id | seg_length u64 | seg_offset u64 | connid | pad |
//	+------+---------+----------------+----------------+--------+-----+
//
// The data follows. connid and pad are there with FlagConnID only, which a
// sender sets if the peer's HANDSHAKE asked for it: an older peer would take
// them for data. libfabric doesn't initialise the padding.
//
// Table 3.7 calls seg_offset the offset of the data in the packet. It is the
// offset in the whole message.
type CTSData struct {
	RecvID    uint32 // from CTS, or from the RTR of an emulated read
	SegLength uint64 // bytes of data in this packet
	SegOffset uint64
	HasConnID bool
	ConnID    uint32 // if HasConnID
}

// Type is CTSDATA.
func (p *CTSData) Type() Type { return TypeCTSData }

// Append adds the header to b.
func (p *CTSData) Append(b []byte) []byte {
	b = appendBase(b, TypeCTSData, connIDFlag(p.HasConnID))
	b = le.AppendUint32(b, p.RecvID)
	b = le.AppendUint64(b, p.SegLength)
	b = le.AppendUint64(b, p.SegOffset)
	if p.HasConnID {
		b = le.AppendUint32(b, p.ConnID)
		b = append(b, 0, 0, 0, 0)
	}
	return b
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *CTSData) Read(v *View) (n int, err error) {
	if n, err = v.header(famCTSData); err != nil {
		return 0, err
	}
	b := v.b
	q := CTSData{
		RecvID:    le.Uint32(b[4:]),
		SegLength: le.Uint64(b[8:]),
		SegOffset: le.Uint64(b[16:]),
	}
	if v.Flags&FlagConnID != 0 {
		if len(b) < CTSDataConnIDLen {
			return 0, fail(TypeCTSData, connIDShort)
		}
		q.ConnID, q.HasConnID = v.connID, true
		n = CTSDataConnIDLen
	}
	*p = q
	return n, nil
}
