package wire

import (
	"slices"
)

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

// EagerRoom is what the headers of PutEager take up at most.
const EagerRoom = EagerTagRTMLen + ConnIDHdrLen

// PutEager writes the headers of the EagerRTM {MsgID: id, Tagged: tagged, Tag: tag} to b, whose
// sender says its connid if it has a place for that, and returns how long they are: most messages
// have no other headers.
func PutEager(b *[EagerRoom]byte, id uint32, tagged bool, tag uint64, hasConnID bool, connID uint32) (n int) {
	n = EagerMsgRTMLen
	base := uint64(TypeEagerMsgRTM) | Version<<8 | uint64(FlagMsg)<<16 | uint64(id)<<32
	if tagged {
		base += uint64(TypeEagerTagRTM-TypeEagerMsgRTM) | uint64(FlagTagged)<<16
		le.PutUint64(b[EagerMsgRTMLen:], tag)
		n = EagerTagRTMLen
	}
	if hasConnID {
		base |= uint64(FlagConnID) << 16
		le.PutUint32(b[n:], connID)
		n += ConnIDHdrLen
	}
	le.PutUint64(b[:], base)
	return n
}

// Append adds the headers to b.
func (p *EagerRTM) Append(b []byte) []byte {
	t, flags := TypeEagerMsgRTM, p.flags(FlagMsg)
	at, n := len(b), EagerMsgRTMLen
	if cap(b)-at < DCEagerTagRTMLen {
		b = grow(b)
	}
	h := b[at : at+DCEagerTagRTMLen : at+DCEagerTagRTMLen]
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
	return p.appendOptions(b[:at+n])
}

// grow makes room for any headers behind b.
func grow(b []byte) []byte { return slices.Grow(b, MaxAppendLen) }

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *EagerRTM) Read(v *View) (n int, err error) {
	var e Eager
	if n, err = v.Eager(&e); err != nil {
		return 0, err
	}
	*p = EagerRTM{MsgID: e.MsgID, Tagged: e.Tagged, Tag: e.Tag, DC: v.Type.IsDC(), SendID: e.SendID}
	v.options(&p.Options)
	return n, nil
}

// Eager is what a receiver needs of an eager message: an EagerRTM without the addresses,
// which it knows.
type Eager struct {
	Tag           uint64 // if Tagged
	Data          uint64 // remote CQ data, if HasData
	MsgID, SendID uint32 // SendID if the type is DC
	HasData       bool
	Tagged        bool
}

// Eager reads an eager message into e, which is zero; the data is behind the n bytes of the
// headers. It fails as [EagerRTM.Read] does, and returns 0 then.
func (v *View) Eager(e *Eager) (n int, err error) {
	if v.fault != fine {
		return v.header(famEagerRTM)
	}
	switch b := v.b; v.Type { // Open has seen that b holds the mandatory header
	case TypeEagerMsgRTM:
		h := (*[EagerMsgRTMLen]byte)(b)
		e.MsgID = le.Uint32(h[4:])
	case TypeEagerTagRTM:
		h := (*[EagerTagRTMLen]byte)(b)
		e.MsgID, e.Tagged, e.Tag = le.Uint32(h[4:]), true, le.Uint64(h[8:])
	case TypeDCEagerMsgRTM:
		h := (*[DCEagerMsgRTMLen]byte)(b)
		e.MsgID, e.SendID = le.Uint32(h[4:]), le.Uint32(h[8:])
	case TypeDCEagerTagRTM:
		h := (*[DCEagerTagRTMLen]byte)(b)
		e.MsgID, e.SendID, e.Tagged, e.Tag = le.Uint32(h[4:]), le.Uint32(h[8:]), true, le.Uint64(h[16:])
	default:
		return 0, fail(v.Type, badType)
	}
	if v.Flags&FlagCQData != 0 {
		e.Data, e.HasData = v.cqData()
	}
	return v.end, nil
}

// Sizes of the eager RTWs' mandatory headers without rma_iov.
const (
	EagerRTWLen   = 8
	DCEagerRTWLen = 16
)

// EagerRTW is an emulated eager write: EAGER_RTW (§3.3, Table 3.8), or with DC
// DC_EAGER_RTW (§4.2).
//
//	0      4               8
//	+------+---------------+-----------+
//	| base | rma_iov_count | rma_iov[] |               plain
//	+------+---------------+---------+-+---+-----------+
//	| base | rma_iov_count | send_id | pad | rma_iov[] |  DC
//	+------+---------------+---------+-----+-----------+
//	0      4               8         12    16
//
// The optional headers and the data follow.
//
// The zero EagerRTW, with a raw address and no data, solicits a HANDSHAKE: since
// release 1.12 an endpoint sends it when it must know the peer's features
// before it may send anything else. The specification doesn't mention that.
type EagerRTW struct {
	Options

	RMAIOVCount uint32 // at most MaxIOV
	RMAIOV      [MaxIOV]RMAIOV
	DC          bool
	SendID      uint32 // if DC: echoed in RECEIPT
}

// Type is EAGER_RTW or DC_EAGER_RTW.
func (p *EagerRTW) Type() Type {
	if p.DC {
		return TypeDCEagerRTW
	}
	return TypeEagerRTW
}

// Append adds the headers to b.
//
// Preconditions: RMAIOVCount <= MaxIOV.
func (p *EagerRTW) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.flags(0))
	b = le.AppendUint32(b, p.RMAIOVCount)
	if p.DC {
		b = le.AppendUint32(b, p.SendID)
		b = append(b, 0, 0, 0, 0)
	}
	b = appendIOV(b, &p.RMAIOV, p.RMAIOVCount)
	return p.appendOptions(b)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *EagerRTW) Read(v *View) (n int, err error) {
	if n, err = v.header(famEagerRTW); err != nil {
		return 0, err
	}
	b := v.b
	q := EagerRTW{RMAIOVCount: uint32(v.iovCount), DC: v.Type.IsDC()}
	if q.DC {
		q.SendID = le.Uint32(b[8:])
	}
	v.rmaIOV(&q.RMAIOV)
	v.options(&q.Options)
	*p = q
	return n, nil
}
