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
// The optional headers and the data follow. No field holds the data's length: it is
// the rest of the datagram.
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
	t, flags := TypeEagerMsgRTM, FlagMsg
	if p.DC || p.Tagged {
		t = p.Type()
	}
	if p.Tagged {
		flags |= FlagTagged
	}
	flags = p.flags(flags)
	b = append(b, byte(t), Version, byte(flags), byte(flags>>8))
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
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *EagerRTM) Read(v *View) (n int, err error) {
	if n, err = v.header(famEagerRTM); err != nil {
		return 0, err
	}
	e := v.eager()
	*p = EagerRTM{MsgID: e.MsgID, Tagged: v.Type.IsTagged(), Tag: e.Tag, DC: v.Type.IsDC(), SendID: e.SendID}
	v.options(&p.Options)
	return n, nil
}

// Eager is what a receiver needs of an eager message: an EagerRTM without the addresses,
// which it knows.
type Eager struct {
	MsgID, SendID uint32 // SendID if the type is DC
	Tag           uint64 // if the type is tagged
	CQData        uint64 // if HasCQData
	HasCQData     bool
}

// Eager reads an eager message; the data is behind the n bytes of the headers. It fails as
// [EagerRTM.Read] does.
func (v *View) Eager() (e Eager, n int, err error) {
	if n, err = v.header(famEagerRTM); err != nil {
		return Eager{}, 0, err
	}
	return v.eager(), n, nil
}

func (v *View) eager() (e Eager) {
	e.MsgID = le.Uint32(v.b[4:])
	traits := infos[v.Type].traits
	if traits&traitDC != 0 {
		e.SendID = le.Uint32(v.b[8:])
	}
	if traits&traitTagged != 0 {
		e.Tag = v.tag()
	}
	e.CQData, e.HasCQData = v.cqData()
	return e
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
