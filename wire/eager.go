package wire

// Sizes of the eager RTMs' mandatory headers.
const (
	EagerMsgRTMLen   = 8
	EagerTagRTMLen   = 16
	DCEagerMsgRTMLen = 16
	DCEagerTagRTMLen = 24
)

// EagerRTM is an eager message: EAGER_MSGRTM or EAGER_TAGRTM (§3.2, Table 3.3),
// or with DC one of their delivery complete variants (§4.2).
//
//	0      4        8                     8 or 16
//	+------+--------+---------------------+
//	| base | msg_id | tag u64 (tagged)    |                      plain
//	+------+--------+---------+-----------+---------------------+
//	| base | msg_id | send_id | pad       | tag u64 (tagged)    |  DC
//	+------+--------+---------+-----------+---------------------+
//	0      4        8         12          16                    16 or 24
//
// The optional headers and the data follow. No field tells the data's length:
// it is what the datagram holds behind the headers.
type EagerRTM struct {
	Options

	MsgID  uint32
	Tagged bool
	Tag    uint64 // if Tagged
	DC     bool
	SendID uint32 // if DC: echoed in RECEIPT
}

// Type is EAGER_MSGRTM, EAGER_TAGRTM, DC_EAGER_MSGRTM or DC_EAGER_TAGRTM.
func (p *EagerRTM) Type() Type {
	return rtmType(TypeEagerMsgRTM, TypeDCEagerMsgRTM, p.DC, p.Tagged)
}

// Len is the number of bytes that Append adds.
func (p *EagerRTM) Len() int { return reqLen(p.Type(), &p.Options, 0) }

// Append adds the headers to b.
func (p *EagerRTM) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.rtmFlags(p.Tagged))
	b = le.AppendUint32(b, p.MsgID)
	if p.DC {
		b = le.AppendUint32(b, p.SendID)
		b = append(b, 0, 0, 0, 0)
	}
	if p.Tagged {
		b = le.AppendUint64(b, p.Tag)
	}
	return p.appendOptions(b)
}

// Parse reads the headers at the start of b; the data is b[n:].
func (p *EagerRTM) Parse(b []byte) (n int, err error) {
	base, n, err := parseHeader(b, famEagerRTM)
	if err != nil {
		return 0, err
	}
	var o Options
	end, err := o.parseOptions(base, b, n)
	if err != nil {
		return 0, err
	}
	*p = EagerRTM{}
	p.Options = o
	p.MsgID, p.Tagged, p.DC = le.Uint32(b[4:]), base.Type.IsTagged(), base.Type.IsDC()
	if p.DC {
		p.SendID = le.Uint32(b[8:])
	}
	if p.Tagged {
		p.Tag = lastUint64(b[:n])
	}
	return end, nil
}

func (p *EagerRTM) fields(l *line) {
	l.uint("msg_id", uint64(p.MsgID))
	if p.DC {
		l.uint("send_id", uint64(p.SendID))
	}
	if p.Tagged {
		l.hex("tag", p.Tag)
	}
	p.Options.fields(l)
}
