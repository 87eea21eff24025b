package wire

import "encoding/binary"

// Version is the protocol version: the second byte of every packet (§1.3).
const Version = 4

// Sizes of parts that several packets share.
const (
	HeaderLen = 4 // the base header (Table 1.3)

	// MaxHeaderLen is the largest header of a REQ packet that libfabric
	// reckons with: 24 bytes of mandatory header, four rma_iov, and the raw
	// address and CQ data headers. The read_iov of LONGREAD and RUNTREAD
	// packets, being body there, come on top.
	MaxHeaderLen = 168

	// MaxAppendLen is the most that Append adds to a buffer: a LONGREAD_RTW
	// with all optional headers and both lists full.
	MaxAppendLen = LongReadRTWLen + 2*MaxIOV*RMAIOVLen + RawAddrHdrLen + CQDataHdrLen + ConnIDHdrLen
)

// FlagConnID says that the packet carries its sender's connid (§1.3, Table 1.4:
// CONNID_HDR). It is the one flag that every packet type shares; where the
// connid lies differs by type.
const FlagConnID uint16 = 0x8000

// REQ packet flags (§3.1, Table 3.1).
const (
	FlagRawAddr uint16 = 0x0001 // REQ_OPT_RAW_ADDR_HDR: raw address header present
	FlagCQData  uint16 = 0x0002 // REQ_OPT_CQ_DATA_HDR: CQ data header present
	FlagMsg     uint16 = 0x0004 // REQ_MSG: every RTM, tagged or not
	FlagTagged  uint16 = 0x0008 // REQ_TAGGED: tagged RTM
	FlagAtomic  uint16 = 0x0020 // REQ_ATOMIC: every RTA

	// FlagRMA is in Table 3.1 as REQ_RMA, but no release of libfabric has
	// ever set it on an RTW or RTR, so neither does Append.
	FlagRMA uint16 = 0x0010

	// FlagReadNACK marks a LONGCTS RTM that takes the place of a long-read
	// or runting read message after a READ_NACK (§4.7). Table 3.1 lacks it;
	// C: EFA_RDM_REQ_READ_NACK.
	FlagReadNACK uint16 = 0x2000
)

// FlagCTSEmulatedRead marks a CTS for an emulated read (§3.2:
// CTS_EMULATED_READ, C: EFA_RDM_CTS_READ_REQ).
const FlagCTSEmulatedRead uint16 = 0x0080

// HANDSHAKE flags (§2.1.1, Table 2.3; the last two from libfabric's header).
const (
	FlagHandshakeHostID        uint16 = 0x0001 // host_id present, since 1.18
	FlagHandshakeDeviceVersion uint16 = 0x0002 // device_version present, since 1.20
	FlagHandshakeUserRecvQP    uint16 = 0x0004 // user_recv_qp present, 1.22 to 2.5
	FlagHandshakeHMEMP2P       uint16 = 0x0008 // p2p_supported present, after 2.6
)

// le reads and writes all integers; doc.go says why little-endian.
var le = binary.LittleEndian

// Base is the base header, with which every packet starts (§1.3, Table 1.3).
//
//	0      1         2       4
//	+------+---------+-------+
//	| type | version | flags |
//	+------+---------+-------+
type Base struct {
	Type    Type
	Version uint8
	Flags   uint16
}

// baseError says what is wrong with a base header that Open does not accept.
func baseError(base Base) error {
	switch {
	case base.Version != Version:
		return fail(base.Type, badVersion)
	case infos[base.Type].traits&traitReserved != 0:
		return fail(base.Type, noLayout)
	default:
		return fail(base.Type, badType)
	}
}

func appendBase(b []byte, t Type, flags uint16) []byte {
	return append(b, byte(t), Version, byte(flags), byte(flags>>8))
}

// connIDFlag is FlagConnID if has is set.
func connIDFlag(has bool) uint16 {
	if has {
		return FlagConnID
	}
	return 0
}

// appendConnID writes the multiuse word of non-REQ packets (§3.2): the connid,
// or padding.
func appendConnID(b []byte, has bool, connid uint32) []byte {
	if !has {
		connid = 0
	}
	return le.AppendUint32(b, connid)
}
