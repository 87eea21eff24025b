package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

var eagerCases = []codecCase{
	{
		name: "bare",
		pkt:  &EagerRTM{MsgID: 0x01020304},
		wire: `
		40 04 04 00 # type=EAGER_MSGRTM version=4 flags=REQ_MSG
		04 03 02 01 # msg_id`,
	},
	{
		name: "raw_addr",
		pkt:  &EagerRTM{Options: Options{HasRawAddr: true, RawAddr: testRaw}, MsgID: 1},
		wire: `
		40 04 05 00             # flags=REQ_MSG|REQ_OPT_RAW_ADDR_HDR
		01 00 00 00             # msg_id
` + testRawWire,
	},
	{
		name: "connid",
		pkt:  &EagerRTM{Options: Options{HasConnID: true, ConnID: 0xa1b2c3d4}, MsgID: 0xffffffff},
		wire: `
		40 04 04 80 # flags=CONNID_HDR|REQ_MSG
		ff ff ff ff # msg_id
		d4 c3 b2 a1 # connid`,
	},
	{
		name: "all_options", // no sender has raw address and connid together, a receiver must cope
		pkt: &EagerRTM{Options: Options{
			HasRawAddr: true, RawAddr: testRaw,
			HasCQData: true, CQData: 0x0badcafe12345678,
			HasConnID: true, ConnID: 0xa1b2c3d4,
		}, MsgID: 1},
		wire: `
		40 04 07 80             # flags=CONNID_HDR|REQ_MSG|REQ_OPT_CQ_DATA_HDR|REQ_OPT_RAW_ADDR_HDR
		01 00 00 00             # msg_id
` + testRawWire + `
		78 56 34 12 fe ca ad 0b # cq_data
		d4 c3 b2 a1             # connid`,
	},
	{
		name: "cq_data_connid",
		pkt: &EagerRTM{
			Options: Options{HasCQData: true, CQData: 0x0badcafe12345678, HasConnID: true, ConnID: 0xa1b2c3d4},
			MsgID:   2, Tagged: true, Tag: 0x1122334455667788,
		},
		wire: `
		41 04 0e 80             # type=EAGER_TAGRTM flags=CONNID_HDR|REQ_TAGGED|REQ_MSG|REQ_OPT_CQ_DATA_HDR
		02 00 00 00             # msg_id
		88 77 66 55 44 33 22 11 # tag
		78 56 34 12 fe ca ad 0b # cq_data
		d4 c3 b2 a1             # connid`,
	},
	{
		name: "dc",
		pkt:  &EagerRTM{MsgID: 3, DC: true, SendID: 4},
		wire: `
		85 04 04 00 # type=DC_EAGER_MSGRTM flags=REQ_MSG
		03 00 00 00 # msg_id
		04 00 00 00 # send_id
		00 00 00 00 # padding`,
	},
	{
		name: "dc_raw_addr",
		pkt: &EagerRTM{
			Options: Options{HasRawAddr: true, RawAddr: testRaw},
			MsgID:   3, DC: true, SendID: 4, Tagged: true, Tag: 0xfedcba9876543210,
		},
		wire: `
		86 04 0d 00             # type=DC_EAGER_TAGRTM flags=REQ_TAGGED|REQ_MSG|REQ_OPT_RAW_ADDR_HDR
		03 00 00 00             # msg_id
		04 00 00 00             # send_id
		00 00 00 00             # padding
		10 32 54 76 98 ba dc fe # tag
` + testRawWire,
	},
}

func BenchmarkEagerAppend(b *testing.B) {
	for _, c := range eagerCases {
		b.Run("type="+c.pkt.Type().String()+"/case="+c.name, func(b *testing.B) {
			p := c.pkt.(*EagerRTM)
			buf := make([]byte, 0, MaxAppendLen)
			b.ReportAllocs()
			for b.Loop() {
				buf = p.Append(buf[:0])
			}
		})
	}
}

func BenchmarkEagerParse(b *testing.B) {
	for _, c := range eagerCases {
		b.Run("type="+c.pkt.Type().String()+"/case="+c.name, func(b *testing.B) {
			packet := append(c.bytes(b), "8 bytes."...)
			var p EagerRTM
			b.ReportAllocs()
			for b.Loop() {
				v, err := Open(packet)
				if err == nil {
					_, err = p.Read(&v)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, c := range eagerCases[1:3] {
		b.Run("case="+c.name, func(b *testing.B) {
			packet := c.bytes(b)
			for b.Loop() {
				if _, ok := connIDOf(packet); !ok {
					b.Fatal("no connid")
				}
			}
		})
	}
}

// TestPutEager: PutEager writes what EagerRTM.Append does.
func TestPutEager(t *testing.T) {
	for _, c := range []EagerRTM{
		{MsgID: 7},
		{MsgID: 1<<32 - 1, Tagged: true, Tag: 1<<64 - 2},
		{MsgID: 8, Options: Options{HasConnID: true, ConnID: 0x89abcdef}},
		{MsgID: 9, Tagged: true, Tag: 5, Options: Options{HasConnID: true, ConnID: 3}},
	} {
		var b [EagerRoom]byte
		n := PutEager(&b, c.MsgID, c.Tagged, c.Tag, c.HasConnID, c.ConnID)
		require.Equal(t, c.Append(nil), b[:n])
	}
}
