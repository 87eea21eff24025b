package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

var nonREQCases = []codecCase{
	{
		name: "connid",
		pkt:  &CTS{HasConnID: true, ConnID: 0xa1b2c3d4, SendID: 7, RecvID: 9, RecvLength: 0x10000},
		wire: `
		03 04 00 80             # type=CTS version=4 flags=CONNID_HDR
		d4 c3 b2 a1             # multiuse=connid
		07 00 00 00             # send_id
		09 00 00 00             # recv_id
		00 00 01 00 00 00 00 00 # recv_length`,
	},
	{
		name: "emulated_read",
		pkt:  &CTS{EmulatedRead: true, HasConnID: true, ConnID: 1, SendID: 0xffffffff, RecvID: 2, RecvLength: 1 << 40},
		wire: `
		03 04 80 80             # flags=CONNID_HDR|CTS_EMULATED_READ
		01 00 00 00             # multiuse=connid
		ff ff ff ff             # send_id
		02 00 00 00             # recv_id
		00 00 00 00 00 01 00 00 # recv_length`,
	},
	{
		name: "no_connid", // release 1.10 to 1.13
		pkt:  &CTS{SendID: 1, RecvID: 2, RecvLength: 3},
		wire: `
		03 04 00 00             # flags=0
		00 00 00 00             # multiuse=padding
		01 00 00 00             # send_id
		02 00 00 00             # recv_id
		03 00 00 00 00 00 00 00 # recv_length`,
	},
	{
		name: "plain",
		pkt:  &CTSData{RecvID: 9, SegLength: 0x2218, SegOffset: 0x21f8},
		wire: `
		04 04 00 00             # type=CTSDATA
		09 00 00 00             # recv_id
		18 22 00 00 00 00 00 00 # seg_length
		f8 21 00 00 00 00 00 00 # seg_offset`,
	},
	{
		name: "connid",
		pkt:  &CTSData{RecvID: 9, SegLength: 1, SegOffset: 1 << 32, HasConnID: true, ConnID: 0x0306},
		wire: `
		04 04 00 80             # type=CTSDATA flags=CONNID_HDR
		09 00 00 00             # recv_id
		01 00 00 00 00 00 00 00 # seg_length
		00 00 00 00 01 00 00 00 # seg_offset
		06 03 00 00             # connid
		00 00 00 00             # padding`,
	},
	{
		name: "connid", // recv_id first: the table has them swapped
		pkt:  &READRSP{HasConnID: true, ConnID: 0x5890d791, RecvID: 7, SendID: 8, SegLength: 100},
		wire: `
		05 04 00 80             # type=READRSP flags=CONNID_HDR
		91 d7 90 58             # multiuse=connid
		07 00 00 00             # recv_id
		08 00 00 00             # send_id
		64 00 00 00 00 00 00 00 # seg_length`,
	},
	{
		name: "no_connid",
		pkt:  &READRSP{RecvID: 1, SendID: 2, SegLength: 3},
		wire: `
		05 04 00 00 00 00 00 00 # base, multiuse=padding
		01 00 00 00 02 00 00 00 # recv_id, send_id
		03 00 00 00 00 00 00 00 # seg_length`,
	},
	{
		name: "connid",
		pkt:  &EOR{SendID: 2, RecvID: 5, HasConnID: true, ConnID: 0x20601440},
		wire: `
		07 04 00 80 # type=EOR flags=CONNID_HDR
		02 00 00 00 # send_id
		05 00 00 00 # recv_id
		40 14 60 20 # multiuse=connid`,
	},
	{
		name:   "no_connid",
		minLen: EORShortLen, // as release 1.13 sends it
		pkt:    &EOR{SendID: 2, RecvID: 5},
		wire: `
		07 04 00 00 # type=EOR
		02 00 00 00 # send_id
		05 00 00 00 # recv_id
		00 00 00 00 # multiuse=padding`,
	},
	{
		name: "connid",
		pkt:  &ATOMRSP{HasConnID: true, ConnID: 0x1dec54fc, RecvID: 3, SegLength: 32},
		wire: `
		08 04 00 80             # type=ATOMRSP flags=CONNID_HDR
		fc 54 ec 1d             # multiuse=connid
		00 00 00 00             # reserved
		03 00 00 00             # recv_id
		20 00 00 00 00 00 00 00 # seg_length`,
	},
	{
		name: "no_connid",
		pkt:  &ATOMRSP{RecvID: 3, SegLength: 8},
		wire: `
		08 04 00 00 00 00 00 00 # base, multiuse=padding
		00 00 00 00 03 00 00 00 # reserved, recv_id
		08 00 00 00 00 00 00 00 # seg_length`,
	},
	{
		name: "connid",
		pkt:  &Receipt{TxID: 4, MsgID: 6, HasConnID: true, ConnID: 0x7d5044b0},
		wire: `
		0a 04 00 80 # type=RECEIPT flags=CONNID_HDR
		04 00 00 00 # tx_id
		06 00 00 00 # msg_id
		b0 44 50 7d # multiuse=connid`,
	},
	{
		name: "no_connid",
		pkt:  &Receipt{TxID: 4, MsgID: 6},
		wire: `0a 04 00 00 04 00 00 00 06 00 00 00 00 00 00 00`,
	},
	{
		name: "connid",
		pkt:  &ReadNACK{SendID: 2, RecvID: 5, HasConnID: true, ConnID: 0x4701b787},
		wire: `
		0b 04 00 80 # type=READ_NACK flags=CONNID_HDR
		02 00 00 00 # send_id
		05 00 00 00 # recv_id
		87 b7 01 47 # multiuse=connid`,
	},
	{
		name: "no_connid",
		pkt:  &ReadNACK{SendID: 2, RecvID: 5},
		wire: `0b 04 00 00 02 00 00 00 05 00 00 00 00 00 00 00`,
	},
	{
		name: "connid_20", // libfabric main of August 2026
		pkt:  &PeerError{Form: PeerErrorForm20, OpID: 11, RefKind: RefMsgIDSkip, ProvErrno: 7, HasConnID: true, ConnID: 0x10203040},
		wire: `
		0c 04 00 80 # type=PEER_ERROR flags=CONNID_HDR
		0b 00 00 00 # op_id
		02 00 00 00 # ref_kind
		07 00 00 00 # prov_errno
		40 30 20 10 # connid`,
	},
	{
		name: "no_connid_20",
		pkt:  &PeerError{Form: PeerErrorForm20, OpID: 11, RefKind: RefOpe, ProvErrno: 4127},
		wire: `0c 04 00 00 0b 00 00 00 00 00 00 00 1f 10 00 00 00 00 00 00`,
	},
	{
		name: "receiver_24", // scenario abort/ids-longread of libfabric-like27-abort
		pkt:  &PeerError{MsgID: 6, OpID: 3, Emitter: EmitterRX, ProvErrno: 7, HasConnID: true, ConnID: 0x67133c60},
		wire: `
		0c 04 00 80 # type=PEER_ERROR flags=CONNID_HDR
		06 00 00 00 # msg_id
		03 00 00 00 # op_id
		02 00 00 00 # emitter=rxe
		07 00 00 00 # prov_errno
		60 3c 13 67 # connid`,
	},
	{
		name: "sender_24", // abort/longcts
		pkt:  &PeerError{MsgID: 1, OpID: NoOpID, Emitter: EmitterTX, ProvErrno: 0x1004, HasConnID: true, ConnID: 0x07ff768e},
		wire: `0c 04 00 80 01 00 00 00 ff ff ff ff 01 00 00 00 04 10 00 00 8e 76 ff 07`,
	},
	{
		name: "no_connid_24",
		pkt:  &PeerError{MsgID: 1, OpID: 2, Emitter: EmitterRX, ProvErrno: 7},
		wire: `0c 04 00 00 01 00 00 00 02 00 00 00 02 00 00 00 07 00 00 00 00 00 00 00`,
	},
	{
		name: "sender_28", // abort/unseen-longread-tag of libfabric-main28-abort
		pkt: &PeerError{
			Form: PeerErrorForm28, MsgID: 5, OpID: NoOpID, Emitter: EmitterTX, ProvErrno: 0x101f, HasConnID: true, ConnID: 0x73310817,
		},
		wire: `
		0c 04 00 80 # type=PEER_ERROR flags=CONNID_HDR
		05 00 00 00 # msg_id
		00 00 00 00 # op_id
		00 00 00 00 # op_id_valid
		01 00 00 00 # emitter_ope_type=txe
		1f 10 00 00 # prov_errno
		17 08 31 73 # connid`,
	},
	{
		name: "receiver_28",
		pkt: &PeerError{
			Form: PeerErrorForm28, MsgID: 6, OpID: 3, Emitter: EmitterRX, ProvErrno: 7, HasConnID: true, ConnID: 0x67133c60,
		},
		wire: `0c 04 00 80 06 00 00 00 03 00 00 00 01 00 00 00 02 00 00 00 07 00 00 00 60 3c 13 67`,
	},
	{
		name: "no_connid_28",
		pkt:  &PeerError{Form: PeerErrorForm28, MsgID: 6, OpID: 3, Emitter: EmitterRX, ProvErrno: 7},
		wire: `0c 04 00 00 06 00 00 00 03 00 00 00 01 00 00 00 02 00 00 00 07 00 00 00 00 00 00 00`,
	},
}

