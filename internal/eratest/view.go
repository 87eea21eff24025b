package eratest

import (
	"math/bits"

	"github.com/efactor/efactor/wire"
)

// view is a packet as the rules see it: fields that several types have in common
// have one name. Fields that a type lacks are zero.
type view struct {
	typ   wire.Type
	opts  *wire.Options // of requests; nil otherwise
	msgID uint32
	send  uint32 // send_id or tx_id
	recv  uint32 // recv_id
	total uint64 // of the whole operation, as the packet says
	off   uint64 // where its data belongs
	said  uint64 // bytes of data according to its fields
	n     uint64 // bytes of data in the datagram
	grant uint64 // recv_length
	runt  uint64
	rma   []wire.RMAIOV
	read  []wire.RMAIOV
	nack  bool // FlagReadNACK
	flag  bool // FlagCTSEmulatedRead
	short bool // SHORT_RTR
}

// look makes the view of a packet with n bytes of data.
func look(p wire.Packet, n int) view {
	v := view{typ: p.Type(), n: uint64(n), said: uint64(n)}
	switch p := p.(type) {
	case *wire.EagerRTM:
		v.opts, v.msgID, v.send, v.total = &p.Options, p.MsgID, p.SendID, v.n
	case *wire.MediumRTM:
		v.opts, v.msgID, v.send, v.total, v.off = &p.Options, p.MsgID, p.SendID, p.MsgLength, p.SegOffset
		v.runt = p.MsgLength
	case *wire.LongCTSRTM:
		v.opts, v.msgID, v.send, v.total, v.nack = &p.Options, p.MsgID, p.SendID, p.MsgLength, p.ReadNACK
	case *wire.LongReadRTM:
		v.opts, v.msgID, v.send, v.total = &p.Options, p.MsgID, p.SendID, p.MsgLength
		v.read = p.ReadIOV[:p.ReadIOVCount]
	case *wire.RuntReadRTM:
		v.opts, v.msgID, v.send, v.total, v.off = &p.Options, p.MsgID, p.SendID, p.MsgLength, p.SegOffset
		v.runt, v.read = p.RuntLength, p.ReadIOV[:p.ReadIOVCount]
	case *wire.EagerRTW:
		v.opts, v.send, v.total, v.rma = &p.Options, p.SendID, v.n, p.RMAIOV[:p.RMAIOVCount]
	case *wire.LongCTSRTW:
		v.opts, v.send, v.total, v.rma = &p.Options, p.SendID, p.MsgLength, p.RMAIOV[:p.RMAIOVCount]
	case *wire.LongReadRTW:
		v.opts, v.send, v.total = &p.Options, p.SendID, p.MsgLength
		v.rma, v.read = p.RMAIOV[:p.RMAIOVCount], p.ReadIOV[:p.ReadIOVCount]
	case *wire.RTR:
		v.opts, v.recv, v.total, v.rma = &p.Options, p.RecvID, p.MsgLength, p.RMAIOV[:p.RMAIOVCount]
		v.grant, v.short = uint64(p.RecvLength), !p.LongCTS
	case *wire.RTA:
		v.opts, v.msgID, v.send, v.recv, v.rma = &p.Options, p.MsgID, p.SendID, p.RecvID, p.RMAIOV[:p.RMAIOVCount]
		v.total = sum(v.rma)
	case *wire.CTS:
		v.send, v.recv, v.grant, v.flag = p.SendID, p.RecvID, p.RecvLength, p.EmulatedRead
	case *wire.CTSData:
		v.recv, v.off, v.said = p.RecvID, p.SegOffset, p.SegLength
	case *wire.READRSP:
		v.send, v.recv, v.said = p.SendID, p.RecvID, p.SegLength
	case *wire.ATOMRSP:
		v.recv, v.said = p.RecvID, p.SegLength
	case *wire.EOR:
		v.send, v.recv = p.SendID, p.RecvID
	case *wire.ReadNACK:
		v.send, v.recv = p.SendID, p.RecvID
	case *wire.Receipt:
		v.send, v.msgID = p.TxID, p.MsgID
	}
	return v
}

// sum adds up the lengths; it saturates at the largest 64-bit number.
func sum(iov []wire.RMAIOV) (n uint64) {
	var carry uint64
	for i := range iov {
		if n, carry = bits.Add64(n, iov[i].Len, 0); carry != 0 {
			return 1<<64 - 1
		}
	}
	return n
}
