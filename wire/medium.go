package wire

// Sizes of the medium RTMs' mandatory headers.
const (
	MediumMsgRTMLen   = 24
	MediumTagRTMLen   = 32
	DCMediumMsgRTMLen = 32
	DCMediumTagRTMLen = 40
)

// MediumRTM is one segment of a medium message: MEDIUM_MSGRTM or MEDIUM_TAGRTM
// (§3.2, Table 3.4), or with DC one of their delivery complete variants (§4.2).
//
//	0      4        8                     16                 24
//	+------+--------+---------------------+------------------+-----------+
//	| base | msg_id | msg_length u64      | seg_offset u64   | tag u64   |  plain
//	+------+--------+---------+-----------+------------------+-----------+
//	| base | msg_id | send_id | pad       | msg_length u64   | seg_      |  DC:
//	+------+--------+---------+-----------+------------------+-----------+  24 seg_offset
//	0      4        8         12          16                 24             32 tag
//
// The optional headers and the segment's data follow; all segments of a message
// share the msg_id and carry the same optional headers. The tag is there if
// Tagged.
//
// Divergence: Table 3.4 calls the field at 8 seg_length, the length of the
// segment. Every release sends the length of the whole message in it, in each
// segment; the segment's own length is what the datagram holds.
type MediumRTM struct {
	Options

	MsgID     uint32
	MsgLength uint64 // of the whole message
	SegOffset uint64 // where this packet's data belongs in the message
	Tagged    bool
	Tag       uint64 // if Tagged
	DC        bool
	SendID    uint32 // if DC: echoed in RECEIPT
}

// Type is MEDIUM_MSGRTM, MEDIUM_TAGRTM, DC_MEDIUM_MSGRTM or DC_MEDIUM_TAGRTM.
func (p *MediumRTM) Type() Type {
	return rtmType(TypeMediumMsgRTM, TypeDCMediumMsgRTM, p.DC, p.Tagged)
}

// Append adds the headers to b.
func (p *MediumRTM) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.rtmFlags(p.Tagged))
	b = le.AppendUint32(b, p.MsgID)
	if p.DC {
		b = le.AppendUint32(b, p.SendID)
		b = append(b, 0, 0, 0, 0)
	}
	b = le.AppendUint64(b, p.MsgLength)
	b = le.AppendUint64(b, p.SegOffset)
	if p.Tagged {
		b = le.AppendUint64(b, p.Tag)
	}
	return p.appendOptions(b)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *MediumRTM) Read(v *View) (n int, err error) {
	if n, err = v.header(famMediumRTM); err != nil {
		return 0, err
	}
	b := v.b
	q := MediumRTM{MsgID: le.Uint32(b[4:]), Tagged: v.Type.IsTagged(), DC: v.Type.IsDC()}
	lengths := b[8:]
	if q.DC {
		q.SendID = le.Uint32(b[8:])
		lengths = b[16:]
	}
	q.MsgLength = le.Uint64(lengths)
	q.SegOffset = le.Uint64(lengths[8:])
	if q.Tagged {
		q.Tag = v.tag()
	}
	v.options(&q.Options)
	*p = q
	return n, nil
}