// TestPeerErrorForms: the length alone says which form a PEER_ERROR has, and with it where
// the connid is. One of another length has none of the three, so its fields are not looked at.
func TestPeerErrorForms(t *testing.T) {
	b := bytes.Repeat([]byte{0x11}, 40)
	copy(b, []byte{12, 4, 0, 0x80})
	for size := HeaderLen; size <= len(b); size++ {
		for i := size - 4; i < size && size >= PeerErrorLen20; i++ {
			b[i] = byte(size) // the last field
		}
		v, err := Open(b[:size:size])
		require.NoError(t, err)
		connid, has := v.ConnID()
		_, err = new(PeerError).Read(&v)
		switch size {
		case 20, 24, 28:
			require.NoError(t, err)
			require.True(t, has)
			require.Equal(t, uint32(size)*0x01010101, connid, "%d bytes", size)
		default:
			require.False(t, has, "%d bytes", size)
			if size < PeerErrorLen28 {
				require.ErrorIs(t, err, ErrShort)
			} else {
				require.ErrorIs(t, err, ErrLength)
			}
		}
	}
}

func TestEORShort(t *testing.T) {
	short := EOR{SendID: 2, RecvID: 5, Short: true}
	b := short.Append(nil)
	require.Equal(t, []byte{7, 4, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0}, b)
	for size := EORShortLen; size <= EORLen+4; size++ {
		var got EOR
		n, err := parse(&got, append(b, make([]byte, 8)...)[:size])
		require.NoError(t, err)
		want, wantLen := short, EORShortLen
		if size >= EORLen {
			want.Short, wantLen = false, EORLen
		}
		require.Equal(t, want, got)
		require.Equal(t, wantLen, n)
	}
	for i := range EORShortLen {
		requireParseFails(t, &EOR{}, b[:i:i], ErrShort)
	}
	// A connid has no place in it.
	require.Equal(t, b, (&EOR{SendID: 2, RecvID: 5, Short: true, HasConnID: true, ConnID: 9}).Append(nil))

	// With the flag, the word must be there.
	b = (&EOR{HasConnID: true, ConnID: 9}).Append(nil)
	requireParseFails(t, &EOR{}, b[:EORShortLen], ErrShort)
}

func TestRefKindString(t *testing.T) {
	require.Equal(t, "ope", RefOpe.String())
	require.Equal(t, "msg_id", RefMsgID.String())
	require.Equal(t, "msg_id_skip", RefMsgIDSkip.String())
	require.Equal(t, "3", RefKind(3).String())
}
