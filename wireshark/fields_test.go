package wireshark_test

import (
	"encoding/hex"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/wire"
)

// kinds has a packet of every type; the other fields are filled in at random.
var kinds = []wire.Packet{
	&wire.CTS{}, &wire.CTSData{}, &wire.READRSP{}, &wire.EOR{}, &wire.ATOMRSP{}, &wire.Handshake{},
	&wire.Receipt{}, &wire.ReadNACK{}, &wire.PeerError{}, &wire.PeerError{Form: wire.PeerErrorForm20}, &wire.PeerError{Form: wire.PeerErrorForm28},
	&wire.EagerRTM{}, &wire.EagerRTM{Tagged: true}, &wire.EagerRTM{DC: true}, &wire.EagerRTM{DC: true, Tagged: true},
	&wire.MediumRTM{}, &wire.MediumRTM{Tagged: true}, &wire.MediumRTM{DC: true}, &wire.MediumRTM{DC: true, Tagged: true},
	&wire.LongCTSRTM{}, &wire.LongCTSRTM{Tagged: true}, &wire.LongCTSRTM{DC: true}, &wire.LongCTSRTM{DC: true, Tagged: true},
	&wire.LongReadRTM{}, &wire.LongReadRTM{Tagged: true}, &wire.RuntReadRTM{}, &wire.RuntReadRTM{Tagged: true},
	&wire.EagerRTW{}, &wire.EagerRTW{DC: true}, &wire.LongCTSRTW{}, &wire.LongCTSRTW{DC: true}, &wire.LongReadRTW{},
	&wire.RTR{}, &wire.RTR{LongCTS: true},
	&wire.RTA{Kind: wire.RTAWrite}, &wire.RTA{Kind: wire.RTAFetch}, &wire.RTA{Kind: wire.RTACompare}, &wire.RTA{Kind: wire.RTADCWrite},
}

// chooses are the fields by which a struct says of which type it is.
var chooses = []string{"Tagged", "DC", "LongCTS", "Kind", "Form"}

// fill makes a packet of the same type with all other fields at random.
func fill(t *testing.T, rng *rand.Rand, kind wire.Packet) wire.Packet {
	t.Helper()
	pkt := reflect.New(reflect.TypeOf(kind).Elem())
	fillStruct(rng, pkt.Elem(), reflect.ValueOf(kind).Elem())
	p := pkt.Interface().(wire.Packet)
	require.Equal(t, kind.Type(), p.Type())
	q, _, err := wire.Decode(p.Append(nil)) // without what isn't on the wire
	require.NoError(t, err)
	return q
}

func fillStruct(rng *rand.Rand, v, from reflect.Value) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch {
		case slices.Contains(chooses, name):
			f.Set(from.Field(i))
		case strings.HasSuffix(name, "IOVCount"):
			f.SetUint(rng.Uint64N(wire.MaxIOV + 1))
		case name == "Datatype":
			f.SetUint(rng.Uint64N(uint64(wire.DatatypeUint128) + 1))
		case name == "Op":
			f.SetUint(rng.Uint64N(uint64(wire.OpDiff) + 1))
		default:
			fillValue(rng, f, from.Field(i))
		}
	}
}

func fillValue(rng *rand.Rand, v, from reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rng.IntN(2) == 0)
	case reflect.Array:
		for i := range v.Len() {
			fillValue(rng, v.Index(i), from.Index(i))
		}
	case reflect.Struct:
		fillStruct(rng, v, from)
	default:
		v.SetUint(rng.Uint64() >> rng.IntN(v.Type().Bits()) & (1<<v.Type().Bits() - 1))
	}
}

// compare checks a frame against what wire decodes of the packet.
func compare(t *testing.T, f *frame, b []byte) {
	t.Helper()
	pkt, n, err := wire.Decode(b)
	require.NoError(t, err)
	what := wiretext.Summary(b)
	expect := want(t, pkt)
	expect.addFlags(pkt.Type(), uint16(b[2])|uint16(b[3])<<8)
	data, whole := wiretext.Payload(pkt, b[n:])
	require.True(t, whole)
	if pkt.Type().HasData() {
		expect.add("len", uint64(len(data)))
	}

	got := numbers{}
	for name := range f.byName {
		group, _, _ := strings.Cut(name, ".")
		switch {
		case slices.Contains([]string{"src", "dst", "data", "message"}, group), strings.HasSuffix(name, ".gid"),
			slices.Contains(notNumbers, name), slices.Contains(derived, name):
		default:
			got[name] = f.numbers(t, name)
		}
	}
	require.Equal(t, expect, got, "%s", what)
	require.Equal(t, 64+len(b), tile(t, f.Fields, 0), "%s", what)
	v, err := wire.Open(b)
	require.NoError(t, err)
	if a, ok := v.RawAddr(); ok {
		gid := netip.AddrFrom16(a.GID()).String()
		require.Equal(t, []string{a.String(), gid}, []string{f.byName["raw_addr"][0].Show, f.byName["raw_addr.gid"][0].Show}, "%s", what)
	}
	if pkt.Type().HasData() && len(data) > 0 {
		require.Equal(t, hex.EncodeToString(data), f.byName["data"][0].Value)
		if half := len(data) / 2; pkt.Type() == wire.TypeCompareRTA {
			got := []string{f.byName["data.buf"][0].Value, f.byName["data.compare"][0].Value}
			require.Equal(t, []string{hex.EncodeToString(data[:half]), hex.EncodeToString(data[half:])}, got)
		}
	}
}

