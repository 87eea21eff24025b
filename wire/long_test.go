package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// longCases are the RTMs of long messages: long-CTS, long-read, runting read.
var longCases = []codecCase{
	{
		name: "connid",
		pkt: &LongCTSRTM{
			Options: Options{HasConnID: true, ConnID: 0xa1b2c3d4},
			MsgID:   1, MsgLength: 40000, SendID: 2, CreditRequest: 32,
		},
		wire: `
		44 04 04 80             # type=LONGCTS_MSGRTM flags=CONNID_HDR|REQ_MSG
		01 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		02 00 00 00             # send_id
		20 00 00 00             # credit_request
		d4 c3 b2 a1             # connid`,
	},
	{
		name: "raw_addr",
		pkt: &LongCTSRTM{
			Options: Options{HasRawAddr: true, RawAddr: testRaw},
			MsgID:   1, MsgLength: 1 << 40, SendID: 2, CreditRequest: 32, Tagged: true, Tag: 0x1122334455667788,
		},
		wire: `
		45 04 0d 00             # type=LONGCTS_TAGRTM flags=REQ_TAGGED|REQ_MSG|REQ_OPT_RAW_ADDR_HDR
		01 00 00 00             # msg_id
		00 00 00 00 00 01 00 00 # msg_length
		02 00 00 00             # send_id
		20 00 00 00             # credit_request
		88 77 66 55 44 33 22 11 # tag
` + testRawWire,
	},
	{
		name: "read_nack",
		pkt:  &LongCTSRTM{MsgID: 1, MsgLength: 40000, SendID: 2, CreditRequest: 32, ReadNACK: true},
		wire: `
		44 04 04 20             # flags=READ_NACK|REQ_MSG
		01 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		02 00 00 00             # send_id
		20 00 00 00             # credit_request`,
	},
	{
		name: "dc",
		pkt:  &LongCTSRTM{MsgID: 1, MsgLength: 40000, SendID: 2, CreditRequest: 32, DC: true},
		wire: `
		89 04 04 00             # type=DC_LONGCTS_MSGRTM flags=REQ_MSG
		01 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		02 00 00 00             # send_id
		20 00 00 00             # credit_request`,
	},
	{
		name: "dc_read_nack",
		pkt: &LongCTSRTM{
			MsgID: 1, MsgLength: 40000, SendID: 2, CreditRequest: 32,
			DC: true, ReadNACK: true, Tagged: true, Tag: 9,
		},
		wire: `
		8a 04 0c 20             # type=DC_LONGCTS_TAGRTM flags=READ_NACK|REQ_TAGGED|REQ_MSG
		01 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		02 00 00 00             # send_id
		20 00 00 00             # credit_request
		09 00 00 00 00 00 00 00 # tag`,
	},
	{
		name: "connid", // read_iov is misaligned by 4 then
		pkt: &LongReadRTM{
			Options: Options{HasConnID: true, ConnID: 0x66664740},
			MsgID:   6, MsgLength: 40000, SendID: 2, ReadIOVCount: 1, ReadIOV: [MaxIOV]RMAIOV{testIOV0},
		},
		wire: `
		80 04 04 80             # type=LONGREAD_MSGRTM flags=CONNID_HDR|REQ_MSG
		06 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		02 00 00 00             # send_id
		01 00 00 00             # read_iov_count
		40 47 66 66             # connid
` + testIOV0Wire,
	},
	{
		name: "raw_addr_two_iov",
		pkt: &LongReadRTM{
			Options: Options{HasRawAddr: true, RawAddr: testRaw, HasCQData: true, CQData: 7},
			MsgID:   6, MsgLength: 40000, SendID: 2, Tagged: true, Tag: 9,
			ReadIOVCount: 2, ReadIOV: [MaxIOV]RMAIOV{testIOV0, testIOV1},
		},
		wire: `
		81 04 0f 00             # type=LONGREAD_TAGRTM flags=REQ_TAGGED|REQ_MSG|REQ_OPT_CQ_DATA_HDR|REQ_OPT_RAW_ADDR_HDR
		06 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		02 00 00 00             # send_id
		02 00 00 00             # read_iov_count
		09 00 00 00 00 00 00 00 # tag
` + testRawWire + `
		07 00 00 00 00 00 00 00 # cq_data
` + testIOV0Wire + testIOV1Wire,
	},
	{
		name: "connid",
		pkt: &RuntReadRTM{
			Options: Options{HasConnID: true, ConnID: 0x2c812239},
			MsgID:   1, MsgLength: 40000, SendID: 5, ReadIOVCount: 1, ReadIOV: [MaxIOV]RMAIOV{testIOV0},
			SegOffset: 6664, RuntLength: 20000,
		},
		wire: `
		91 04 04 80             # type=RUNTREAD_MSGRTM flags=CONNID_HDR|REQ_MSG
		01 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		05 00 00 00             # send_id
		01 00 00 00             # read_iov_count
		08 1a 00 00 00 00 00 00 # seg_offset
		20 4e 00 00 00 00 00 00 # runt_length
		39 22 81 2c             # connid
` + testIOV0Wire,
	},
	{
		name: "four_iov",
		pkt: &RuntReadRTM{
			MsgID: 1, MsgLength: 40000, SendID: 5, Tagged: true, Tag: 9, RuntLength: 20000,
			ReadIOVCount: 4, ReadIOV: [MaxIOV]RMAIOV{testIOV0, testIOV1, testIOV0, testIOV1},
		},
		wire: `
		92 04 0c 00             # type=RUNTREAD_TAGRTM flags=REQ_TAGGED|REQ_MSG
		01 00 00 00             # msg_id
		40 9c 00 00 00 00 00 00 # msg_length
		05 00 00 00             # send_id
		04 00 00 00             # read_iov_count
		00 00 00 00 00 00 00 00 # seg_offset
		20 4e 00 00 00 00 00 00 # runt_length
		09 00 00 00 00 00 00 00 # tag
` + testIOV0Wire + testIOV1Wire + testIOV0Wire + testIOV1Wire,
	},
}

// TestIOVCounts claims more list entries than MaxIOV, and than the datagram
// holds, in every packet that has a list.
func TestIOVCounts(t *testing.T) {
	checked := 0
	for _, c := range codecCases {
		b := c.bytes(t)
		for _, at := range iovCountOffsets(c.pkt) {
			checked++
			for _, count := range []uint32{MaxIOV + 1, 100, 1 << 27, 0x0aaaaaab, 0x80000000, 0xffffffff} {
				big := append(c.bytes(t), make([]byte, 1<<14)...)
				le.PutUint32(big[at:], count)
				requireParseFails(t, c.pkt, big, ErrCount)
				if at == int(infos[b[0]].iovCountAt) {
					_, ok := connIDOf(big)
					require.False(t, ok)
				}
			}
			le.PutUint32(b[at:], MaxIOV)
			if c.name != "four_iov" {
				requireParseFails(t, c.pkt, b, ErrShort)
			}
		}
	}
	require.Greater(t, checked, 15)
}

// iovCountOffsets is where a packet has rma_iov_count and read_iov_count.
func iovCountOffsets(p Packet) []int {
	switch p.(type) {
	case *LongReadRTM, *RuntReadRTM:
		return []int{20}
	case *LongReadRTW:
		return []int{4, 20}
	case *EagerRTW, *LongCTSRTW, *RTR:
		return []int{4}
	case *RTA:
		return []int{8}
	default:
		return nil
	}
}
