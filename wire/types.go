package wire

import (
	"strconv"
)

// Type is a packet type ID: the first byte of every packet (§1.3, Table 1.2).
type Type uint8

// Packet type IDs, in the order of Table 1.2 (§1.3). IDs never change. The
// table ends at 141; those marked "C header" come from libfabric's
// efa_rdm_protocol.h.
const (
	TypeRTS       Type = 1  // retired: protocol version 3's request to send
	TypeCONNACK   Type = 2  // retired: protocol version 3's connection acknowledgement
	TypeCTS       Type = 3  // §3.2 Table 3.6, long-CTS message, write and read
	TypeCTSData   Type = 4  // §3.2 Table 3.7, long-CTS message, write and read
	TypeREADRSP   Type = 5  // §3.3 Table 3.11, emulated short and long-CTS read
	TypeEOR       Type = 7  // §4.1 Table 4.2, long-read message and write
	TypeATOMRSP   Type = 8  // §3.3 Table 3.15, fetch and compare atomic
	TypeHandshake Type = 9  // §2.1 Table 2.2, handshake
	TypeReceipt   Type = 10 // §4.2 (table without a number), delivery complete
	TypeReadNACK  Type = 11 // §4.7 Table 4.2 (the second one), long-read and runting read nack
	TypePeerError Type = 12 // C header, after release 2.6: abort of an operation

	TypeEagerMsgRTM   Type = 64 // §3.2 Table 3.3, REQ, eager message
	TypeEagerTagRTM   Type = 65 // §3.2 Table 3.3, REQ, eager message
	TypeMediumMsgRTM  Type = 66 // §3.2 Table 3.4, REQ, medium message
	TypeMediumTagRTM  Type = 67 // §3.2 Table 3.4, REQ, medium message
	TypeLongCTSMsgRTM Type = 68 // §3.2 Table 3.5, REQ, long-CTS message
	TypeLongCTSTagRTM Type = 69 // §3.2 Table 3.5, REQ, long-CTS message
	TypeEagerRTW      Type = 70 // §3.3 Table 3.8, REQ, emulated eager write
	TypeLongCTSRTW    Type = 71 // §3.3 Table 3.9, REQ, emulated long-CTS write
	TypeShortRTR      Type = 72 // §3.3 Table 3.10, REQ, emulated short read
	TypeLongCTSRTR    Type = 73 // §3.3 Table 3.12, REQ, emulated long-CTS read
	TypeWriteRTA      Type = 74 // §3.3 Table 3.13, REQ, emulated write atomic
	TypeFetchRTA      Type = 75 // §3.3 Table 3.14, REQ, emulated fetch atomic
	TypeCompareRTA    Type = 76 // §3.3 Table 3.14, REQ, emulated compare atomic

	TypeLongReadMsgRTM  Type = 128 // §4.1 Table 4.1, REQ, long-read message
	TypeLongReadTagRTM  Type = 129 // §4.1 Table 4.1, REQ, long-read message
	TypeLongReadRTW     Type = 130 // §4.1 Table 4.3, REQ, emulated long-read write
	TypeReadRTR         Type = 131 // reserved in Table 1.2, C header: READ_RTR; never sent, no layout
	TypeDCEagerMsgRTM   Type = 133 // §4.2, REQ, DC eager message
	TypeDCEagerTagRTM   Type = 134 // §4.2, REQ, DC eager message
	TypeDCMediumMsgRTM  Type = 135 // §4.2, REQ, DC medium message
	TypeDCMediumTagRTM  Type = 136 // §4.2, REQ, DC medium message
	TypeDCLongCTSMsgRTM Type = 137 // §4.2, REQ, DC long-CTS message
	TypeDCLongCTSTagRTM Type = 138 // §4.2, REQ, DC long-CTS message (misspelt DC_LONTCTS_TAGRTM in Table 1.2)
	TypeDCEagerRTW      Type = 139 // §4.2, REQ, DC emulated eager write
	TypeDCLongCTSRTW    Type = 140 // §4.2, REQ, DC emulated long-CTS write
	TypeDCWriteRTA      Type = 141 // §4.2, REQ, DC emulated write atomic
	TypeRuntCTSMsgRTM   Type = 142 // C header: never sent, no layout
	TypeRuntCTSTagRTM   Type = 143 // C header: never sent, no layout
	TypeRuntCTSRTW      Type = 144 // C header: never sent, no layout
	TypeRuntReadMsgRTM  Type = 145 // §4.5 Table 4.4, C header, REQ, runting read message
	TypeRuntReadTagRTM  Type = 146 // §4.5 Table 4.4, C header, REQ, runting read message
	TypeRuntReadRTW     Type = 147 // C header: never sent, no layout
)

// String returns the specification's nickname (Table 1.2), or libfabric's where
// the table has none.
func (t Type) String() string {
	if name := names[t]; name != "" {
		return name
	}
	return "TYPE_" + strconv.Itoa(int(t))
}

// Known reports whether packets of this type have a layout here: Read of some
// packet accepts them.
func (t Type) Known() bool { return infos[t].family != famNone }

// IsREQ reports whether t is the first packet of an operation (§3.1).
func (t Type) IsREQ() bool { return infos[t].traits&traitREQ != 0 }

// IsRTM reports whether t is a request to message, tagged or not.
func (t Type) IsRTM() bool { return infos[t].traits&traitRTM != 0 }

// IsEagerRTM reports whether t is an eager message, tagged or not, with or without a RECEIPT.
func (t Type) IsEagerRTM() bool { return infos[t].family == famEagerRTM }

// IsRTW reports whether t is a request to write.
func (t Type) IsRTW() bool { return infos[t].traits&traitRTW != 0 }

// IsRTR reports whether t is a request to read.
func (t Type) IsRTR() bool { return infos[t].traits&traitRTR != 0 }

// IsRTA reports whether t is a request to atomic.
func (t Type) IsRTA() bool { return infos[t].traits&traitRTA != 0 }

// IsTagged reports whether t is a tagged RTM. Receivers go by the type and not by
// FlagTagged.
func (t Type) IsTagged() bool { return infos[t].traits&traitTagged != 0 }

// IsDC reports whether t asks for a RECEIPT (§4.2).
func (t Type) IsDC() bool { return infos[t].traits&traitDC != 0 }

// HasMsgID reports whether t takes a msg_id and is so processed in order: RTM and
// RTA are, RTW, RTR and non-REQ packets aren't.
func (t Type) HasMsgID() bool { return infos[t].traits&(traitRTM|traitRTA) != 0 }

// HasData reports whether application data may follow the headers.
func (t Type) HasData() bool { return infos[t].traits&traitData != 0 }

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

	// connIDAt is the offset of connid in non-REQ packets. HANDSHAKE and PEER_ERROR, where
	// it moves, have 0; in REQ packets it is an optional header.
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
	TypePeerError: {family: famPeerError, headerLen: PeerErrorLen20}, // the connid's place follows from the length

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
