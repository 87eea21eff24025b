package wire

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
// specification counts read_iov as application data. Here it is header: Parse
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

// Len is the number of bytes that Append adds, read_iov included.
func (p *LongReadRTW) Len() int {
	return reqLen(TypeLongReadRTW, &p.Options, p.RMAIOVCount+p.ReadIOVCount)
}

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

// Parse reads the packet at the start of b.
func (p *LongReadRTW) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
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

func (p *LongReadRTW) fields(l *line) {
	l.uint("msg_length", p.MsgLength)
	l.uint("send_id", uint64(p.SendID))
	l.iov("rma_iov", p.RMAIOV[:p.RMAIOVCount])
	p.Options.fields(l)
	l.iov("read_iov", p.ReadIOV[:p.ReadIOVCount])
}
