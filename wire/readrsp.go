package wire

// READRSPLen is the size of READRSP's header.
const READRSPLen = 24

// READRSP is a READ ReSPonse (§3.3, Table 3.11): the first data of an emulated
// read, from offset 0.
//
//	0      4          8         12        16               24
//	+------+----------+---------+---------+----------------+
//	| base | multiuse | recv_id | send_id | seg_length u64 |
//	+------+----------+---------+---------+----------------+
//
// The data follows.
//
// Divergence: Table 3.11 has send_id before recv_id and calls seg_length
// recv_length. Every release since 1.10 sends the ids as drawn.
type READRSP struct {
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
	RecvID    uint32 // the requester's, from the RTR
	SendID    uint32 // the responder's, for CTS
	SegLength uint64 // bytes of data in this packet
}

// Type is READRSP.
func (p *READRSP) Type() Type { return TypeREADRSP }

// Len is the number of bytes that Append adds.
func (p *READRSP) Len() int { return READRSPLen }

// Append adds the header to b.
func (p *READRSP) Append(b []byte) []byte {
	b = appendBase(b, TypeREADRSP, connIDFlag(p.HasConnID))
	b = appendConnID(b, p.HasConnID, p.ConnID)
	b = le.AppendUint32(b, p.RecvID)
	b = le.AppendUint32(b, p.SendID)
	return le.AppendUint64(b, p.SegLength)
}

// Parse reads the header at the start of b. It doesn't compare SegLength with
// what follows: Payload does.
func (p *READRSP) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *READRSP) Read(v *View) (n int, err error) {
	if n, err = v.header(famREADRSP); err != nil {
		return 0, err
	}
	b := v.b
	*p = READRSP{
		HasConnID: v.hasConnID,
		ConnID:    v.connID,
		RecvID:    le.Uint32(b[8:]),
		SendID:    le.Uint32(b[12:]),
		SegLength: le.Uint64(b[16:]),
	}
	return n, nil
}

// Payload returns the SegLength bytes of data, body being what follows the header
// in the datagram. It fails with ErrLength if body is shorter.
func (p *READRSP) Payload(body []byte) ([]byte, error) {
	return payload(TypeREADRSP, body, p.SegLength)
}

func (p *READRSP) fields(l *line) {
	l.uint("recv_id", uint64(p.RecvID))
	l.uint("send_id", uint64(p.SendID))
	l.uint("seg_length", p.SegLength)
	l.connID(p.HasConnID, p.ConnID)
}
