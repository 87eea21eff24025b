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

// typeInfo holds the properties of a packet type that parsing needs: 8 bytes, so that a look
// into the table takes one instruction.
type typeInfo struct {
	traits traits
	family family

	// headerLen is the fixed part: the base header and the mandatory header
	// without rma_iov. Optional fields and lists come on top.
	headerLen uint8

	// iovCountAt is the offset of rma_iov_count, 0 if the type has none.
	iovCountAt uint8

	// connIDAt is the offset of connid in non-REQ packets. HANDSHAKE, where
	// it moves, has 0; in REQ packets it is an optional header.
	connIDAt uint8

	_ [2]uint8
}

// infos holds the known packet types; the zero typeInfo is an unknown one.
var infos = [256]typeInfo{
	TypeCTS:       {family: famCTS, headerLen: CTSLen, connIDAt: 4},
	TypeCTSData:   {family: famCTSData, traits: traitData, headerLen: CTSDataLen, connIDAt: 24},
	TypeREADRSP:   {family: famREADRSP, traits: traitData, headerLen: READRSPLen, connIDAt: 4},
	TypeEOR:       {family: famEOR, headerLen: EORShortLen, connIDAt: 12},
	TypeATOMRSP:   {family: famATOMRSP, traits: traitData, headerLen: ATOMRSPLen, connIDAt: 4},
	TypeHandshake: {family: famHandshake, headerLen: HandshakeLen},
	TypeReceipt:   {family: famReceipt, headerLen: ReceiptLen, connIDAt: 12},
	TypeReadNACK:  {family: famReadNACK, headerLen: ReadNACKLen, connIDAt: 12},
	TypePeerError: {family: famPeerError, headerLen: PeerErrorLen, connIDAt: 16},

	TypeEagerMsgRTM:   {family: famEagerRTM, traits: rtm | traitData, headerLen: EagerMsgRTMLen},
	TypeEagerTagRTM:   {family: famEagerRTM, traits: rtm | traitData | traitTagged, headerLen: EagerTagRTMLen},
	TypeMediumMsgRTM:  {family: famMediumRTM, traits: rtm | traitData, headerLen: MediumMsgRTMLen},
	TypeMediumTagRTM:  {family: famMediumRTM, traits: rtm | traitData | traitTagged, headerLen: MediumTagRTMLen},
	TypeLongCTSMsgRTM: {family: famLongCTSRTM, traits: rtm | traitData, headerLen: LongCTSMsgRTMLen},
	TypeLongCTSTagRTM: {family: famLongCTSRTM, traits: rtm | traitData | traitTagged, headerLen: LongCTSTagRTMLen},
	TypeEagerRTW:      {family: famEagerRTW, traits: rtw | traitData, headerLen: EagerRTWLen, iovCountAt: 4},
	TypeLongCTSRTW:    {family: famLongCTSRTW, traits: rtw | traitData, headerLen: LongCTSRTWLen, iovCountAt: 4},
	TypeShortRTR:      {family: famRTR, traits: rtr, headerLen: RTRLen, iovCountAt: 4},
	TypeLongCTSRTR:    {family: famRTR, traits: rtr, headerLen: RTRLen, iovCountAt: 4},
	TypeWriteRTA:      {family: famRTA, traits: rta, headerLen: RTALen, iovCountAt: 8},
	TypeFetchRTA:      {family: famRTA, traits: rta, headerLen: RTALen, iovCountAt: 8},
	TypeCompareRTA:    {family: famRTA, traits: rta, headerLen: RTALen, iovCountAt: 8},

	TypeLongReadMsgRTM:  {family: famLongReadRTM, traits: rtm, headerLen: LongReadMsgRTMLen},
	TypeLongReadTagRTM:  {family: famLongReadRTM, traits: rtm | traitTagged, headerLen: LongReadTagRTMLen},
	TypeLongReadRTW:     {family: famLongReadRTW, traits: rtw, headerLen: LongReadRTWLen, iovCountAt: 4},
	TypeReadRTR:         {traits: rtr | traitReserved},
	TypeDCEagerMsgRTM:   {family: famEagerRTM, traits: rtm | traitData | traitDC, headerLen: DCEagerMsgRTMLen},
	TypeDCEagerTagRTM:   {family: famEagerRTM, traits: rtm | traitData | traitDC | traitTagged, headerLen: DCEagerTagRTMLen},
	TypeDCMediumMsgRTM:  {family: famMediumRTM, traits: rtm | traitData | traitDC, headerLen: DCMediumMsgRTMLen},
	TypeDCMediumTagRTM:  {family: famMediumRTM, traits: rtm | traitData | traitDC | traitTagged, headerLen: DCMediumTagRTMLen},
	TypeDCLongCTSMsgRTM: {family: famLongCTSRTM, traits: rtm | traitData | traitDC, headerLen: LongCTSMsgRTMLen},
	TypeDCLongCTSTagRTM: {family: famLongCTSRTM, traits: rtm | traitData | traitDC | traitTagged, headerLen: LongCTSTagRTMLen},
	TypeDCEagerRTW:      {family: famEagerRTW, traits: rtw | traitData | traitDC, headerLen: DCEagerRTWLen, iovCountAt: 4},
	TypeDCLongCTSRTW:    {family: famLongCTSRTW, traits: rtw | traitData | traitDC, headerLen: LongCTSRTWLen, iovCountAt: 4},
	TypeDCWriteRTA:      {family: famRTA, traits: rta | traitDC, headerLen: RTALen, iovCountAt: 8},
	TypeRuntCTSMsgRTM:   {traits: rtm | traitReserved},
	TypeRuntCTSTagRTM:   {traits: rtm | traitReserved | traitTagged},
	TypeRuntCTSRTW:      {traits: rtw | traitReserved},
	TypeRuntReadMsgRTM:  {family: famRuntReadRTM, traits: rtm | traitData, headerLen: RuntReadMsgRTMLen},
	TypeRuntReadTagRTM:  {family: famRuntReadRTM, traits: rtm | traitData | traitTagged, headerLen: RuntReadTagRTMLen},
	TypeRuntReadRTW:     {traits: rtw | traitReserved},
}

