package wire

var rtwCases = []codecCase{
	{
		name: "solicitation", // of a HANDSHAKE: 48 bytes in all
		pkt:  &EagerRTW{Options: Options{HasRawAddr: true, RawAddr: testRaw}},
		wire: `
		46 04 01 00             # type=EAGER_RTW flags=REQ_OPT_RAW_ADDR_HDR
		00 00 00 00             # rma_iov_count
` + testRawWire,
	},
	{
		name: "connid",
		pkt: &EagerRTW{
			Options:     Options{HasCQData: true, CQData: 0x12345678, HasConnID: true, ConnID: 0xa1b2c3d4},
			RMAIOVCount: 1, RMAIOV: [MaxIOV]RMAIOV{testIOV0},
		},
		wire: `
		46 04 02 80             # flags=CONNID_HDR|REQ_OPT_CQ_DATA_HDR
		01 00 00 00             # rma_iov_count
` + testIOV0Wire + `
		78 56 34 12 00 00 00 00 # cq_data
		d4 c3 b2 a1             # connid`,
	},
	{
		name: "dc",
		pkt: &EagerRTW{
			Options:     Options{HasConnID: true, ConnID: 0xa1b2c3d4},
			RMAIOVCount: 2, RMAIOV: [MaxIOV]RMAIOV{testIOV0, testIOV1}, DC: true, SendID: 6,
		},
		wire: `
		8b 04 00 80             # type=DC_EAGER_RTW flags=CONNID_HDR
		02 00 00 00             # rma_iov_count
		06 00 00 00             # send_id
		00 00 00 00             # padding
` + testIOV0Wire + testIOV1Wire + `
		d4 c3 b2 a1             # connid`,
	},
	{
		name: "four_iov", // with raw address and CQ data: MaxHeaderLen
		pkt: &LongCTSRTW{
			Options:     Options{HasRawAddr: true, RawAddr: testRaw, HasCQData: true, CQData: 1},
			RMAIOVCount: 4, RMAIOV: [MaxIOV]RMAIOV{testIOV0, testIOV1, testIOV1, testIOV0},
			MsgLength: 30000, SendID: 3, CreditRequest: 32,
		},
		wire: `
		47 04 03 00             # type=LONGCTS_RTW flags=REQ_OPT_CQ_DATA_HDR|REQ_OPT_RAW_ADDR_HDR
		04 00 00 00             # rma_iov_count
		30 75 00 00 00 00 00 00 # msg_length
		03 00 00 00             # send_id
		20 00 00 00             # credit_request
` + testIOV0Wire + testIOV1Wire + testIOV1Wire + testIOV0Wire + testRawWire + `
		01 00 00 00 00 00 00 00 # cq_data`,
	},
	{
		name: "dc",
		pkt: &LongCTSRTW{
			RMAIOVCount: 1, RMAIOV: [MaxIOV]RMAIOV{testIOV1},
			MsgLength: 30000, SendID: 3, CreditRequest: 32, DC: true,
		},
		wire: `
		8c 04 00 00             # type=DC_LONGCTS_RTW
		01 00 00 00             # rma_iov_count
		30 75 00 00 00 00 00 00 # msg_length
		03 00 00 00             # send_id
		20 00 00 00             # credit_request
` + testIOV1Wire,
	},
	{
		name: "connid",
		pkt: &LongReadRTW{
			Options:     Options{HasConnID: true, ConnID: 0x66664740},
			RMAIOVCount: 1, RMAIOV: [MaxIOV]RMAIOV{testIOV1},
			MsgLength: 40000, SendID: 2,
			ReadIOVCount: 2, ReadIOV: [MaxIOV]RMAIOV{testIOV0, testIOV1},
		},
		wire: `
		82 04 00 80             # type=LONGREAD_RTW flags=CONNID_HDR
		01 00 00 00             # rma_iov_count
		40 9c 00 00 00 00 00 00 # msg_length
		02 00 00 00             # send_id
		02 00 00 00             # read_iov_count
` + testIOV1Wire + `
		40 47 66 66             # connid
` + testIOV0Wire + testIOV1Wire,
	},
}

