package wiretext

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

var (
	testRaw  = wire.MakeRawAddr([16]byte{0xfe, 0x80, 8: 0x02, 9: 0x11, 10: 0x22, 11: 0xff, 12: 0xfe, 13: 0x33, 14: 0x44, 15: 0x55}, 0x0a01, 0x69ba9fab)
	testIOV0 = wire.RMAIOV{Addr: 0x7f0011223344, Len: 0x1000, Key: 0x21}
	testIOV1 = wire.RMAIOV{Addr: 0x7f0055667788, Len: 0x64, Key: 0xdeadbeef}

	raw    = wire.Options{HasRawAddr: true, RawAddr: testRaw}
	connid = wire.Options{HasConnID: true, ConnID: 0xa1b2c3d4}
	one    = [wire.MaxIOV]wire.RMAIOV{testIOV0}
)

var cases = []struct {
	pkt  wire.Packet
	data string
	want string
}{
	{
		&wire.EagerRTM{Options: raw}, "0123456789",
		"EAGER_MSGRTM msg_id=0 raw_addr=fi_addr_efa://[fe80::211:22ff:fe33:4455]:2561:1773838251 len=10",
	},
	{
		&wire.EagerRTM{Options: wire.Options{HasCQData: true, CQData: 5}, MsgID: 1, DC: true, SendID: 2, Tagged: true, Tag: 0xff}, "",
		"DC_EAGER_TAGRTM msg_id=1 send_id=2 tag=0xff cq_data=0x5 len=0",
	},
	{
		&wire.MediumRTM{Options: connid, MsgID: 1, MsgLength: 20000, SegOffset: 6680, DC: true, SendID: 4, Tagged: true, Tag: 1}, "x",
		"DC_MEDIUM_TAGRTM msg_id=1 send_id=4 msg_length=20000 seg_offset=6680 tag=0x1 connid=0xa1b2c3d4 len=1",
	},
	{
		&wire.LongCTSRTM{MsgID: 1, MsgLength: 40000, SendID: 2, CreditRequest: 32, Tagged: true, Tag: 1, ReadNACK: true}, "",
		"LONGCTS_TAGRTM msg_id=1 msg_length=40000 send_id=2 credit_request=32 tag=0x1 read_nack len=0",
	},
	{
		&wire.LongReadRTM{MsgID: 1, MsgLength: 40000, SendID: 2, Tagged: true, Tag: 1, ReadIOVCount: 2, ReadIOV: [wire.MaxIOV]wire.RMAIOV{testIOV0, testIOV1}}, "",
		"LONGREAD_TAGRTM msg_id=1 msg_length=40000 send_id=2 tag=0x1 read_iov=[0x7f0011223344+4096@33,0x7f0055667788+100@3735928559]",
	},
	{
		&wire.RuntReadRTM{MsgID: 1, MsgLength: 40000, SendID: 2, SegOffset: 3, RuntLength: 20000, Tagged: true, Tag: 1, ReadIOVCount: 1, ReadIOV: one}, "abc",
		"RUNTREAD_TAGRTM msg_id=1 msg_length=40000 send_id=2 seg_offset=3 runt_length=20000 tag=0x1 read_iov=[0x7f0011223344+4096@33] len=3",
	},
	{
		&wire.EagerRTW{Options: connid, RMAIOVCount: 1, RMAIOV: one, DC: true, SendID: 6}, "abc",
		"DC_EAGER_RTW send_id=6 rma_iov=[0x7f0011223344+4096@33] connid=0xa1b2c3d4 len=3",
	},
	{&wire.EagerRTW{}, "", "EAGER_RTW rma_iov=[] len=0"},
	{
		&wire.LongCTSRTW{RMAIOVCount: 1, RMAIOV: one, MsgLength: 30000, SendID: 3, CreditRequest: 32}, "",
		"LONGCTS_RTW msg_length=30000 send_id=3 credit_request=32 rma_iov=[0x7f0011223344+4096@33] len=0",
	},
	{
		&wire.LongReadRTW{Options: connid, RMAIOVCount: 1, RMAIOV: one, MsgLength: 40000, SendID: 2}, "",
		"LONGREAD_RTW msg_length=40000 send_id=2 rma_iov=[0x7f0011223344+4096@33] connid=0xa1b2c3d4 read_iov=[]",
	},
	{
		&wire.RTR{MsgLength: 100, RecvID: 7, RecvLength: 100, LongCTS: true}, "",
		"LONGCTS_RTR msg_length=100 recv_id=7 recv_length=100 rma_iov=[]",
	},
	{
		&wire.RTA{Kind: wire.RTAWrite, MsgID: 5, Datatype: wire.DatatypeUint64, Op: wire.OpSum}, "12345678",
		"WRITE_RTA msg_id=5 atomic_datatype=UINT64 atomic_op=SUM rma_iov=[] len=8",
	},
	{
		&wire.RTA{Kind: wire.RTAFetch, MsgID: 5, Datatype: 77, Op: 88, RecvID: 8}, "",
		"FETCH_RTA msg_id=5 atomic_datatype=DATATYPE_77 atomic_op=ATOMIC_OP_88 recv_id=8 rma_iov=[] len=0",
	},
	{
		&wire.RTA{Kind: wire.RTADCWrite, MsgID: 5, Datatype: wire.DatatypeInt8, Op: wire.OpBOr, SendID: 9}, "",
		"DC_WRITE_RTA msg_id=5 atomic_datatype=INT8 atomic_op=BOR send_id=9 rma_iov=[] len=0",
	},
	{
		&wire.CTS{EmulatedRead: true, HasConnID: true, ConnID: 0xa1b2c3d4, SendID: 7, RecvID: 9, RecvLength: 65536}, "",
		"CTS send_id=7 recv_id=9 recv_length=65536 emulated_read connid=0xa1b2c3d4",
	},
	{&wire.CTSData{RecvID: 9, SegLength: 2, SegOffset: 3}, "ab", "CTSDATA recv_id=9 seg_length=2 seg_offset=3 len=2"},
	{&wire.READRSP{RecvID: 1, SendID: 2, SegLength: 3}, "abc", "READRSP recv_id=1 send_id=2 seg_length=3 len=3"},
	{&wire.EOR{SendID: 1, RecvID: 2}, "", "EOR send_id=1 recv_id=2"},
	{&wire.ATOMRSP{RecvID: 1, SegLength: 3}, "abc", "ATOMRSP recv_id=1 seg_length=3 len=3"},
	{&wire.Receipt{TxID: 1, MsgID: 2}, "", "RECEIPT tx_id=1 msg_id=2"},
	{&wire.ReadNACK{SendID: 1, RecvID: 2}, "", "READ_NACK send_id=1 recv_id=2"},
	{&wire.PeerError{Form: wire.PeerErrorForm20, OpID: 1, RefKind: wire.RefMsgID, ProvErrno: 7}, "", "PEER_ERROR op_id=1 ref_kind=msg_id prov_errno=7"},
	{&wire.PeerError{MsgID: 3, OpID: 1, Emitter: wire.EmitterRX, ProvErrno: 7}, "", "PEER_ERROR msg_id=3 op_id=1 emitter=rxe prov_errno=7"},
	{&wire.PeerError{MsgID: 3, OpID: wire.NoOpID, Emitter: wire.EmitterTX, ProvErrno: 7}, "", "PEER_ERROR msg_id=3 emitter=txe prov_errno=7"},
	{
		&wire.PeerError{Form: wire.PeerErrorForm28, MsgID: 3, OpID: wire.NoOpID, Emitter: 9, ProvErrno: 7}, "",
		"PEER_ERROR msg_id=3 op_id=0 op_id_valid=0 emitter=9 prov_errno=7",
	},
	{
		&wire.Handshake{
			Features: wire.Features{0x15a}, HasConnID: true, ConnID: 1, HasHostID: true, HostID: 2,
			HasDeviceVersion: true, DeviceVersion: 0xefa1, HasUserRecvQP: true, UserRecvQP: wire.UserRecvQP{QPN: 3, QKey: 4}, HasP2P: true,
		}, "",
		"HANDSHAKE extra_info=0x15a connid=0x1 host_id=0x2 device_version=0xefa1 user_recv_qp=3 user_recv_qkey=0x4 p2p_supported=false",
	},
}

