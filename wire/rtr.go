package wire

// RTRLen is the size of SHORT_RTR's and LONGCTS_RTR's mandatory header without
// rma_iov.
const RTRLen = 24

// RTR asks for an emulated read: SHORT_RTR (§3.3, Table 3.10), or with LongCTS
// LONGCTS_RTR (§3.3, Table 3.12).
//
//	0      4               8                16        20            24
//	+------+---------------+----------------+---------+-------------+-----------+
//	| base | rma_iov_count | msg_length u64 | recv_id | recv_length | rma_iov[] |
//	+------+---------------+----------------+---------+-------------+-----------+
//
// The optional headers follow; there is no data. The responder answers with a
// READRSP, and after a LONGCTS_RTR goes on with CTSDATA up to recv_length, the
// READRSP's bytes counted in, and beyond on CTS.
//
// Divergence: Table 3.10 has padding in the place of recv_length. All releases
// put the total length there in a SHORT_RTR, and ignore it.
type RTR struct {
	Options

	RMAIOVCount uint32 // at most MaxIOV
	RMAIOV      [MaxIOV]RMAIOV
	MsgLength   uint64
	RecvID      uint32 // echoed in READRSP and CTSDATA
	RecvLength  uint32 // bytes that the requester is ready to receive
	LongCTS     bool
}

// Type is SHORT_RTR or LONGCTS_RTR.
func (p *RTR) Type() Type {
	if p.LongCTS {
		return TypeLongCTSRTR
	}
	return TypeShortRTR
}

// Append adds the packet, which is all header, to b.
//
// Preconditions: RMAIOVCount <= MaxIOV.
func (p *RTR) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.flags(0))
	b = le.AppendUint32(b, p.RMAIOVCount)
	b = le.AppendUint64(b, p.MsgLength)
	b = le.AppendUint32(b, p.RecvID)
	b = le.AppendUint32(b, p.RecvLength)
	b = appendIOV(b, &p.RMAIOV, p.RMAIOVCount)
	return p.appendOptions(b)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *RTR) Read(v *View) (n int, err error) {
	if n, err = v.header(famRTR); err != nil {
		return 0, err
	}
	b := v.b
	q := RTR{
		RMAIOVCount: uint32(v.iovCount),
		MsgLength:   le.Uint64(b[8:]),
		RecvID:      le.Uint32(b[16:]),
		RecvLength:  le.Uint32(b[20:]),
		LongCTS:     v.Type == TypeLongCTSRTR,
	}
	v.rmaIOV(&q.RMAIOV)
	v.options(&q.Options)
	*p = q
	return n, nil
}

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

// Append adds the header to b.
func (p *READRSP) Append(b []byte) []byte {
	b = appendBase(b, TypeREADRSP, connIDFlag(p.HasConnID))
	b = appendConnID(b, p.HasConnID, p.ConnID)
	b = le.AppendUint32(b, p.RecvID)
	b = le.AppendUint32(b, p.SendID)
	return le.AppendUint64(b, p.SegLength)
}

// Read reads the headers of the packet that v has opened, and returns their length.
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
