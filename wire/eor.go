package wire

// Sizes of an EOR packet.
const (
	EORLen      = 16
	EORShortLen = 12 // release 1.13 and older: no multiuse word
)

// EOR is an End Of Read packet (§4.1, Table 4.2): the receiver has read the
// sender's buffer.
//
//	0      4         8         12         16
//	+------+---------+---------+----------+
//	| base | send_id | recv_id | multiuse |
//	+------+---------+---------+----------+
//
// Divergence: release 1.13 and older send 12 bytes, without the multiuse word.
// Parse accepts them if FlagConnID isn't set; Append writes them if Short is.
type EOR struct {
	SendID    uint32 // from the LONGREAD or RUNTREAD packet
	RecvID    uint32
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
	Short     bool   // 12 bytes, as until 1.13: there is no place for the connid
}

// Type is EOR.
func (p *EOR) Type() Type { return TypeEOR }

// Len is the number of bytes that Append adds.
func (p *EOR) Len() int {
	if p.Short {
		return EORShortLen
	}
	return EORLen
}

// Append adds the packet to b.
func (p *EOR) Append(b []byte) []byte {
	b = appendBase(b, TypeEOR, connIDFlag(p.HasConnID && !p.Short))
	b = le.AppendUint32(b, p.SendID)
	b = le.AppendUint32(b, p.RecvID)
	if p.Short {
		return b
	}
	return appendConnID(b, p.HasConnID, p.ConnID)
}

// Parse reads the packet at the start of b.
func (p *EOR) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *EOR) Read(v *View) (n int, err error) {
	if n, err = v.header(famEOR); err != nil {
		return 0, err
	}
	b := v.b
	q := EOR{SendID: le.Uint32(b[4:]), RecvID: le.Uint32(b[8:])}
	switch {
	case len(b) >= EORLen:
		q.ConnID, q.HasConnID = v.connID, v.hasConnID
		n = EORLen
	case v.Flags&FlagConnID != 0:
		return 0, fail(TypeEOR, connIDShort)
	default:
		q.Short = true
	}
	*p = q
	return n, nil
}

func (p *EOR) fields(l *line) {
	l.uint("send_id", uint64(p.SendID))
	l.uint("recv_id", uint64(p.RecvID))
	l.connID(p.HasConnID, p.ConnID)
}
