package peer

import (
	"math"

	"github.com/efactor/efactor/wire"
)

// parse reads the packet b, which v has opened, into p, whose Type is set already. It is no eager
// message.
func (p *Packet) parse(v *wire.View, b []byte) error {
	t := v.Type
	p.Tagged = t.IsTagged()
	switch t {
	case wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM, wire.TypeDCMediumMsgRTM, wire.TypeDCMediumTagRTM:
		var h wire.MediumRTM
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.Offset, p.SendID = h.MsgLength, h.SegOffset, h.SendID
	case wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM, wire.TypeDCLongCTSMsgRTM, wire.TypeDCLongCTSTagRTM:
		var h wire.LongCTSRTM
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.SendID, p.Nack = h.MsgLength, h.SendID, h.ReadNACK
	case wire.TypeCTSData:
		return p.parseCTSData(v, b)
	case wire.TypeCTS:
		var h wire.CTS
		if _, err := h.Read(v); err != nil {
			return err
		}
		p.SendID, p.RecvID, p.Granted = h.SendID, h.RecvID, h.RecvLength
		return nil
	default:
		if t.IsREQ() {
			return p.parseREQ(v, b)
		}
		return p.parseAnswer(v, b)
	}
	if n := uint64(len(p.Payload)); p.Length > math.MaxInt64 || p.Offset > p.Length || n > p.Length-p.Offset {
		return wire.ErrLength
	}
	return nil
}

// setEager completes an eager message, of which the data is behind the n bytes of the headers.
func (p *Packet) setEager(v *wire.View, n int) {
	p.Type, p.Payload = v.Type, v.Bytes()[n:]
	p.Length = uint64(len(p.Payload))
}

func (p *Packet) parseCTSData(v *wire.View, b []byte) error {
	var h wire.CTSData
	n, err := h.Read(v)
	if err != nil {
		return err
	}
	p.RecvID, p.Offset, p.Payload = h.RecvID, h.SegOffset, b[n:]
	if uint64(len(p.Payload)) != h.SegLength {
		return wire.ErrLength
	}
	return nil
}

func (p *Packet) setREQ(o *wire.Options, id uint32, tag uint64, payload []byte) {
	p.MsgID, p.Tag, p.Payload = id, tag, payload
	p.setOptions(o)
}

func (p *Packet) setOptions(o *wire.Options) { p.HasData, p.Data = o.HasCQData, o.CQData }

// multi reports whether further packets with the same msg_id belong to p's message.
func (p *Packet) multi() bool {
	switch p.Type {
	case wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM, wire.TypeDCMediumMsgRTM, wire.TypeDCMediumTagRTM,
		wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM:
		return true
	default:
		return false
	}
}

// span is how many bytes of p's message travel in packets with its msg_id.
func (p *Packet) span() uint64 {
	if p.Ext != nil && p.Ext.Runt > 0 {
		return p.Ext.Runt
	}
	return p.Length
}

// parseAnswer reads a packet that names an operation of ours.
func (p *Packet) parseAnswer(v *wire.View, b []byte) error {
	switch v.Type {
	case wire.TypeREADRSP:
		var h wire.READRSP
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.RecvID, p.SendID, p.Payload = h.RecvID, h.SendID, b[n:]
		return checkLength(p.Payload, h.SegLength)
	case wire.TypeATOMRSP:
		var h wire.ATOMRSP
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.RecvID, p.Payload = h.RecvID, b[n:]
		return checkLength(p.Payload, h.SegLength)
	case wire.TypeEOR:
		var h wire.EOR
		_, err := h.Read(v)
		p.SendID, p.RecvID = h.SendID, h.RecvID
		return err
	case wire.TypeReadNACK:
		var h wire.ReadNACK
		_, err := h.Read(v)
		p.SendID, p.RecvID = h.SendID, h.RecvID
		return err
	case wire.TypeReceipt:
		var h wire.Receipt
		_, err := h.Read(v)
		p.SendID, p.MsgID = h.TxID, h.MsgID
		return err
	case wire.TypePeerError:
		var h wire.PeerError
		_, err := h.Read(v)
		p.SendID, p.RecvID, p.MsgID = h.OpID, h.OpID, h.OpID
		p.Ref, p.Errno = h.RefKind, h.ProvErrno
		return err
	default:
		return wire.ErrType
	}
}

func checkLength(payload []byte, n uint64) error {
	if uint64(len(payload)) != n {
		return wire.ErrLength
	}
	return nil
}
