package wire

// LongCTSRTWLen is the size of LONGCTS_RTW's and DC_LONGCTS_RTW's mandatory
// header without rma_iov.
const LongCTSRTWLen = 24

// LongCTSRTW asks for an emulated long-CTS write: LONGCTS_RTW (§3.3, Table 3.9),
// or with DC DC_LONGCTS_RTW (§4.2), which has the same layout.
//
//	0      4               8                16        20               24
//	+------+---------------+----------------+---------+----------------+-----------+
//	| base | rma_iov_count | msg_length u64 | send_id | credit_request | rma_iov[] |
//	+------+---------------+----------------+---------+----------------+-----------+
//
// The optional headers and the first bytes of the data follow.
type LongCTSRTW struct {
	Options

	RMAIOVCount   uint32 // at most MaxIOV
	RMAIOV        [MaxIOV]RMAIOV
	MsgLength     uint64
	SendID        uint32 // echoed in CTS
	CreditRequest uint32 // CTSDATA packets that the requester would like to send
	DC            bool
}

// Type is LONGCTS_RTW or DC_LONGCTS_RTW.
func (p *LongCTSRTW) Type() Type {
	if p.DC {
		return TypeDCLongCTSRTW
	}
	return TypeLongCTSRTW
}

// Len is the number of bytes that Append adds.
func (p *LongCTSRTW) Len() int { return reqLen(p.Type(), &p.Options, p.RMAIOVCount) }

// Append adds the headers to b.
//
// Preconditions: RMAIOVCount <= MaxIOV.
func (p *LongCTSRTW) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.flags(0))
	b = le.AppendUint32(b, p.RMAIOVCount)
	b = le.AppendUint64(b, p.MsgLength)
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.CreditRequest)
	b = appendIOV(b, &p.RMAIOV, p.RMAIOVCount)
	return p.appendOptions(b)
}

// Parse reads the headers at the start of b; the data is b[n:].
func (p *LongCTSRTW) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *LongCTSRTW) Read(v *View) (n int, err error) {
	if n, err = v.header(famLongCTSRTW); err != nil {
		return 0, err
	}
	b := v.b
	q := LongCTSRTW{
		RMAIOVCount:   uint32(v.iovCount),
		MsgLength:     le.Uint64(b[8:]),
		SendID:        le.Uint32(b[16:]),
		CreditRequest: le.Uint32(b[20:]),
		DC:            v.Type.IsDC(),
	}
	v.rmaIOV(&q.RMAIOV)
	v.options(&q.Options)
	*p = q
	return n, nil
}

func (p *LongCTSRTW) fields(l *line) {
	l.uint("msg_length", p.MsgLength)
	l.uint("send_id", uint64(p.SendID))
	l.uint("credit_request", uint64(p.CreditRequest))
	l.iov("rma_iov", p.RMAIOV[:p.RMAIOVCount])
	p.Options.fields(l)
}
