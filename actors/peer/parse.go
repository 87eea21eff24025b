package peer

import (
	"github.com/efactor/efactor/wire"
)

// parseRTM reads an RTM or RTA into p. Each header field is read once; what
// follows works on p alone.
func (p *Packet) parseRTM(b []byte, t wire.Type) error {
	p.Type, p.Tagged = t, t.IsTagged()
	switch t {
	case wire.TypeEagerMsgRTM, wire.TypeEagerTagRTM:
		var h wire.EagerRTM
		n, err := h.Parse(b)
		if err != nil {
			return err
		}
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length = uint64(len(p.Payload))
	case wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM:
		var h wire.MediumRTM
		n, err := h.Parse(b)
		if err != nil {
			return err
		}
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.Offset = h.MsgLength, h.SegOffset
	case wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM:
		var h wire.LongCTSRTM
		n, err := h.Parse(b)
		if err != nil {
			return err
		}
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.SendID = h.MsgLength, h.SendID
	default:
		return p.parseOther(b)
	}
	if n := uint64(len(p.Payload)); p.Offset > p.Length || n > p.Length-p.Offset {
		return wire.ErrLength
	}
	return nil
}

// parseOther reads of a request that is not built what keeps the order of
// messages: its msg_id.
func (p *Packet) parseOther(b []byte) error {
	id, err := wire.MsgIDOf(b)
	p.MsgID = id
	return err
}

func (p *Packet) setREQ(o *wire.Options, id uint32, tag uint64, payload []byte) {
	p.MsgID, p.Tag, p.Payload = id, tag, payload
	p.HasData, p.Data = o.HasCQData, o.CQData
}

// multi tells whether further packets with the same msg_id belong to p's message.
func (p *Packet) multi() bool {
	return p.Type == wire.TypeMediumMsgRTM || p.Type == wire.TypeMediumTagRTM
}

// parseOperation reads a packet that names an operation of ours.
func (p *Packet) parseOperation(b []byte, t wire.Type) error {
	p.Type = t
	if t == wire.TypeCTS {
		var h wire.CTS
		if _, err := h.Parse(b); err != nil {
			return err
		}
		p.SendID, p.RecvID, p.Granted = h.SendID, h.RecvID, h.RecvLength
		return nil
	}
	var h wire.CTSData
	n, err := h.Parse(b)
	if err != nil {
		return err
	}
	p.RecvID, p.Offset, p.Payload = h.RecvID, h.SegOffset, b[n:]
	if uint64(len(p.Payload)) != h.SegLength {
		return wire.ErrLength
	}
	return nil
}
