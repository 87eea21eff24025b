package script

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/efactor/efactor/wire"
)

// words are the fields of a packet line.
type words struct {
	rig  *Rig
	vals map[string]string
	err  error
}

func (w *words) has(name string) bool { _, ok := w.vals[name]; return ok }

func (w *words) num(name string) uint64 {
	v, ok := w.vals[name]
	if !ok || v == "" {
		return 0
	}
	n, err := strconv.ParseUint(w.lastNum(v), 0, 64)
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

// Packet reads a packet from x in the words of wiretext.Summary: its type, fields by
// the specification's names, len bytes of the pattern with seed. raw_addr and
// connid without a value stand for x's own. What a correct sender wouldn't do:
//
//	raw_addr=N the address of another host, connid=N another endpoint's
//	cut=N      only the first N bytes arrive
//	version=N  another protocol version
//	type=N     another packet type in the same bytes
//	flags=N    flags in addition
//	count=N    rma_iov_count, with any list
//	reads=N    read_iov_count, with any list
//	nextra=N   nextra_p3 of HANDSHAKE, without the words
//	hex=XX     the packet's bytes
func (r *Rig) Packet(x *Remote, line []string) ([]byte, error) {
	w := &words{rig: r, vals: map[string]string{}}
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
	b = append(append(b, payload...), w.operands()...)
	w.lie(b)
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

func (w *words) handshake(o wire.Options) (wire.Packet, error) {
	h := &wire.Handshake{
		HasConnID: o.HasConnID, ConnID: o.ConnID,
		HasHostID: w.has("host_id"), HostID: w.num("host_id"),
		HasDeviceVersion: w.has("device_version"), DeviceVersion: uint32(w.num("device_version")),
		HasUserRecvQP: w.has("user_recv_qp"),
		UserRecvQP:    wire.UserRecvQP{QPN: uint32(w.num("user_recv_qp")), QKey: uint32(w.num("user_recv_qkey"))},
		HasP2P:        w.has("p2p"), P2PSupported: true,
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

// lie puts counts into the header that differ from the lists' lengths.
func (w *words) lie(b []byte) {
	put := func(name string, at int) {
		if w.has(name) {
			binary.LittleEndian.PutUint32(b[at:], uint32(w.num(name)))
		}
	}
	put("nextra", 4)
	put("reads", 20)
	if t := wire.Type(b[0]); t.IsRTA() {
		put("count", 8)
	} else {
		put("count", 4)
	}
}

// Packet is Rig.Packet where no memory has a name.
func (x *Remote) Packet(line []string) ([]byte, error) { return (*Rig)(nil).Packet(x, line) }
