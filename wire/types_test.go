package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTypes writes every property of every packet type out, so that a change
// of the table in types.go shows here.
func TestTypes(t *testing.T) {
	const (
		req = 1 << iota
		known
		tagged
		dc
		msgID
		data
	)
	baseline := map[Type]struct {
		name  string
		props int
	}{
		1:   {"RTS", 0},
		2:   {"CONNACK", 0},
		3:   {"CTS", known},
		4:   {"CTSDATA", known | data},
		5:   {"READRSP", known | data},
		7:   {"EOR", known},
		8:   {"ATOMRSP", known | data},
		9:   {"HANDSHAKE", known},
		10:  {"RECEIPT", known},
		11:  {"READ_NACK", known},
		12:  {"PEER_ERROR", known},
		64:  {"EAGER_MSGRTM", known | req | msgID | data},
		65:  {"EAGER_TAGRTM", known | req | msgID | data | tagged},
		66:  {"MEDIUM_MSGRTM", known | req | msgID | data},
		67:  {"MEDIUM_TAGRTM", known | req | msgID | data | tagged},
		68:  {"LONGCTS_MSGRTM", known | req | msgID | data},
		69:  {"LONGCTS_TAGRTM", known | req | msgID | data | tagged},
		70:  {"EAGER_RTW", known | req | data},
		71:  {"LONGCTS_RTW", known | req | data},
		72:  {"SHORT_RTR", known | req},
		73:  {"LONGCTS_RTR", known | req},
		74:  {"WRITE_RTA", known | req | msgID | data},
		75:  {"FETCH_RTA", known | req | msgID | data},
		76:  {"COMPARE_RTA", known | req | msgID | data},
		128: {"LONGREAD_MSGRTM", known | req | msgID},
		129: {"LONGREAD_TAGRTM", known | req | msgID | tagged},
		130: {"LONGREAD_RTW", known | req},
		131: {"READ_RTR", req},
		133: {"DC_EAGER_MSGRTM", known | req | msgID | data | dc},
		134: {"DC_EAGER_TAGRTM", known | req | msgID | data | dc | tagged},
		135: {"DC_MEDIUM_MSGRTM", known | req | msgID | data | dc},
		136: {"DC_MEDIUM_TAGRTM", known | req | msgID | data | dc | tagged},
		137: {"DC_LONGCTS_MSGRTM", known | req | msgID | data | dc},
		138: {"DC_LONGCTS_TAGRTM", known | req | msgID | data | dc | tagged},
		139: {"DC_EAGER_RTW", known | req | data | dc},
		140: {"DC_LONGCTS_RTW", known | req | data | dc},
		141: {"DC_WRITE_RTA", known | req | msgID | data | dc},
		142: {"RUNTCTS_MSGRTM", req | msgID},
		143: {"RUNTCTS_TAGRTM", req | msgID | tagged},
		144: {"RUNTCTS_RTW", req},
		145: {"RUNTREAD_MSGRTM", known | req | msgID | data},
		146: {"RUNTREAD_TAGRTM", known | req | msgID | data | tagged},
		147: {"RUNTREAD_RTW", req},
	}
	for i := range 256 {
		typ := Type(i)
		want, ok := baseline[typ]
		if !ok {
			require.Equal(t, "TYPE_", typ.String()[:5])
		} else {
			require.Equal(t, want.name, typ.String())
		}
		for prop, got := range map[int]bool{
			req: typ.IsREQ(), known: typ.Known(), tagged: typ.IsTagged(),
			dc: typ.IsDC(), msgID: typ.HasMsgID(), data: typ.HasData(),
		} {
			require.Equal(t, want.props&prop != 0, got, "%v %#x", typ, prop)
		}
		kinds := 0
		for _, is := range []bool{typ.IsRTM(), typ.IsRTW(), typ.IsRTR(), typ.IsRTA()} {
			if is {
				kinds++
			}
		}
		require.Equal(t, typ.IsREQ(), kinds == 1, "%v", typ)
		require.Equal(t, typ.HasMsgID(), typ.IsRTM() || typ.IsRTA(), "%v", typ)
	}
	require.Equal(t, "TYPE_132", Type(132).String())
}

