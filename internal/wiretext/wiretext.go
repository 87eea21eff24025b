// Package wiretext tells packets in words, for the logs, captures and scenario files of tests.
package wiretext

import (
	"fmt"
	"strings"

	"github.com/efactor/efactor/wire"
)

// Summary describes a packet in one line: its type, its fields under the specification's
// names, and as len the bytes of data behind the headers if the type may have data.
//
//	EAGER_MSGRTM msg_id=0 raw_addr=fi_addr_efa://[fe80::1]:7:9 len=10
//	CTS send_id=7 recv_id=9 recv_length=65536 connid=0xa1b2c3d4
//
// A packet that doesn't parse gives the error and the datagram's length. Summary
// never panics.
func Summary(b []byte) string {
	pkt, n, err := wire.Decode(b)
	if err != nil {
		return fmt.Sprintf("BAD %v len=%d", err, len(b))
	}
	l := &line{}
	l.WriteString(pkt.Type().String())
	l.fields(pkt)
	if pkt.Type().HasData() {
		l.add("len", len(b)-n)
	}
	return l.String()
}

// Payload is the data of a packet, of which body is what follows the headers in the datagram: as
// many bytes as seg_length says, where there is one. It reports false if body is shorter.
func Payload(pkt wire.Packet, body []byte) ([]byte, bool) {
	n := uint64(len(body))
	switch p := pkt.(type) {
	case *wire.CTSData:
		n = p.SegLength
	case *wire.READRSP:
		n = p.SegLength
	case *wire.ATOMRSP:
		n = p.SegLength
	}
	if n > uint64(len(body)) {
		return nil, false
	}
	return body[:n], true
}

// line collects the name=value words of Summary.
type line struct{ strings.Builder }

func (l *line) add(name string, v any) { fmt.Fprintf(l, " %s=%v", name, v) }

func (l *line) hex(name string, v any) { fmt.Fprintf(l, " %s=0x%x", name, v) }

// hexIf adds a field that the packet may lack.
func (l *line) hexIf(has bool, name string, v any) {
	if has {
		l.hex(name, v)
	}
}

// values adds the fields that names lists, in order.
func (l *line) values(names string, of ...any) {
	for i, name := range strings.Fields(names) {
		l.add(name, of[i])
	}
}

func (l *line) word(has bool, word string) {
	if has {
		l.WriteString(" " + word)
	}
}

func (l *line) connID(has bool, connid uint32) { l.hexIf(has, "connid", connid) }

func (l *line) options(o *wire.Options) {
	if o.HasRawAddr {
		l.add("raw_addr", o.RawAddr)
	}
	l.hexIf(o.HasCQData, "cq_data", o.CQData)
	l.connID(o.HasConnID, o.ConnID)
}

// iov writes a list as addr+len@key, comma-separated.
func (l *line) iov(name string, iov [wire.MaxIOV]wire.RMAIOV, n uint32) {
	entries := make([]string, n)
	for i := range entries {
		entries[i] = fmt.Sprintf("0x%x+%d@%d", iov[i].Addr, iov[i].Len, iov[i].Key)
	}
	l.add(name, "["+strings.Join(entries, ",")+"]")
}

// fields adds the fields of a packet, in the order in which they stand on the wire.
func (l *line) fields(pkt wire.Packet) {
	switch p := pkt.(type) {
	case *wire.CTS:
		l.values("send_id recv_id recv_length", p.SendID, p.RecvID, p.RecvLength)
		l.word(p.EmulatedRead, "emulated_read")
		l.connID(p.HasConnID, p.ConnID)
	case *wire.CTSData:
		l.values("recv_id seg_length seg_offset", p.RecvID, p.SegLength, p.SegOffset)
		l.connID(p.HasConnID, p.ConnID)
	case *wire.READRSP:
		l.values("recv_id send_id seg_length", p.RecvID, p.SendID, p.SegLength)
		l.connID(p.HasConnID, p.ConnID)
	case *wire.ATOMRSP:
		l.values("recv_id seg_length", p.RecvID, p.SegLength)
		l.connID(p.HasConnID, p.ConnID)
	case *wire.EOR:
		l.values("send_id recv_id", p.SendID, p.RecvID)
		l.connID(p.HasConnID, p.ConnID)
	case *wire.ReadNACK:
		l.values("send_id recv_id", p.SendID, p.RecvID)
		l.connID(p.HasConnID, p.ConnID)
	case *wire.Receipt:
		l.values("tx_id msg_id", p.TxID, p.MsgID)
		l.connID(p.HasConnID, p.ConnID)
	case *wire.Handshake:
		l.handshake(p)
	case *wire.PeerError:
		l.peerError(p)
	default:
		l.request(pkt)
	}
}

