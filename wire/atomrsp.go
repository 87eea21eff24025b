package wire

// ATOMRSPLen is the size of ATOMRSP's header.
const ATOMRSPLen = 24

// ATOMRSP is an ATOMic ReSPonse (§3.3, Table 3.15): the values that a FETCH_RTA
// or COMPARE_RTA found.
//
//	0      4          8          12        16               24
//	+------+----------+----------+---------+----------------+
//	| base | multiuse | reserved | recv_id | seg_length u64 |
//	+------+----------+----------+---------+----------------+
//
// The data follows. libfabric doesn't initialise reserved.
type ATOMRSP struct {
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
	RecvID    uint32 // the requester's, from the RTA
	SegLength uint64 // bytes of data in this packet
}

// Type is ATOMRSP.
func (p *ATOMRSP) Type() Type { return TypeATOMRSP }

// Len is the number of bytes that Append adds.
func (p *ATOMRSP) Len() int { return ATOMRSPLen }

// Append adds the header to b.
func (p *ATOMRSP) Append(b []byte) []byte {
	b = appendBase(b, TypeATOMRSP, connIDFlag(p.HasConnID))
	b = appendConnID(b, p.HasConnID, p.ConnID)
	b = append(b, 0, 0, 0, 0)
	b = le.AppendUint32(b, p.RecvID)
	return le.AppendUint64(b, p.SegLength)
}

// Parse reads the header at the start of b. It doesn't compare SegLength with
// what follows: Payload does.
func (p *ATOMRSP) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *ATOMRSP) Read(v *View) (n int, err error) {
	if n, err = v.header(famATOMRSP); err != nil {
		return 0, err
	}
	b := v.b
	*p = ATOMRSP{
		HasConnID: v.hasConnID,
		ConnID:    v.connID,
		RecvID:    le.Uint32(b[12:]),
		SegLength: le.Uint64(b[16:]),
	}
	return n, nil
}

// Payload returns the SegLength bytes of data, body being what follows the header
// in the datagram. It fails with ErrLength if body is shorter.
func (p *ATOMRSP) Payload(body []byte) ([]byte, error) {
	return payload(TypeATOMRSP, body, p.SegLength)
}

func (p *ATOMRSP) fields(l *line) {
	l.uint("recv_id", uint64(p.RecvID))
	l.uint("seg_length", p.SegLength)
	l.connID(p.HasConnID, p.ConnID)
}
