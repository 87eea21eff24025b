package script

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/efactor/efactor/wire"
)

// words are the fields of a packet line.
type words struct {
	vals map[string]string
	err  error
}

func (w *words) has(name string) bool { _, ok := w.vals[name]; return ok }

func (w *words) num(name string) uint64 {
	v, ok := w.vals[name]
	if !ok || v == "" {
		return 0
	}
	n, err := strconv.ParseUint(v, 0, 64)
	if err != nil && w.err == nil {
		w.err = fmt.Errorf("%s: %w", name, err)
	}
	return n
}

func (w *words) or(name string, def uint64) uint64 {
	if w.has(name) {
		return w.num(name)
	}
	return def
}

// Packet reads a packet from x in the words of wire.Summary: its type, fields by
// the specification's names, len bytes of the pattern with seed. raw_addr and
// connid without a value stand for x's own. What a correct sender wouldn't do:
//
//	raw_addr=N the address of another host, connid=N another endpoint's
//	cut=N      only the first N bytes arrive
//	version=N  another protocol version
//	type=N     another packet type in the same bytes
//	flags=N    flags in addition
//	count=N    rma_iov_count of a write, without the list
//	nextra=N   nextra_p3 of HANDSHAKE, without the words
//	hex=XX     the packet's bytes
func Packet(x *Remote, line []string) ([]byte, error) {
	w := &words{vals: map[string]string{}}
	for _, f := range line[1:] {
		k, v, _ := strings.Cut(f, "=")
		w.vals[k] = v
	}
	if line[0] == "RAW" {
		return hex.DecodeString(w.vals["hex"])
	}
	pkt, err := w.build(x, line[0])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(line, " "), err)
	}
	b := pkt.Append(nil)
	payload := make([]byte, w.num("len"))
	Fill(payload, int(w.num("seg_offset")), int(w.or("seed", 1)))
	b = append(b, payload...)
	if w.has("count") {
		b[4] = byte(w.num("count"))
	}
	if w.has("nextra") {
		n := w.num("nextra")
		b[4], b[5], b[6], b[7] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
	}
	b[0] = byte(w.or("type", uint64(b[0])))
	b[1] = byte(w.or("version", wire.Version))
	b[2] |= byte(w.num("flags"))
	b[3] |= byte(w.num("flags") >> 8)
	if w.has("cut") {
		b = b[:min(int(w.num("cut")), len(b))]
	}
	return b, w.err
}

func (w *words) options(x *Remote) wire.Options {
	o := wire.Options{HasRawAddr: w.has("raw_addr"), HasConnID: w.has("connid"), HasCQData: w.has("cq_data")}
	if o.HasRawAddr {
		o.RawAddr = x.Addr
	}
	if w.vals["raw_addr"] != "" {
		o.RawAddr = wire.MakeRawAddr(GID(byte(w.num("raw_addr"))), x.Addr.QPN(), x.Addr.ConnID())
	}
	if o.HasConnID {
		o.ConnID = uint32(w.connID(x))
	}
	if o.HasCQData {
		o.CQData = w.num("cq_data")
	}
	return o
}

func (w *words) connID(x *Remote) uint64 {
	if v := w.vals["connid"]; v != "" {
		return w.num("connid")
	}
	return uint64(x.Addr.ConnID())
}

func (w *words) build(x *Remote, typ string) (wire.Packet, error) {
	o, connID := w.options(x), uint32(w.connID(x))
	id, tag, tagged := uint32(w.num("msg_id")), w.num("tag"), strings.Contains(typ, "TAGRTM")
	dc := strings.HasPrefix(typ, "DC_")
	switch strings.TrimPrefix(typ, "DC_") {
	case "EAGER_MSGRTM", "EAGER_TAGRTM":
		return &wire.EagerRTM{Options: o, MsgID: id, Tagged: tagged, Tag: tag, DC: dc}, nil
	case "MEDIUM_MSGRTM", "MEDIUM_TAGRTM":
		return &wire.MediumRTM{
			Options: o, MsgID: id, Tagged: tagged, Tag: tag, DC: dc,
			MsgLength: w.num("msg_length"), SegOffset: w.num("seg_offset"),
		}, nil
	case "LONGCTS_MSGRTM", "LONGCTS_TAGRTM":
		return &wire.LongCTSRTM{
			Options: o, MsgID: id, Tagged: tagged, Tag: tag, DC: dc, MsgLength: w.num("msg_length"),
			SendID: uint32(w.num("send_id")), CreditRequest: uint32(w.or("credit_request", 32)),
		}, nil
	case "LONGREAD_MSGRTM", "LONGREAD_TAGRTM":
		return &wire.LongReadRTM{Options: o, MsgID: id, Tagged: tagged, Tag: tag, MsgLength: w.num("msg_length")}, nil
	case "EAGER_RTW":
		return &wire.EagerRTW{Options: o, DC: dc}, nil
	case "SHORT_RTR":
		return &wire.RTR{Options: o, MsgLength: w.num("msg_length"), RecvID: uint32(w.num("recv_id"))}, nil
	case "WRITE_RTA":
		return &wire.RTA{Options: o, MsgID: id}, nil
	case "CTS":
		return &wire.CTS{
			HasConnID: true, ConnID: connID, SendID: uint32(w.num("send_id")),
			RecvID: uint32(w.num("recv_id")), RecvLength: w.num("recv_length"),
		}, nil
	case "CTSDATA":
		return &wire.CTSData{
			RecvID: uint32(w.num("recv_id")), SegLength: w.or("seg_length", w.num("len")),
			SegOffset: w.num("seg_offset"), HasConnID: o.HasConnID, ConnID: o.ConnID,
		}, nil
	case "EOR":
		return &wire.EOR{HasConnID: true, ConnID: connID, SendID: uint32(w.num("send_id"))}, nil
	case "HANDSHAKE":
		return w.handshake(o)
	default:
		return nil, fmt.Errorf("script: no packet type %s", typ)
	}
}

func (w *words) handshake(o wire.Options) (wire.Packet, error) {
	h := &wire.Handshake{
		HasConnID: o.HasConnID, ConnID: o.ConnID,
		HasHostID: w.has("host_id"), HostID: w.num("host_id"),
		HasDeviceVersion: w.has("device_version"), DeviceVersion: uint32(w.num("device_version")),
		HasUserRecvQP: w.has("user_recv_qp"), HasP2P: w.has("p2p"), P2PSupported: true,
	}
	if w.vals["features"] == "" {
		return h, nil
	}
	for _, f := range strings.Split(w.vals["features"], ",") {
		n, err := strconv.ParseUint(f, 10, 8)
		if err != nil {
			return nil, err
		}
		h.Features.Set(wire.Feature(n))
	}
	return h, nil
}
