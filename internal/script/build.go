package script

import (
	"fmt"
	"strings"

	"github.com/efactor/efactor/wire"
)

func (w *words) build(x *Remote, typ string) (wire.Packet, error) {
	o, tag, tagged := w.options(x), w.num("tag"), strings.Contains(typ, "TAGRTM")
	id, sendID, length := uint32(w.num("msg_id")), uint32(w.num("send_id")), w.num("msg_length")
	dc := strings.HasPrefix(typ, "DC_")
	switch strings.TrimPrefix(typ, "DC_") {
	case "EAGER_MSGRTM", "EAGER_TAGRTM":
		return &wire.EagerRTM{Options: o, MsgID: id, Tagged: tagged, Tag: tag, DC: dc, SendID: sendID}, nil
	case "MEDIUM_MSGRTM", "MEDIUM_TAGRTM":
		return &wire.MediumRTM{
			Options: o, MsgID: id, Tagged: tagged, Tag: tag, DC: dc, SendID: sendID,
			MsgLength: length, SegOffset: w.num("seg_offset"),
		}, nil
	case "LONGCTS_MSGRTM", "LONGCTS_TAGRTM":
		return &wire.LongCTSRTM{
			Options: o, MsgID: id, Tagged: tagged, Tag: tag, DC: dc, MsgLength: length, ReadNACK: w.has("read_nack"),
			SendID: sendID, CreditRequest: uint32(w.or("credit_request", 32)),
		}, nil
	case "LONGREAD_MSGRTM", "LONGREAD_TAGRTM":
		p := &wire.LongReadRTM{Options: o, MsgID: id, Tagged: tagged, Tag: tag, MsgLength: length, SendID: sendID}
		p.ReadIOVCount = w.iov("read_iov", &p.ReadIOV)
		return p, nil
	case "RUNTREAD_MSGRTM", "RUNTREAD_TAGRTM":
		p := &wire.RuntReadRTM{
			Options: o, MsgID: id, Tagged: tagged, Tag: tag, MsgLength: length, SendID: sendID,
			SegOffset: w.num("seg_offset"), RuntLength: w.num("runt_length"),
		}
		p.ReadIOVCount = w.iov("read_iov", &p.ReadIOV)
		return p, nil
	default:
		if p := w.access(o, typ, dc); p != nil {
			return p, nil
		}
		return w.answer(x, typ)
	}
}

// access builds RTW, RTR and RTA.
func (w *words) access(o wire.Options, typ string, dc bool) wire.Packet {
	sendID, recvID, length := uint32(w.num("send_id")), uint32(w.num("recv_id")), w.num("msg_length")
	switch typ {
	case "EAGER_RTW", "DC_EAGER_RTW":
		p := &wire.EagerRTW{Options: o, DC: dc, SendID: sendID}
		p.RMAIOVCount = w.iov("rma_iov", &p.RMAIOV)
		return p
	case "LONGCTS_RTW", "DC_LONGCTS_RTW":
		p := &wire.LongCTSRTW{
			Options: o, DC: dc, SendID: sendID, MsgLength: length, CreditRequest: uint32(w.or("credit_request", 32)),
		}
		p.RMAIOVCount = w.iov("rma_iov", &p.RMAIOV)
		return p
	case "LONGREAD_RTW":
		p := &wire.LongReadRTW{Options: o, SendID: sendID, MsgLength: length}
		p.RMAIOVCount, p.ReadIOVCount = w.iov("rma_iov", &p.RMAIOV), w.iov("read_iov", &p.ReadIOV)
		return p
	case "SHORT_RTR", "LONGCTS_RTR":
		p := &wire.RTR{
			Options: o, LongCTS: typ == "LONGCTS_RTR", MsgLength: length, RecvID: recvID,
			RecvLength: uint32(w.or("recv_length", length)),
		}
		p.RMAIOVCount = w.iov("rma_iov", &p.RMAIOV)
		return p
	}
	kind, ok := map[string]wire.RTAKind{
		"WRITE_RTA": wire.RTAWrite, "FETCH_RTA": wire.RTAFetch, "COMPARE_RTA": wire.RTACompare, "DC_WRITE_RTA": wire.RTADCWrite,
	}[typ]
	if !ok {
		return nil
	}
	d, op := w.atomic()
	p := &wire.RTA{
		Options: o, Kind: kind, MsgID: uint32(w.num("msg_id")), Datatype: d, Op: op, RecvID: recvID, SendID: sendID,
	}
	p.RMAIOVCount = w.iov("rma_iov", &p.RMAIOV)
	return p
}

// answer builds what is no request.
func (w *words) answer(x *Remote, typ string) (wire.Packet, error) {
	o, connID := w.options(x), uint32(w.connID(x))
	sendID, recvID := uint32(w.num("send_id")), uint32(w.num("recv_id"))
	switch typ {
	case "CTS":
		return &wire.CTS{
			HasConnID: true, ConnID: connID, SendID: sendID, RecvID: recvID, RecvLength: w.num("recv_length"),
			EmulatedRead: w.has("emulated_read"),
		}, nil
	case "CTSDATA":
		return &wire.CTSData{
			RecvID: recvID, SegLength: w.or("seg_length", w.num("len")),
			SegOffset: w.num("seg_offset"), HasConnID: o.HasConnID, ConnID: o.ConnID,
		}, nil
	case "READRSP":
		return &wire.READRSP{
			HasConnID: true, ConnID: connID, RecvID: recvID, SendID: sendID, SegLength: w.or("seg_length", w.num("len")),
		}, nil
	case "ATOMRSP":
		n := w.num("len") + uint64(len(w.operands()))
		return &wire.ATOMRSP{HasConnID: true, ConnID: connID, RecvID: recvID, SegLength: w.or("seg_length", n)}, nil
	case "EOR":
		return &wire.EOR{HasConnID: !w.has("short"), ConnID: connID, SendID: sendID, RecvID: recvID, Short: w.has("short")}, nil
	case "RECEIPT":
		return &wire.Receipt{HasConnID: true, ConnID: connID, TxID: uint32(w.num("tx_id")), MsgID: uint32(w.num("msg_id"))}, nil
	case "READ_NACK":
		return &wire.ReadNACK{HasConnID: true, ConnID: connID, SendID: sendID, RecvID: recvID}, nil
	case "PEER_ERROR":
		return w.peerError(connID), nil
	case "HANDSHAKE":
		return w.handshake(o)
	default:
		return nil, fmt.Errorf("script: no packet type %s", typ)
	}
}