func (l *line) handshake(p *wire.Handshake) {
	words := len(p.Features)
	for words > 1 && p.Features[words-1] == 0 {
		words--
	}
	for _, w := range p.Features[:words] {
		l.hex("extra_info", w)
	}
	l.connID(p.HasConnID, p.ConnID)
	l.hexIf(p.HasHostID, "host_id", p.HostID)
	l.hexIf(p.HasDeviceVersion, "device_version", p.DeviceVersion)
	if p.HasUserRecvQP {
		l.add("user_recv_qp", p.UserRecvQP.QPN)
		l.hex("user_recv_qkey", p.UserRecvQP.QKey)
	}
	if p.HasP2P {
		l.add("p2p_supported", p.P2PSupported)
	}
}

func (l *line) peerError(p *wire.PeerError) {
	has := p.OpID != wire.NoOpID
	switch {
	case p.Form == wire.PeerErrorForm20:
		l.values("op_id ref_kind", p.OpID, p.RefKind)
	case p.Form == wire.PeerErrorForm28 && has:
		l.values("msg_id op_id op_id_valid emitter", p.MsgID, p.OpID, 1, p.Emitter)
	case p.Form == wire.PeerErrorForm28:
		l.values("msg_id op_id op_id_valid emitter", p.MsgID, 0, 0, p.Emitter)
	case has:
		l.values("msg_id op_id emitter", p.MsgID, p.OpID, p.Emitter)
	default:
		l.values("msg_id emitter", p.MsgID, p.Emitter)
	}
	l.add("prov_errno", p.ProvErrno)
	l.connID(p.HasConnID, p.ConnID)
}

// request adds the fields of the packets that begin an operation (§3.1).
func (l *line) request(pkt wire.Packet) {
	switch p := pkt.(type) {
	case *wire.EagerRTM:
		l.add("msg_id", p.MsgID)
		if p.DC {
			l.add("send_id", p.SendID)
		}
		l.hexIf(p.Tagged, "tag", p.Tag)
		l.options(&p.Options)
	case *wire.MediumRTM:
		l.add("msg_id", p.MsgID)
		if p.DC {
			l.add("send_id", p.SendID)
		}
		l.values("msg_length seg_offset", p.MsgLength, p.SegOffset)
		l.hexIf(p.Tagged, "tag", p.Tag)
		l.options(&p.Options)
	case *wire.LongCTSRTM:
		l.values("msg_id msg_length send_id credit_request", p.MsgID, p.MsgLength, p.SendID, p.CreditRequest)
		l.hexIf(p.Tagged, "tag", p.Tag)
		l.word(p.ReadNACK, "read_nack")
		l.options(&p.Options)
	case *wire.LongReadRTM:
		l.values("msg_id msg_length send_id", p.MsgID, p.MsgLength, p.SendID)
		l.hexIf(p.Tagged, "tag", p.Tag)
		l.options(&p.Options)
		l.iov("read_iov", p.ReadIOV, p.ReadIOVCount)
	case *wire.RuntReadRTM:
		l.values("msg_id msg_length send_id seg_offset runt_length", p.MsgID, p.MsgLength, p.SendID, p.SegOffset, p.RuntLength)
		l.hexIf(p.Tagged, "tag", p.Tag)
		l.options(&p.Options)
		l.iov("read_iov", p.ReadIOV, p.ReadIOVCount)
	case *wire.EagerRTW:
		if p.DC {
			l.add("send_id", p.SendID)
		}
		l.iov("rma_iov", p.RMAIOV, p.RMAIOVCount)
		l.options(&p.Options)
	case *wire.LongCTSRTW:
		l.values("msg_length send_id credit_request", p.MsgLength, p.SendID, p.CreditRequest)
		l.iov("rma_iov", p.RMAIOV, p.RMAIOVCount)
		l.options(&p.Options)
	case *wire.LongReadRTW:
		l.values("msg_length send_id", p.MsgLength, p.SendID)
		l.iov("rma_iov", p.RMAIOV, p.RMAIOVCount)
		l.options(&p.Options)
		l.iov("read_iov", p.ReadIOV, p.ReadIOVCount)
	case *wire.RTR:
		l.values("msg_length recv_id recv_length", p.MsgLength, p.RecvID, p.RecvLength)
		l.iov("rma_iov", p.RMAIOV, p.RMAIOVCount)
		l.options(&p.Options)
	case *wire.RTA:
		l.values("msg_id atomic_datatype atomic_op", p.MsgID, p.Datatype, p.Op)
		switch p.Kind {
		case wire.RTAFetch, wire.RTACompare:
			l.add("recv_id", p.RecvID)
		case wire.RTADCWrite:
			l.add("send_id", p.SendID)
		default: // padding
		}
		l.iov("rma_iov", p.RMAIOV, p.RMAIOVCount)
		l.options(&p.Options)
	}
}
