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
// Read reads it and n counts it.
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

// Append adds the packet, which is all header, to b.
//
// Preconditions: ReadIOVCount <= MaxIOV.
func (p *LongReadRTM) Append(b []byte) []byte {
	b = p.appendReadREQ(b, p.Type(), p.Tagged, p.MsgID, p.MsgLength, p.SendID, p.ReadIOVCount)
	return p.appendReadIOV(b, p.Tagged, p.Tag, &p.ReadIOV, p.ReadIOVCount)
}

// Read reads the headers of the packet that v has opened, and returns their length.
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
	if n, err = v.readREQ(n, &q.Options, &q.Tag, &q.ReadIOV, q.ReadIOVCount); err != nil {
		return 0, err
	}
	*p = q
	return n, nil
}

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

// Append adds the headers, read_iov included, to b.
//
// Preconditions: ReadIOVCount <= MaxIOV.
func (p *RuntReadRTM) Append(b []byte) []byte {
	b = p.appendReadREQ(b, p.Type(), p.Tagged, p.MsgID, p.MsgLength, p.SendID, p.ReadIOVCount)
	b = le.AppendUint64(b, p.SegOffset)
	b = le.AppendUint64(b, p.RuntLength)
	return p.appendReadIOV(b, p.Tagged, p.Tag, &p.ReadIOV, p.ReadIOVCount)
}

// Read reads the headers of the packet that v has opened, and returns their length.
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
	if n, err = v.readREQ(n, &q.Options, &q.Tag, &q.ReadIOV, q.ReadIOVCount); err != nil {
		return 0, err
	}
	*p = q
	return n, nil
}

// appendReadREQ adds the fields with which LONGREAD and RUNTREAD messages begin.
func (o *Options) appendReadREQ(b []byte, t Type, tagged bool, msgID uint32, length uint64, sendID, iovCount uint32) []byte {
	b = appendBase(b, t, o.rtmFlags(tagged))
	b = le.AppendUint32(b, msgID)
	b = le.AppendUint64(b, length)
	b = le.AppendUint32(b, sendID)
	return le.AppendUint32(b, iovCount)
}

// appendReadIOV adds the headers with which they end.
//
// Preconditions: count <= MaxIOV.
func (o *Options) appendReadIOV(b []byte, tagged bool, tag uint64, iov *[MaxIOV]RMAIOV, count uint32) []byte {
	if tagged {
		b = le.AppendUint64(b, tag)
	}
	b = o.appendOptions(b)
	return appendIOV(b, iov, count)
}

// readREQ reads the headers with which they end, of which read_iov is at n.
//
// Preconditions: v.header has succeeded, and o and tag are zero.
func (v *View) readREQ(n int, o *Options, tag *uint64, iov *[MaxIOV]RMAIOV, count uint32) (int, error) {
	if v.Type.IsTagged() {
		*tag = v.tag()
	}
	v.options(o)
	return parseReadIOV(v.Type, v.b, n, iov, count)
}

// LongReadRTWLen is the size of LONGREAD_RTW's mandatory header without rma_iov.
const LongReadRTWLen = 24

// LongReadRTW asks the responder to make a write by RDMA read: LONGREAD_RTW
// (§4.1, Table 4.3).
//
//	0      4               8                16        20               24
//	+------+---------------+----------------+---------+----------------+-----------+
//	| base | rma_iov_count | msg_length u64 | send_id | read_iov_count | rma_iov[] |
//	+------+---------------+----------------+---------+----------------+-----------+
//
// The optional headers and read_iov follow; there is no data. rma_iov is the
// target on the responder, read_iov the source on the requester. The
// specification counts read_iov as application data. Here it is header: Read
// reads it and n counts it.
type LongReadRTW struct {
	Options

	RMAIOVCount  uint32 // at most MaxIOV
	RMAIOV       [MaxIOV]RMAIOV
	MsgLength    uint64
	SendID       uint32 // echoed in EOR and READ_NACK
	ReadIOVCount uint32 // at most MaxIOV
	ReadIOV      [MaxIOV]RMAIOV
}

// Type is LONGREAD_RTW.
func (p *LongReadRTW) Type() Type { return TypeLongReadRTW }

// Append adds the packet, which is all header, to b.
//
// Preconditions: RMAIOVCount <= MaxIOV, ReadIOVCount <= MaxIOV.
func (p *LongReadRTW) Append(b []byte) []byte {
	b = appendBase(b, TypeLongReadRTW, p.flags(0))
	b = le.AppendUint32(b, p.RMAIOVCount)
	b = le.AppendUint64(b, p.MsgLength)
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.ReadIOVCount)
	b = appendIOV(b, &p.RMAIOV, p.RMAIOVCount)
	b = p.appendOptions(b)
	return appendIOV(b, &p.ReadIOV, p.ReadIOVCount)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *LongReadRTW) Read(v *View) (n int, err error) {
	if n, err = v.header(famLongReadRTW); err != nil {
		return 0, err
	}
	b := v.b
	q := LongReadRTW{
		RMAIOVCount:  uint32(v.iovCount),
		MsgLength:    le.Uint64(b[8:]),
		SendID:       le.Uint32(b[16:]),
		ReadIOVCount: le.Uint32(b[20:]),
	}
	v.rmaIOV(&q.RMAIOV)
	v.options(&q.Options)
	if n, err = parseReadIOV(v.Type, b, n, &q.ReadIOV, q.ReadIOVCount); err != nil {
		return 0, err
	}
	*p = q
	return n, nil
}
