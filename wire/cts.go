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

// Len is the number of bytes that Append adds.
func (p *CTS) Len() int { return CTSLen }

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

// Parse reads the packet at the start of b.
func (p *CTS) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
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

func (p *CTS) fields(l *line) {
	l.uint("send_id", uint64(p.SendID))
	l.uint("recv_id", uint64(p.RecvID))
	l.uint("recv_length", p.RecvLength)
	if p.EmulatedRead {
		l.word("emulated_read")
	}
	l.connID(p.HasConnID, p.ConnID)
}