// names are those of all types that have one, of an unknown type "".
var names = [256]string{
	TypeRTS:             "RTS",
	TypeCONNACK:         "CONNACK",
	TypeCTS:             "CTS",
	TypeCTSData:         "CTSDATA",
	TypeREADRSP:         "READRSP",
	TypeEOR:             "EOR",
	TypeATOMRSP:         "ATOMRSP",
	TypeHandshake:       "HANDSHAKE",
	TypeReceipt:         "RECEIPT",
	TypeReadNACK:        "READ_NACK",
	TypePeerError:       "PEER_ERROR",
	TypeEagerMsgRTM:     "EAGER_MSGRTM",
	TypeEagerTagRTM:     "EAGER_TAGRTM",
	TypeMediumMsgRTM:    "MEDIUM_MSGRTM",
	TypeMediumTagRTM:    "MEDIUM_TAGRTM",
	TypeLongCTSMsgRTM:   "LONGCTS_MSGRTM",
	TypeLongCTSTagRTM:   "LONGCTS_TAGRTM",
	TypeEagerRTW:        "EAGER_RTW",
	TypeLongCTSRTW:      "LONGCTS_RTW",
	TypeShortRTR:        "SHORT_RTR",
	TypeLongCTSRTR:      "LONGCTS_RTR",
	TypeWriteRTA:        "WRITE_RTA",
	TypeFetchRTA:        "FETCH_RTA",
	TypeCompareRTA:      "COMPARE_RTA",
	TypeLongReadMsgRTM:  "LONGREAD_MSGRTM",
	TypeLongReadTagRTM:  "LONGREAD_TAGRTM",
	TypeLongReadRTW:     "LONGREAD_RTW",
	TypeReadRTR:         "READ_RTR",
	TypeDCEagerMsgRTM:   "DC_EAGER_MSGRTM",
	TypeDCEagerTagRTM:   "DC_EAGER_TAGRTM",
	TypeDCMediumMsgRTM:  "DC_MEDIUM_MSGRTM",
	TypeDCMediumTagRTM:  "DC_MEDIUM_TAGRTM",
	TypeDCLongCTSMsgRTM: "DC_LONGCTS_MSGRTM",
	TypeDCLongCTSTagRTM: "DC_LONGCTS_TAGRTM",
	TypeDCEagerRTW:      "DC_EAGER_RTW",
	TypeDCLongCTSRTW:    "DC_LONGCTS_RTW",
	TypeDCWriteRTA:      "DC_WRITE_RTA",
	TypeRuntCTSMsgRTM:   "RUNTCTS_MSGRTM",
	TypeRuntCTSTagRTM:   "RUNTCTS_TAGRTM",
	TypeRuntCTSRTW:      "RUNTCTS_RTW",
	TypeRuntReadMsgRTM:  "RUNTREAD_MSGRTM",
	TypeRuntReadTagRTM:  "RUNTREAD_TAGRTM",
	TypeRuntReadRTW:     "RUNTREAD_RTW",
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