var rtrCases = []codecCase{
	{
		name: "connid",
		pkt: &RTR{
			Options:     Options{HasConnID: true, ConnID: 0x565420f2},
			RMAIOVCount: 1, RMAIOV: [MaxIOV]RMAIOV{testIOV0},
			MsgLength: 100, RecvID: 7, RecvLength: 100,
		},
		wire: `
		48 04 00 80             # type=SHORT_RTR flags=CONNID_HDR
		01 00 00 00             # rma_iov_count
		64 00 00 00 00 00 00 00 # msg_length
		07 00 00 00             # recv_id
		64 00 00 00             # recv_length, padding in the specification
` + testIOV0Wire + `
		f2 20 54 56             # connid`,
	},
	{
		name: "raw_addr",
		pkt: &RTR{
			Options:     Options{HasRawAddr: true, RawAddr: testRaw},
			RMAIOVCount: 2, RMAIOV: [MaxIOV]RMAIOV{testIOV0, testIOV1},
			MsgLength: 1 << 33, RecvID: 7, RecvLength: 0x44380, LongCTS: true,
		},
		wire: `
		49 04 01 00             # type=LONGCTS_RTR flags=REQ_OPT_RAW_ADDR_HDR
		02 00 00 00             # rma_iov_count
		00 00 00 00 02 00 00 00 # msg_length
		07 00 00 00             # recv_id
		80 43 04 00             # recv_length
` + testIOV0Wire + testIOV1Wire + testRawWire,
	},
}

var rtaCases = []codecCase{
	{
		name: "raw_addr",
		pkt: &RTA{
			Options: Options{HasRawAddr: true, RawAddr: testRaw},
			Kind:    RTAWrite, MsgID: 5, RMAIOVCount: 1, RMAIOV: [MaxIOV]RMAIOV{testIOV0},
			Datatype: DatatypeUint64, Op: OpSum,
		},
		wire: `
		4a 04 21 00             # type=WRITE_RTA flags=REQ_ATOMIC|REQ_OPT_RAW_ADDR_HDR
		05 00 00 00             # msg_id
		01 00 00 00             # rma_iov_count
		07 00 00 00             # atomic_datatype=UINT64
		02 00 00 00             # atomic_op=SUM
		00 00 00 00             # pad
` + testIOV0Wire + testRawWire,
	},
	{
		name: "connid",
		pkt: &RTA{
			Options: Options{HasConnID: true, ConnID: 0xa1b2c3d4},
			Kind:    RTAFetch, MsgID: 5, RMAIOVCount: 2, RMAIOV: [MaxIOV]RMAIOV{testIOV0, testIOV1},
			Datatype: DatatypeDouble, Op: OpRead, RecvID: 8,
		},
		wire: `
		4b 04 20 80             # type=FETCH_RTA flags=CONNID_HDR|REQ_ATOMIC
		05 00 00 00             # msg_id
		02 00 00 00             # rma_iov_count
		09 00 00 00             # atomic_datatype=DOUBLE
		0a 00 00 00             # atomic_op=ATOMIC_READ
		08 00 00 00             # recv_id
` + testIOV0Wire + testIOV1Wire + `
		d4 c3 b2 a1             # connid`,
	},
	{
		name: "bare",
		pkt: &RTA{
			Kind: RTACompare, MsgID: 5, RMAIOVCount: 1, RMAIOV: [MaxIOV]RMAIOV{testIOV0},
			Datatype: DatatypeInt8, Op: OpCSwap, RecvID: 8,
		},
		wire: `
		4c 04 20 00             # type=COMPARE_RTA flags=REQ_ATOMIC
		05 00 00 00             # msg_id
		01 00 00 00             # rma_iov_count
		00 00 00 00             # atomic_datatype=INT8
		0c 00 00 00             # atomic_op=CSWAP
		08 00 00 00             # recv_id
` + testIOV0Wire,
	},
	{
		name: "connid", // numbers that libfabric doesn't have pass: the responder judges them
		pkt: &RTA{
			Options: Options{HasConnID: true, ConnID: 0xa1b2c3d4},
			Kind:    RTADCWrite, MsgID: 5, Datatype: 0xffffffff, Op: 99, SendID: 9,
		},
		wire: `
		8d 04 20 80             # type=DC_WRITE_RTA flags=CONNID_HDR|REQ_ATOMIC
		05 00 00 00             # msg_id
		00 00 00 00             # rma_iov_count
		ff ff ff ff             # atomic_datatype
		63 00 00 00             # atomic_op
		09 00 00 00             # send_id
		d4 c3 b2 a1             # connid`,
	},
}
