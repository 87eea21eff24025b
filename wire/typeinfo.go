package wire

// family names the struct that a packet type is parsed into.
type family uint8

const (
	famNone family = iota // unknown, retired, internal or without a layout
	famCTS
	famCTSData
	famREADRSP
	famEOR
	famATOMRSP
	famHandshake
	famReceipt
	famReadNACK
	famPeerError
	famEagerRTM
	famMediumRTM
	famLongCTSRTM
	famLongReadRTM
	famRuntReadRTM
	famEagerRTW
	famLongCTSRTW
	famLongReadRTW
	famRTR
	famRTA
)

// traits are the properties that the methods of Type return.
type traits uint16

const (
	traitREQ traits = 1 << iota
	traitRTM
	traitRTW
	traitRTR
	traitRTA
	traitTagged
	traitDC
	traitData     // application data may follow the headers
	traitReserved // has a name in libfabric's header, was never sent

	rtm = traitREQ | traitRTM
	rtw = traitREQ | traitRTW
	rtr = traitREQ | traitRTR
	rta = traitREQ | traitRTA | traitData
)

// typeInfo holds the properties of a packet type that parsing needs.
type typeInfo struct {
	name   string
	family family
	traits traits

	// headerLen is the fixed part: the base header and the mandatory header
	// without rma_iov. Optional fields and lists come on top.
	headerLen uint8

	// iovCountAt is the offset of rma_iov_count, 0 if the type has none.
	iovCountAt uint8

	// connIDAt is the offset of connid in non-REQ packets. HANDSHAKE, where
	// it moves, has 0; in REQ packets it is an optional header.
	connIDAt uint8
}

