package wireshark_test

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// numbers are the values that a frame must have, by name.
type numbers map[string][]uint64

func (n numbers) add(name string, v uint64) { n[name] = append(n[name], v) }

func (n numbers) addBool(name string, v bool) {
	if v {
		n.add(name, 1)
	} else {
		n.add(name, 0)
	}
}

// want returns every number of a packet by the specification's name. It goes by the
// fields of wire's struct, so that one more there must be one more in the dissector.
func want(t *testing.T, pkt wire.Packet) numbers {
	t.Helper()
	n := numbers{}
	n.add("type", uint64(pkt.Type()))
	n.add("version", wire.Version)
	n.addStruct(t, pkt.Type(), "", reflect.ValueOf(pkt).Elem())
	if e, ok := pkt.(*wire.PeerError); ok && e.Form == wire.PeerErrorForm28 { // of which a struct has one field less
		if n.addBool("op_id_valid", e.OpID != wire.NoOpID); e.OpID == wire.NoOpID {
			n["op_id"] = []uint64{0}
		}
	}
	return n
}

func (n numbers) addStruct(t *testing.T, typ wire.Type, prefix string, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		field := v.Type().Field(i).Name
		if field == "Options" {
			n.addStruct(t, typ, prefix, v.Field(i))
		} else if present(typ, v, field) {
			n.addValue(t, typ, prefix+nameOf(field), field, v)
		}
	}
}

// present reports whether packets like this have the field.
func present(typ wire.Type, v reflect.Value, field string) bool {
	switch {
	case slices.Contains(chooses, field), strings.HasPrefix(field, "Has"), strings.HasPrefix(field, "Short"),
		field == "ReadNACK", field == "EmulatedRead":
		return false // they say what else there is, or are flags
	case field == "RefKind":
		return v.Interface().(wire.PeerError).Form == wire.PeerErrorForm20
	case typ == wire.TypePeerError && (field == "MsgID" || field == "Emitter"):
		return v.Interface().(wire.PeerError).Form != wire.PeerErrorForm20
	case field == "P2PSupported":
		field = "P2P"
	case field == "Tag":
		return typ.IsTagged()
	case field == "RecvID" && typ.IsRTA():
		return typ == wire.TypeFetchRTA || typ == wire.TypeCompareRTA
	case field == "SendID":
		switch v.Interface().(type) {
		case wire.EagerRTM, wire.MediumRTM, wire.EagerRTW, wire.RTA:
			return typ.IsDC()
		}
	}
	has := v.FieldByName("Has" + field)
	return !has.IsValid() || has.Bool()
}

// called are the fields whose name isn't simply the specification's in Go's spelling.
var called = map[string]string{
	"TxID": "send_id", "Datatype": "atomic_datatype", "Op": "atomic_op", "Features": "extra_info",
	"RMAIOVCount": "rma_iov_count", "ReadIOVCount": "read_iov_count", "RMAIOV": "rma_iov", "ReadIOV": "read_iov",
	"ConnID": "connid", "CQData": "cq_data", "UserRecvQP": "user_recv_qp", "QKey": "qkey", "P2PSupported": "p2p_supported",
}

var capital = regexp.MustCompile(`([a-z])([A-Z])`)

func nameOf(field string) string {
	if name := called[field]; name != "" {
		return name
	}
	return strings.ToLower(capital.ReplaceAllString(field, "${1}_$2"))
}

func (n numbers) addValue(t *testing.T, typ wire.Type, name, field string, of reflect.Value) {
	t.Helper()
	f := of.FieldByName(field)
	switch v := f.Interface().(type) {
	case bool:
		n.addBool(name, v)
	case wire.RawAddr:
		n.addRawAddr(name, v, of.FieldByName("ShortAddr").Bool())
	case wire.Features:
		n.addFeatures(name, v)
	case wire.UserRecvQP:
		n.addStruct(t, typ, name+".", f)
	case [wire.MaxIOV]wire.RMAIOV:
		for _, e := range v[:of.FieldByName(field+"Count").Uint()] {
			n.add(name+".addr", e.Addr)
			n.add(name+".len", e.Len)
			n.add(name+".key", e.Key)
		}
	default:
		require.True(t, f.CanUint(), "%v: %s", typ, name)
		n.add(name, f.Uint())
	}
}

func (n numbers) addRawAddr(name string, a wire.RawAddr, short bool) {
	size := uint64(wire.RawAddrLen)
	if !short {
		size += 4
	}
	n.add(name+".size", size)
	n.add(name+".qpn", uint64(a.QPN()))
	n.add(name+".connid", uint64(a.ConnID()))
	n.add(name+".pad", uint64(a[18])|uint64(a[19])<<8)
	var reserved uint64
	for i := range 8 {
		reserved |= uint64(a[24+i]) << (8 * i)
	}
	n.add(name+".reserved", reserved)
}

// addFeatures adds the words up to the last that has a bit set, as every release
// sends them, and the named bits.
func (n numbers) addFeatures(name string, v wire.Features) {
	words := len(v)
	for words > 1 && v[words-1] == 0 {
		words--
	}
	n[name] = v[:words]
	n.add("nextra_p3", uint64(words+3))
	for id := wire.Feature(0); id.String()[0] > '9'; id++ {
		n.addBool(name+"."+id.String(), v.Has(id))
	}
}

// addFlags adds the flags of the base header and their bits.
func (n numbers) addFlags(typ wire.Type, flags uint16) {
	n.add("flags", uint64(flags))
	bit := func(name string, mask uint16) { n.addBool("flags."+name, flags&mask != 0) }
	bit("connid_hdr", wire.FlagConnID)
	switch {
	case typ.IsREQ():
		bit("req_opt_raw_addr_hdr", wire.FlagRawAddr)
		bit("req_opt_cq_data_hdr", wire.FlagCQData)
		bit("req_msg", wire.FlagMsg)
		bit("req_tagged", wire.FlagTagged)
		bit("req_rma", wire.FlagRMA)
		bit("req_atomic", wire.FlagAtomic)
		bit("read_nack", wire.FlagReadNACK)
	case typ == wire.TypeCTS:
		bit("cts_emulated_read", wire.FlagCTSEmulatedRead)
	case typ == wire.TypeHandshake:
		bit("handshake_host_id_hdr", wire.FlagHandshakeHostID)
		bit("handshake_device_version_hdr", wire.FlagHandshakeDeviceVersion)
		bit("user_recv_qp", wire.FlagHandshakeUserRecvQP)
		bit("hmem_p2p", wire.FlagHandshakeHMEMP2P)
	}
}