func TestSummary(t *testing.T) {
	for _, c := range cases {
		require.Equal(t, c.want, Summary(append(c.pkt.Append(nil), c.data...)))
	}
}

func TestSummaryOfBadPackets(t *testing.T) {
	for _, c := range []struct{ packet, want string }{
		{"", "BAD wire: TYPE_0: base: packet is too short len=0"},
		{"\x03\x04\x00\x00tail", "BAD wire: CTS: header: packet is too short len=8"},
		{"\x06\x04\x00\x00", "BAD wire: TYPE_6: type: wrong, unknown or retired packet type len=4"},
		{"\x40\x04\x05\x00\x00\x00\x00\x00\x10\x00\x00\x00", "BAD wire: EAGER_MSGRTM: raw_addr size: length is out of bounds len=12"},
	} {
		require.Equal(t, c.want, Summary([]byte(c.packet)))
	}
}

func TestPayload(t *testing.T) {
	body := []byte("0123456789")
	for _, of := range []func(n uint64) wire.Packet{
		func(n uint64) wire.Packet { return &wire.CTSData{SegLength: n} },
		func(n uint64) wire.Packet { return &wire.READRSP{SegLength: n} },
		func(n uint64) wire.Packet { return &wire.ATOMRSP{SegLength: n} },
	} {
		for _, n := range []uint64{0, 1, 9, 10} {
			got, whole := Payload(of(n), body)
			require.True(t, whole)
			require.Equal(t, body[:n], got)
		}
		for _, n := range []uint64{11, 1 << 31, 1 << 63, ^uint64(0)} {
			_, whole := Payload(of(n), body)
			require.False(t, whole)
		}
	}
	got, whole := Payload(&wire.EagerRTM{}, body)
	require.True(t, whole)
	require.Equal(t, body, got)
}

// FuzzSummary gives it any bytes: it tells them in one line, or as bad where they do not parse.
func FuzzSummary(f *testing.F) {
	for _, c := range cases {
		for b := c.pkt.Append(nil); len(b) > 0; b = b[:len(b)-1] {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := "BAD wire: "
		if pkt, _, err := wire.Decode(b); err == nil {
			want = pkt.Type().String() + " "
		}
		s := Summary(b)
		require.True(t, strings.HasPrefix(s, want), s)
		require.NotContains(t, s, "\n")
	})
}
