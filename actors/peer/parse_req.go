package peer

import (
	"math"

	"github.com/efactor/efactor/wire"
)

// Ext is what the packet of a read-based message, of remote memory access or of an
// atomic holds beside what all have.
type Ext struct {
	RMA    [wire.MaxIOV]wire.RMAIOV // memory of ours that the peer names (§3.3)
	NRMA   int
	Read   [wire.MaxIOV]wire.RMAIOV // memory of the peer's that we are to read (§4.1)
	NRead  int
	Runt   uint64 // bytes of the message that travel in packets (§4.5)
	Window uint64 // of an RTR: bytes that the requester is ready for

	Op       wire.AtomicOp
	Datatype wire.Datatype

	next *Ext
}

// parseREQ reads the requests that have lists of memory (§3.3, §4.1, §4.5).
func (p *Packet) parseREQ(v *wire.View, b []byte) error {
	x, t := p.pool.getExt(), v.Type
	p.Ext = x
	switch {
	case t.IsRTA():
		return p.parseRTA(v, b, x)
	case t.IsRTR():
		var h wire.RTR
		if _, err := h.Read(v); err != nil {
			return err
		}
		p.setOptions(&h.Options)
		p.RecvID, p.Length = h.RecvID, h.MsgLength
		x.RMA, x.NRMA, x.Window = h.RMAIOV, int(h.RMAIOVCount), uint64(h.RecvLength)
		return p.checkTarget(x)
	case t.IsRTW():
		return p.parseRTW(v, b, x)
	}
	switch t {
	case wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM:
		var h wire.LongReadRTM
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:n])
		p.Length, p.SendID = h.MsgLength, h.SendID
		x.Read, x.NRead = h.ReadIOV, int(h.ReadIOVCount)
	case wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM:
		var h wire.RuntReadRTM
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.setREQ(&h.Options, h.MsgID, h.Tag, b[n:])
		p.Length, p.SendID, p.Offset = h.MsgLength, h.SendID, h.SegOffset
		x.Read, x.NRead, x.Runt = h.ReadIOV, int(h.ReadIOVCount), h.RuntLength
		n64 := uint64(len(p.Payload))
		if x.Runt == 0 || x.Runt > p.Length || p.Offset > x.Runt || n64 > x.Runt-p.Offset {
			return wire.ErrLength
		}
	default:
		return wire.ErrType
	}
	return checkSum(x.Read[:x.NRead], p.Length)
}

func (p *Packet) parseRTA(v *wire.View, b []byte, x *Ext) error {
	var h wire.RTA
	n, err := h.Read(v)
	if err != nil {
		return err
	}
	p.setREQ(&h.Options, h.MsgID, 0, b[n:])
	p.SendID, p.RecvID = h.SendID, h.RecvID
	x.RMA, x.NRMA, x.Op, x.Datatype = h.RMAIOV, int(h.RMAIOVCount), h.Op, h.Datatype
	var ok bool
	if p.Length, ok = sum(x.RMA[:x.NRMA]); !ok {
		return wire.ErrLength
	}
	return nil
}

func (p *Packet) parseRTW(v *wire.View, b []byte, x *Ext) error {
	switch v.Type {
	case wire.TypeEagerRTW, wire.TypeDCEagerRTW:
		var h wire.EagerRTW
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.setOptions(&h.Options)
		p.Payload, p.SendID = b[n:], h.SendID
		p.Length = uint64(len(p.Payload))
		x.RMA, x.NRMA = h.RMAIOV, int(h.RMAIOVCount)
	case wire.TypeLongCTSRTW, wire.TypeDCLongCTSRTW:
		var h wire.LongCTSRTW
		n, err := h.Read(v)
		if err != nil {
			return err
		}
		p.setOptions(&h.Options)
		p.Payload, p.SendID, p.Length = b[n:], h.SendID, h.MsgLength
		x.RMA, x.NRMA = h.RMAIOV, int(h.RMAIOVCount)
		if uint64(len(p.Payload)) > p.Length {
			return wire.ErrLength
		}
	default:
		var h wire.LongReadRTW
		if _, err := h.Read(v); err != nil {
			return err
		}
		p.setOptions(&h.Options)
		p.SendID, p.Length = h.SendID, h.MsgLength
		x.RMA, x.NRMA = h.RMAIOV, int(h.RMAIOVCount)
		x.Read, x.NRead = h.ReadIOV, int(h.ReadIOVCount)
		if err := checkSum(x.Read[:x.NRead], p.Length); err != nil {
			return err
		}
	}
	return p.checkTarget(x)
}

// checkTarget: the memory that is named must be as long as the message.
func (p *Packet) checkTarget(x *Ext) error { return checkSum(x.RMA[:x.NRMA], p.Length) }

func checkSum(iov []wire.RMAIOV, want uint64) error {
	if n, ok := sum(iov); !ok || n != want {
		return wire.ErrLength
	}
	return nil
}

// sum adds the lengths up; false if they are more than memory can be.
func sum(iov []wire.RMAIOV) (n uint64, ok bool) {
	for i := range iov {
		if iov[i].Len > math.MaxInt64-n {
			return 0, false
		}
		n += iov[i].Len
	}
	return n, true
}

func (l *Pool) getExt() *Ext {
	x := l.exts
	if x == nil {
		return new(Ext)
	}
	l.exts = x.next
	return x
}

func (l *Pool) putExt(x *Ext) {
	*x = Ext{next: l.exts}
	l.exts = x
}
