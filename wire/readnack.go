package wire

// ReadNACKLen is the size of a READ_NACK packet.
const ReadNACKLen = 16

// ReadNACK refuses an RDMA read (§4.7, Table 4.2, the second of that number):
// the receiver of a LONGREAD or RUNTREAD packet can't register its buffer, and
// the sender goes on with the long-CTS subprotocol.
//
//	0      4         8         12         16
//	+------+---------+---------+----------+
//	| base | send_id | recv_id | multiuse |
//	+------+---------+---------+----------+
type ReadNACK struct {
	SendID    uint32 // from the LONGREAD or RUNTREAD packet
	RecvID    uint32
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
}

// Type is READ_NACK.
func (p *ReadNACK) Type() Type { return TypeReadNACK }

// Len is the number of bytes that Append adds.
func (p *ReadNACK) Len() int { return ReadNACKLen }

// Append adds the packet to b.
func (p *ReadNACK) Append(b []byte) []byte {
	b = appendBase(b, TypeReadNACK, connIDFlag(p.HasConnID))
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.RecvID)
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Parse reads the packet at the start of b.
func (p *ReadNACK) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *ReadNACK) Read(v *View) (n int, err error) {
	if n, err = v.header(famReadNACK); err != nil {
		return 0, err
	}
	b := v.b
	*p = ReadNACK{
		SendID:    le.Uint32(b[4:]),
		RecvID:    le.Uint32(b[8:]),
		HasConnID: v.hasConnID,
		ConnID:    v.connID,
	}
	return n, nil
}

func (p *ReadNACK) fields(l *line) {
	l.uint("send_id", uint64(p.SendID))
	l.uint("recv_id", uint64(p.RecvID))
	l.connID(p.HasConnID, p.ConnID)
}