// notNumbers are fields with other values, or bytes; derived ones follow from other
// packets.
var (
	notNumbers = []string{"raw_addr", "rma_iov", "read_iov", "padding", "reserved"}
	derived    = []string{
		"stream", "request", "response_to", "response_in", "time", "copy_of", "copy_in", "repost_of",
		"zero_recv_length", "beyond_message", "no_request", "repost",
	}
)

// tile checks that fields lie side by side from at on, and gives their end.
func tile(t *testing.T, fields []field, at int) int {
	t.Helper()
	for _, x := range fields {
		if x.Size == 0 { // not of the packet
			continue
		}
		require.Equal(t, at, x.Pos, "%s", x.Name)
		at += x.Size
		switch strings.TrimPrefix(x.Name, "efa_rdm.") {
		case "rma_iov", "read_iov":
			require.Equal(t, at, tile(t, x.Fields, x.Pos), "%s", x.Name)
		}
	}
	return at
}

// withData returns the bytes of a packet with random data, if its type may have some.
func withData(rng *rand.Rand, p wire.Packet) []byte {
	var data []byte
	if p.Type().HasData() {
		data = make([]byte, 2*rng.IntN(50))
	}
	switch p := p.(type) {
	case *wire.CTSData:
		p.SegLength = uint64(len(data))
	case *wire.READRSP:
		p.SegLength = uint64(len(data))
	case *wire.ATOMRSP:
		p.SegLength = uint64(len(data))
	}
	for i := range data {
		data[i] = byte(rng.Uint32())
	}
	return append(p.Append(nil), data...)
}

// TestFields: each field of each packet type has package wire's value.
func TestFields(t *testing.T) {
	var types []wire.Type
	for _, k := range kinds {
		types = append(types, k.Type())
	}
	for i := range 256 {
		typ := wire.Type(i)
		require.Equal(t, typ.Known(), slices.Contains(types, typ), "%v", typ)
	}

	rng := rand.New(rand.NewPCG(1, 2))
	var packets [][]byte
	rec := newRecording(t)
	for range 20 {
		for _, k := range kinds {
			b := withData(rng, fill(t, rng, k))
			packets = append(packets, b)
			rec.bytes(true, alice, bob, b)
		}
	}
	capture := rec.save()
	frames := dissect(t, capture)
	require.Len(t, frames, len(packets))
	for i, f := range frames {
		require.False(t, f.has("malformed"), "%s", wiretext.Summary(packets[i]))
		compare(t, f, packets[i])
		require.Equal(t, alice.String(), f.byName["src"][0].Show)
		require.Equal(t, bob.String(), f.byName["dst"][0].Show)
	}
	require.Equal(t, []uint64{10}, frames[0].numbers(t, "src.qpn"))
	require.Equal(t, []uint64{0x100b}, frames[0].numbers(t, "dst.connid"))
	require.Equal(t, "fe80::a", frames[0].byName["src.gid"][0].Show)
	for i, row := range columns(t, capture, "efa_rdm", "_ws.col.Protocol", "_ws.col.Source", "_ws.col.Destination", "_ws.col.Info") {
		require.Equal(t, []string{"EFA-RDM", "[fe80::a]:10", "[fe80::b]:11"}, row[:3])
		summary(t, wiretext.Summary(packets[i]), row[3])
	}
}

var (
	address = regexp.MustCompile(` raw_addr=\S+`)
	leftOut = regexp.MustCompile(` (user_recv_q|p2p_)\S+`)
)

// summary checks the Info column against wire's own words for the packet: the same, if
// not in the same order.
func summary(t *testing.T, words, info string) {
	t.Helper()
	words = strings.NewReplacer(" tx_id=", " send_id=", " read_nack", "", " emulated_read", "").Replace(words)
	w := strings.Fields(leftOut.ReplaceAllString(address.ReplaceAllString(words, " raw_addr"), ""))
	i := strings.Fields(leftOut.ReplaceAllString(info, ""))
	require.Equal(t, w[0], i[0])
	require.ElementsMatch(t, w, i)
}
