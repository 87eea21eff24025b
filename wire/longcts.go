package wire

// Sizes of the long-CTS RTMs' mandatory headers, plain and DC alike.
const (
	LongCTSMsgRTMLen = 24
	LongCTSTagRTMLen = 32
)

// LongCTSRTM asks for a long-CTS transfer: LONGCTS_MSGRTM or LONGCTS_TAGRTM
// (§3.2, Table 3.5), or with DC one of their delivery complete variants (§4.2),
// which have the same layout.
//
//	0      4        8                16        20               24        32
//	+------+--------+----------------+---------+----------------+---------+
//	| base | msg_id | msg_length u64 | send_id | credit_request | tag u64 |
//	+------+--------+----------------+---------+----------------+---------+
//
// The optional headers and the first bytes of the message follow. The tag is
// there if Tagged.
//
// Divergence: with FlagReadNACK, which Table 3.1 lacks, the packet takes the
// place of a long-read or runting read message that the receiver refused
// (§4.7). It then repeats that message's msg_id and carries no data.
type LongCTSRTM struct {
	Options

	MsgID         uint32
	MsgLength     uint64 // of the whole message
	SendID        uint32 // echoed in CTS
	CreditRequest uint32 // CTSDATA packets that the sender would like to send
	Tagged        bool
	Tag           uint64 // if Tagged
	DC            bool
	ReadNACK      bool
}

// Type is LONGCTS_MSGRTM, LONGCTS_TAGRTM, DC_LONGCTS_MSGRTM or
// DC_LONGCTS_TAGRTM.
func (p *LongCTSRTM) Type() Type {
	return rtmType(TypeLongCTSMsgRTM, TypeDCLongCTSMsgRTM, p.DC, p.Tagged)
}

// Append adds the headers to b.
func (p *LongCTSRTM) Append(b []byte) []byte {
	flags := p.rtmFlags(p.Tagged)
	if p.ReadNACK {
		flags |= FlagReadNACK
	}
	b = appendBase(b, p.Type(), flags)
	b = le.AppendUint32(b, p.MsgID)
	b = le.AppendUint64(b, p.MsgLength)
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.CreditRequest)
	if p.Tagged {
		b = le.AppendUint64(b, p.Tag)
	}
	return p.appendOptions(b)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *LongCTSRTM) Read(v *View) (n int, err error) {
	if n, err = v.header(famLongCTSRTM); err != nil {
		return 0, err
	}
	b := v.b
	q := LongCTSRTM{
		MsgID:         le.Uint32(b[4:]),
		MsgLength:     le.Uint64(b[8:]),
		SendID:        le.Uint32(b[16:]),
		CreditRequest: le.Uint32(b[20:]),
		Tagged:        v.Type.IsTagged(),
		DC:            v.Type.IsDC(),
		ReadNACK:      v.Flags&FlagReadNACK != 0,
	}
	if q.Tagged {
		q.Tag = v.tag()
	}
	v.options(&q.Options)
	*p = q
	return n, nil
}

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

// Read reads the headers of the packet that v has opened, and returns their length.
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
