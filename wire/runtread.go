package wire

// Sizes of the runting read RTMs' mandatory headers.
const (
	RuntReadMsgRTMLen = 40
	RuntReadTagRTMLen = 48
)

// RuntReadRTM is one packet of a runting read message: RUNTREAD_MSGRTM or
// RUNTREAD_TAGRTM (§4.5, Table 4.4).
//
//	0      4        8                16        20               24
//	+------+--------+----------------+---------+----------------+
//	| base | msg_id | msg_length u64 | send_id | read_iov_count |
//	+------+--------+-------+--------+---------+------+---------+
//	| seg_offset u64        | runt_length u64         | tag u64 |
//	+-----------------------+-------------------------+---------+
//	24                      32                        40        48
//
// The optional headers, read_iov and this packet's data follow. Every packet of
// the message repeats read_iov, which describes the whole send buffer; the
// receiver reads bytes runt_length to msg_length of it. The tag is there if
// Tagged.
//
// Divergence: Table 4.4 calls runt_length the length of the application data. It
// is the total that travels in all RUNTREAD packets of the message; this
// packet's own share is what the datagram holds.
type RuntReadRTM struct {
	Options

	MsgID        uint32
	MsgLength    uint64
	SendID       uint32 // echoed in EOR and READ_NACK
	ReadIOVCount uint32 // at most MaxIOV
	ReadIOV      [MaxIOV]RMAIOV
	SegOffset    uint64 // where this packet's data belongs in the message
	RuntLength   uint64 // bytes of the message that travel as data
	Tagged       bool
	Tag          uint64 // if Tagged
}

// Type is RUNTREAD_MSGRTM or RUNTREAD_TAGRTM.
func (p *RuntReadRTM) Type() Type {
	return rtmType(TypeRuntReadMsgRTM, TypeRuntReadMsgRTM, false, p.Tagged)
}

// Len is the number of bytes that Append adds, read_iov included.
func (p *RuntReadRTM) Len() int { return reqLen(p.Type(), &p.Options, p.ReadIOVCount) }

// Append adds the headers, read_iov included, to b.
//
// Preconditions: ReadIOVCount <= MaxIOV.
func (p *RuntReadRTM) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.rtmFlags(p.Tagged))
	b = le.AppendUint32(b, p.MsgID)
	b = le.AppendUint64(b, p.MsgLength)
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.ReadIOVCount)
	b = le.AppendUint64(b, p.SegOffset)
	b = le.AppendUint64(b, p.RuntLength)
	if p.Tagged {
		b = le.AppendUint64(b, p.Tag)
	}
	b = p.appendOptions(b)
	return appendIOV(b, &p.ReadIOV, p.ReadIOVCount)
}

// Parse reads the headers at the start of b; the data is b[n:].
func (p *RuntReadRTM) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *RuntReadRTM) Read(v *View) (n int, err error) {
	if n, err = v.header(famRuntReadRTM); err != nil {
		return 0, err
	}
	b := v.b
	q := RuntReadRTM{
		MsgID:        le.Uint32(b[4:]),
		MsgLength:    le.Uint64(b[8:]),
		SendID:       le.Uint32(b[16:]),
		ReadIOVCount: le.Uint32(b[20:]),
		SegOffset:    le.Uint64(b[24:]),
		RuntLength:   le.Uint64(b[32:]),
		Tagged:       v.Type.IsTagged(),
	}
	if q.Tagged {
		q.Tag = v.tag()
	}
	v.options(&q.Options)
	if n, err = parseReadIOV(v.Type, b, n, &q.ReadIOV, q.ReadIOVCount); err != nil {
		return 0, err
	}
	*p = q
	return n, nil
}

func (p *RuntReadRTM) fields(l *line) {
	l.uint("msg_id", uint64(p.MsgID))
	l.uint("msg_length", p.MsgLength)
	l.uint("send_id", uint64(p.SendID))
	l.uint("seg_offset", p.SegOffset)
	l.uint("runt_length", p.RuntLength)
	if p.Tagged {
		l.hex("tag", p.Tag)
	}
	p.Options.fields(l)
	l.iov("read_iov", p.ReadIOV[:p.ReadIOVCount])
}
