package wire

var mediumCases = []codecCase{
	{
		name: "connid",
		pkt: &MediumRTM{
			Options: Options{HasConnID: true, ConnID: 0xa1b2c3d4},
			MsgID:   3, MsgLength: 20000, SegOffset: 6680,
		},
		wire: `
		42 04 04 80             # type=MEDIUM_MSGRTM flags=CONNID_HDR|REQ_MSG
		03 00 00 00             # msg_id
		20 4e 00 00 00 00 00 00 # msg_length
		18 1a 00 00 00 00 00 00 # seg_offset
		d4 c3 b2 a1             # connid`,
	},
	{
		name: "raw_addr_cq_data",
		pkt: &MediumRTM{
			Options: Options{HasRawAddr: true, RawAddr: testRaw, HasCQData: true, CQData: 5},
			MsgID:   3, MsgLength: 20000, Tagged: true, Tag: 0x1122334455667788,
		},
		wire: `
		43 04 0f 00             # type=MEDIUM_TAGRTM flags=REQ_TAGGED|REQ_MSG|REQ_OPT_CQ_DATA_HDR|REQ_OPT_RAW_ADDR_HDR
		03 00 00 00             # msg_id
		20 4e 00 00 00 00 00 00 # msg_length
		00 00 00 00 00 00 00 00 # seg_offset
		88 77 66 55 44 33 22 11 # tag
` + testRawWire + `
		05 00 00 00 00 00 00 00 # cq_data`,
	},
	{
		name: "dc",
		pkt:  &MediumRTM{MsgID: 3, DC: true, SendID: 8, MsgLength: 20000, SegOffset: 6680},
		wire: `
		87 04 04 00             # type=DC_MEDIUM_MSGRTM flags=REQ_MSG
		03 00 00 00             # msg_id
		08 00 00 00             # send_id
		00 00 00 00             # padding
		20 4e 00 00 00 00 00 00 # msg_length
		18 1a 00 00 00 00 00 00 # seg_offset`,
	},
	{
		name: "dc_connid",
		pkt: &MediumRTM{
			Options: Options{HasConnID: true, ConnID: 0xa1b2c3d4},
			MsgID:   3, DC: true, SendID: 8, MsgLength: 20000, SegOffset: 6680, Tagged: true, Tag: 9,
		},
		wire: `
		88 04 0c 80             # type=DC_MEDIUM_TAGRTM flags=CONNID_HDR|REQ_TAGGED|REQ_MSG
		03 00 00 00             # msg_id
		08 00 00 00             # send_id
		00 00 00 00             # padding
		20 4e 00 00 00 00 00 00 # msg_length
		18 1a 00 00 00 00 00 00 # seg_offset
		09 00 00 00 00 00 00 00 # tag
		d4 c3 b2 a1             # connid`,
	},
}