// infos holds the known packet types; the zero typeInfo is an unknown one.
var infos = [256]typeInfo{
	TypeRTS:     {name: "RTS"},
	TypeCONNACK: {name: "CONNACK"},

	TypeCTS:       {name: "CTS", family: famCTS, headerLen: CTSLen, connIDAt: 4},
	TypeCTSData:   {name: "CTSDATA", family: famCTSData, traits: traitData, headerLen: CTSDataLen, connIDAt: 24},
	TypeREADRSP:   {name: "READRSP", family: famREADRSP, traits: traitData, headerLen: READRSPLen, connIDAt: 4},
	TypeEOR:       {name: "EOR", family: famEOR, headerLen: EORShortLen, connIDAt: 12},
	TypeATOMRSP:   {name: "ATOMRSP", family: famATOMRSP, traits: traitData, headerLen: ATOMRSPLen, connIDAt: 4},
	TypeHandshake: {name: "HANDSHAKE", family: famHandshake, headerLen: HandshakeLen},
	TypeReceipt:   {name: "RECEIPT", family: famReceipt, headerLen: ReceiptLen, connIDAt: 12},
	TypeReadNACK:  {name: "READ_NACK", family: famReadNACK, headerLen: ReadNACKLen, connIDAt: 12},
	TypePeerError: {name: "PEER_ERROR", family: famPeerError, headerLen: PeerErrorLen, connIDAt: 16},

	TypeEagerMsgRTM:   {name: "EAGER_MSGRTM", family: famEagerRTM, traits: rtm | traitData, headerLen: EagerMsgRTMLen},
	TypeEagerTagRTM:   {name: "EAGER_TAGRTM", family: famEagerRTM, traits: rtm | traitData | traitTagged, headerLen: EagerTagRTMLen},
	TypeMediumMsgRTM:  {name: "MEDIUM_MSGRTM", family: famMediumRTM, traits: rtm | traitData, headerLen: MediumMsgRTMLen},
	TypeMediumTagRTM:  {name: "MEDIUM_TAGRTM", family: famMediumRTM, traits: rtm | traitData | traitTagged, headerLen: MediumTagRTMLen},
	TypeLongCTSMsgRTM: {name: "LONGCTS_MSGRTM", family: famLongCTSRTM, traits: rtm | traitData, headerLen: LongCTSMsgRTMLen},
	TypeLongCTSTagRTM: {name: "LONGCTS_TAGRTM", family: famLongCTSRTM, traits: rtm | traitData | traitTagged, headerLen: LongCTSTagRTMLen},
	TypeEagerRTW:      {name: "EAGER_RTW", family: famEagerRTW, traits: rtw | traitData, headerLen: EagerRTWLen, iovCountAt: 4},
	TypeLongCTSRTW:    {name: "LONGCTS_RTW", family: famLongCTSRTW, traits: rtw | traitData, headerLen: LongCTSRTWLen, iovCountAt: 4},
	TypeShortRTR:      {name: "SHORT_RTR", family: famRTR, traits: rtr, headerLen: RTRLen, iovCountAt: 4},
	TypeLongCTSRTR:    {name: "LONGCTS_RTR", family: famRTR, traits: rtr, headerLen: RTRLen, iovCountAt: 4},
	TypeWriteRTA:      {name: "WRITE_RTA", family: famRTA, traits: rta, headerLen: RTALen, iovCountAt: 8},
	TypeFetchRTA:      {name: "FETCH_RTA", family: famRTA, traits: rta, headerLen: RTALen, iovCountAt: 8},
	TypeCompareRTA:    {name: "COMPARE_RTA", family: famRTA, traits: rta, headerLen: RTALen, iovCountAt: 8},

	TypeLongReadMsgRTM:  {name: "LONGREAD_MSGRTM", family: famLongReadRTM, traits: rtm, headerLen: LongReadMsgRTMLen},
	TypeLongReadTagRTM:  {name: "LONGREAD_TAGRTM", family: famLongReadRTM, traits: rtm | traitTagged, headerLen: LongReadTagRTMLen},
	TypeLongReadRTW:     {name: "LONGREAD_RTW", family: famLongReadRTW, traits: rtw, headerLen: LongReadRTWLen, iovCountAt: 4},
	TypeReadRTR:         {name: "READ_RTR", traits: rtr | traitReserved},
	TypeDCEagerMsgRTM:   {name: "DC_EAGER_MSGRTM", family: famEagerRTM, traits: rtm | traitData | traitDC, headerLen: DCEagerMsgRTMLen},
	TypeDCEagerTagRTM:   {name: "DC_EAGER_TAGRTM", family: famEagerRTM, traits: rtm | traitData | traitDC | traitTagged, headerLen: DCEagerTagRTMLen},
	TypeDCMediumMsgRTM:  {name: "DC_MEDIUM_MSGRTM", family: famMediumRTM, traits: rtm | traitData | traitDC, headerLen: DCMediumMsgRTMLen},
	TypeDCMediumTagRTM:  {name: "DC_MEDIUM_TAGRTM", family: famMediumRTM, traits: rtm | traitData | traitDC | traitTagged, headerLen: DCMediumTagRTMLen},
	TypeDCLongCTSMsgRTM: {name: "DC_LONGCTS_MSGRTM", family: famLongCTSRTM, traits: rtm | traitData | traitDC, headerLen: LongCTSMsgRTMLen},
	TypeDCLongCTSTagRTM: {name: "DC_LONGCTS_TAGRTM", family: famLongCTSRTM, traits: rtm | traitData | traitDC | traitTagged, headerLen: LongCTSTagRTMLen},
	TypeDCEagerRTW:      {name: "DC_EAGER_RTW", family: famEagerRTW, traits: rtw | traitData | traitDC, headerLen: DCEagerRTWLen, iovCountAt: 4},
	TypeDCLongCTSRTW:    {name: "DC_LONGCTS_RTW", family: famLongCTSRTW, traits: rtw | traitData | traitDC, headerLen: LongCTSRTWLen, iovCountAt: 4},
	TypeDCWriteRTA:      {name: "DC_WRITE_RTA", family: famRTA, traits: rta | traitDC, headerLen: RTALen, iovCountAt: 8},
	TypeRuntCTSMsgRTM:   {name: "RUNTCTS_MSGRTM", traits: rtm | traitReserved},
	TypeRuntCTSTagRTM:   {name: "RUNTCTS_TAGRTM", traits: rtm | traitReserved | traitTagged},
	TypeRuntCTSRTW:      {name: "RUNTCTS_RTW", traits: rtw | traitReserved},
	TypeRuntReadMsgRTM:  {name: "RUNTREAD_MSGRTM", family: famRuntReadRTM, traits: rtm | traitData, headerLen: RuntReadMsgRTMLen},
	TypeRuntReadTagRTM:  {name: "RUNTREAD_TAGRTM", family: famRuntReadRTM, traits: rtm | traitData | traitTagged, headerLen: RuntReadTagRTMLen},
	TypeRuntReadRTW:     {name: "RUNTREAD_RTW", traits: rtw | traitReserved},
}

// rtmType picks the variant of an RTM. A tagged type's ID is always one more
// than that of the untagged type (Table 1.2).
func rtmType(plain, dc Type, isDC, tagged bool) Type {
	t := plain
	if isDC {
		t = dc
	}
	if tagged {
		t++
	}
	return t
}
