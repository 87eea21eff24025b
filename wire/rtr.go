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

// Len is the number of bytes that Append adds.
func (p *RTR) Len() int { return reqLen(p.Type(), &p.Options, p.RMAIOVCount) }

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

// Parse reads the packet at the start of b.
func (p *RTR) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
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

func (p *RTR) fields(l *line) {
	l.uint("msg_length", p.MsgLength)
	l.uint("recv_id", uint64(p.RecvID))
	l.uint("recv_length", uint64(p.RecvLength))
	l.iov("rma_iov", p.RMAIOV[:p.RMAIOVCount])
	p.Options.fields(l)
}
