package wire

// Sizes of the long-read RTMs' mandatory headers.
const (
	LongReadMsgRTMLen = 24
	LongReadTagRTMLen = 32
)

// LongReadRTM offers a message for RDMA read: LONGREAD_MSGRTM or
// LONGREAD_TAGRTM (§4.1, Table 4.1).
//
//	0      4        8                16        20               24        32
//	+------+--------+----------------+---------+----------------+---------+
//	| base | msg_id | msg_length u64 | send_id | read_iov_count | tag u64 |
//	+------+--------+----------------+---------+----------------+---------+
//
// The optional headers and read_iov, the sender's buffers, follow; there is no
// data. The tag is there if Tagged.
//
// The specification counts read_iov as application data. Here it is header:
// Parse reads it and n counts it.
type LongReadRTM struct {
	Options

	MsgID        uint32
	MsgLength    uint64
	SendID       uint32 // echoed in EOR and READ_NACK
	ReadIOVCount uint32 // at most MaxIOV
	ReadIOV      [MaxIOV]RMAIOV
	Tagged       bool
	Tag          uint64 // if Tagged
}

// Type is LONGREAD_MSGRTM or LONGREAD_TAGRTM.
func (p *LongReadRTM) Type() Type {
	return rtmType(TypeLongReadMsgRTM, TypeLongReadMsgRTM, false, p.Tagged)
}

// Len is the number of bytes that Append adds, read_iov included.
func (p *LongReadRTM) Len() int { return reqLen(p.Type(), &p.Options, p.ReadIOVCount) }

// Append adds the packet, which is all header, to b.
//
// Preconditions: ReadIOVCount <= MaxIOV.
func (p *LongReadRTM) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.rtmFlags(p.Tagged))
	b = le.AppendUint32(b, p.MsgID)
	b = le.AppendUint64(b, p.MsgLength)
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.ReadIOVCount)
	if p.Tagged {
		b = le.AppendUint64(b, p.Tag)
	}
	b = p.appendOptions(b)
	return appendIOV(b, &p.ReadIOV, p.ReadIOVCount)
}

// Parse reads the packet at the start of b.
func (p *LongReadRTM) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *LongReadRTM) Read(v *View) (n int, err error) {
	if n, err = v.header(famLongReadRTM); err != nil {
		return 0, err
	}
	b := v.b
	q := LongReadRTM{
		MsgID:        le.Uint32(b[4:]),
		MsgLength:    le.Uint64(b[8:]),
		SendID:       le.Uint32(b[16:]),
		ReadIOVCount: le.Uint32(b[20:]),
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

func (p *LongReadRTM) fields(l *line) {
	l.uint("msg_id", uint64(p.MsgID))
	l.uint("msg_length", p.MsgLength)
	l.uint("send_id", uint64(p.SendID))
	if p.Tagged {
		l.hex("tag", p.Tag)
	}
	p.Options.fields(l)
	l.iov("read_iov", p.ReadIOV[:p.ReadIOVCount])
}