// TestHeaderLengths has the sizes that libfabric's efa_rdm_protocol.h asserts of
// its structs (EFA_RDM_ENSURE_HEADER_SIZE). Of HANDSHAKE it has the size with
// no word of extra_info, and of a list the size without its entries.
func TestHeaderLengths(t *testing.T) {
	require.Equal(t, 4, HeaderLen)
	require.Equal(t, 24, RMAIOVLen)
	require.Equal(t, 32, RawAddrLen)
	require.Len(t, (&Options{HasRawAddr: true}).appendOptions(nil), 40)
	require.Len(t, (&Options{HasCQData: true}).appendOptions(nil), 8)
	require.Len(t, (&Options{HasConnID: true}).appendOptions(nil), 4)
	for _, c := range []struct {
		pkt  Packet
		size int
	}{
		{&CTS{}, 24},
		{&CTSData{}, 24},
		{&CTSData{HasConnID: true}, 32},
		{&READRSP{}, 24},
		{&EOR{}, 16},
		{&ATOMRSP{}, 24},
		{&Handshake{}, 16},
		{&Receipt{}, 16},
		{&ReadNACK{}, 16},
		{&PeerError{}, 24},
		{&PeerError{Form: PeerErrorForm20}, 20},
		{&PeerError{Form: PeerErrorForm28}, 28},
		{&EagerRTM{}, 8},
		{&EagerRTM{Tagged: true}, 16},
		{&EagerRTM{DC: true}, 16},
		{&EagerRTM{DC: true, Tagged: true}, 24},
		{&MediumRTM{}, 24},
		{&MediumRTM{Tagged: true}, 32},
		{&MediumRTM{DC: true}, 32},
		{&MediumRTM{DC: true, Tagged: true}, 40},
		{&LongCTSRTM{}, 24},
		{&LongCTSRTM{Tagged: true}, 32},
		{&LongCTSRTM{DC: true}, 24},
		{&LongCTSRTM{DC: true, Tagged: true}, 32},
		{&LongReadRTM{}, 24},
		{&LongReadRTM{Tagged: true}, 32},
		{&RuntReadRTM{}, 40},
		{&RuntReadRTM{Tagged: true}, 48},
		{&EagerRTW{}, 8},
		{&EagerRTW{DC: true}, 16},
		{&LongCTSRTW{}, 24},
		{&LongCTSRTW{DC: true}, 24},
		{&LongReadRTW{}, 24},
		{&RTR{}, 24},
		{&RTR{LongCTS: true}, 24},
		{&RTA{Kind: RTAWrite}, 24},
		{&RTA{Kind: RTAFetch}, 24},
		{&RTA{Kind: RTACompare}, 24},
		{&RTA{Kind: RTADCWrite}, 24},
		// What libfabric puts into an eager packet at an MTU of 8928.
		{&EagerRTM{Options: Options{HasRawAddr: true}}, 8928 - 8880},
		{&EagerRTM{Options: Options{HasRawAddr: true}, Tagged: true}, 8928 - 8872},
		{&EagerRTM{Options: Options{HasConnID: true}}, 8928 - 8916},
		{&EagerRTM{Options: Options{HasConnID: true}, Tagged: true}, 8928 - 8908},
	} {
		require.Len(t, c.pkt.Append(nil), c.size, "%v", c.pkt.Type())
	}

	// The largest headers.
	both := Options{HasRawAddr: true, HasCQData: true}
	require.Len(t, (&LongCTSRTW{Options: both, RMAIOVCount: MaxIOV}).Append(nil), MaxHeaderLen)
	all := Options{HasRawAddr: true, HasCQData: true, HasConnID: true}
	require.Len(t, (&LongReadRTW{Options: all, RMAIOVCount: MaxIOV, ReadIOVCount: MaxIOV}).Append(nil), MaxAppendLen)
}

func TestOpen(t *testing.T) {
	v, err := Open([]byte{64, 4, 0x05, 0x80, 99})
	require.NoError(t, err)
	require.Equal(t, Base{Type: TypeEagerMsgRTM, Version: 4, Flags: 0x8005}, v.Base)

	for _, c := range []struct {
		name  string
		bytes []byte
		cause error
		text  string
	}{
		{"empty", nil, ErrShort, "wire: TYPE_0: base: packet is too short"},
		{"three bytes", []byte{3, 4, 0}, ErrShort, "wire: TYPE_0: base: packet is too short"},
		{"older version", []byte{3, 3, 0, 0}, ErrVersion, "wire: CTS: version: protocol version is not 4"},
		{"newer version", []byte{200, 5, 0, 0}, ErrVersion, "wire: TYPE_200: version: protocol version is not 4"},
		{"sentinel", []byte{0, 4, 0, 0}, ErrType, "wire: TYPE_0: type: wrong, unknown or retired packet type"},
		{"RTS", []byte{1, 4, 0, 0}, ErrType, "wire: RTS: type: wrong, unknown or retired packet type"},
		{"CONNACK", []byte{2, 4, 0, 0}, ErrType, "wire: CONNACK: type: wrong, unknown or retired packet type"},
		{"internal", []byte{6, 4, 0, 0}, ErrType, "wire: TYPE_6: type: wrong, unknown or retired packet type"},
		{"unassigned", []byte{132, 4, 0, 0}, ErrType, "wire: TYPE_132: type: wrong, unknown or retired packet type"},
		{"end marker", []byte{148, 4, 0, 0}, ErrType, "wire: TYPE_148: type: wrong, unknown or retired packet type"},
		{"READ_RTR", []byte{131, 4, 0, 0}, ErrNotSupported, "wire: READ_RTR: type: packet type without a known layout"},
		{"RUNTCTS", []byte{142, 4, 0, 0}, ErrNotSupported, "wire: RUNTCTS_MSGRTM: type: packet type without a known layout"},
		{"RUNTREAD_RTW", []byte{147, 4, 0, 0}, ErrNotSupported, "wire: RUNTREAD_RTW: type: packet type without a known layout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, err := Open(c.bytes)
			require.ErrorIs(t, err, c.cause)
			require.EqualError(t, err, c.text)
			require.Equal(t, View{b: c.bytes}, v)
		})
	}
}
