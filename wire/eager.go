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
	t, flags := TypeEagerMsgRTM, p.flags(FlagMsg)
	at, n := len(b), EagerMsgRTMLen
	b = room(b, DCEagerTagRTMLen)
	h := (*[DCEagerTagRTMLen]byte)(b[at:])
	if p.DC {
		t, n = TypeDCEagerMsgRTM, DCEagerMsgRTMLen
		le.PutUint64(h[8:], uint64(p.SendID)) // and the padding
	}
	if p.Tagged {
		t, flags = t+1, flags|FlagTagged
		le.PutUint64(h[n:], p.Tag)
		n += 8
	}
	le.PutUint64(h[:], uint64(t)|Version<<8|uint64(flags)<<16|uint64(p.MsgID)<<32)
	b = b[:at+n]
	if flags&(FlagRawAddr|FlagCQData|FlagConnID) == 0 {
		return b
	}
	return p.appendOptions(b)
}

// room makes b longer by n bytes.
func room(b []byte, n int) []byte {
	if cap(b)-len(b) < n {
		b = append(make([]byte, 0, len(b)+MaxAppendLen), b...)
	}
	return b[:len(b)+n]
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
	var e Eager
	if n, err = v.Eager(&e); err != nil {
		return 0, err
	}
	*p = EagerRTM{MsgID: e.MsgID, Tagged: v.Type.IsTagged(), Tag: e.Tag, DC: v.Type.IsDC(), SendID: e.SendID}
	v.options(&p.Options)
	return n, nil
}

// Eager is what a receiver needs of an eager message: an EagerRTM without the addresses,
// which it knows.
type Eager struct {
	Tag           uint64 // if the type is tagged
	Data          uint64 // remote CQ data, if HasData
	MsgID, SendID uint32 // SendID if the type is DC
	HasData       bool
}

// Eager reads an eager message into e, which is zero; the data is behind the n bytes of the
// headers. It fails as [EagerRTM.Read] does.
func (v *View) Eager(e *Eager) (n int, err error) {
	info := &infos[v.Type]
	if v.fault != fine || info.family != famEagerRTM {
		return v.header(famEagerRTM)
	}
	b := v.b
	e.MsgID = le.Uint32(b[HeaderLen:])
	if info.traits&(traitDC|traitTagged) != 0 {
		if info.traits&traitDC != 0 {
			e.SendID = le.Uint32(b[EagerMsgRTMLen:])
		}
		if info.traits&traitTagged != 0 {
			e.Tag = v.tag()
		}
	}
	if v.Flags&FlagCQData != 0 {
		e.Data, e.HasData = v.cqData()
	}
	return v.end, nil
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
