package wire

import (
	"strconv"
)

// HandshakeLen is the size of the part of a HANDSHAKE packet that is always
// there; extra_info and the optional fields come on top.
const HandshakeLen = 8

// nextraOffset is what nextra_p3 adds to the number of words of extra_info, for
// historical reasons (§2.1).
const nextraOffset = 3

// UserRecvQP is a queue pair for data without headers (1.22 to 2.5).
type UserRecvQP struct {
	QPN  uint32
	QKey uint32
}

// Handshake informs the peer of its sender's abilities and requests (§2.1, Table
// 2.2).
//
//	0      4           8
//	+------+-----------+--------------+
//	| base | nextra_p3 | extra_info[] |
//	+------+-----------+--------------+
//
// The following fields are optional. A field without its flag takes no space.
//
//	connid u32, pad u32                 FlagConnID                  since 1.14
//	host_id u64                         FlagHandshakeHostID         since 1.18
//	device_version u32, reserved u32    FlagHandshakeDeviceVersion  since 1.20
//	qpn u32, qkey u32                   FlagHandshakeUserRecvQP     1.22 to 2.5
//	p2p_supported u8, reserved 7 bytes  FlagHandshakeHMEMP2P        after 2.6
//
// Divergence: Tables 2.2 and 2.3 lack the last two. libfabric doesn't initialise
// pad, reserved included. Fields of flags that don't exist yet come behind and
// are ignored, and so are words of extra_info beyond those of Features. Append
// writes as many words as have a bit set, and at least one.
type Handshake struct {
	Features Features // extra_info

	HasConnID bool
	ConnID    uint32

	HasHostID bool
	HostID    uint64 // for messages to people

	HasDeviceVersion bool
	DeviceVersion    uint32 // vendor part id: 0xefa0, 0xefa1...

	HasUserRecvQP bool
	UserRecvQP    UserRecvQP

	HasP2P       bool
	P2PSupported bool // if HasP2P is not set, assume that it is
}

// Type is HANDSHAKE.
func (p *Handshake) Type() Type { return TypeHandshake }

func (p *Handshake) flags() uint16 {
	f := connIDFlag(p.HasConnID)
	if p.HasHostID {
		f |= FlagHandshakeHostID
	}
	if p.HasDeviceVersion {
		f |= FlagHandshakeDeviceVersion
	}
	if p.HasUserRecvQP {
		f |= FlagHandshakeUserRecvQP
	}
	if p.HasP2P {
		f |= FlagHandshakeHMEMP2P
	}
	return f
}

// Append adds the packet to b.
func (p *Handshake) Append(b []byte) []byte {
	words := p.Features.words()
	b = appendBase(b, TypeHandshake, p.flags())
	b = le.AppendUint32(b, uint32(words+nextraOffset))
	for _, w := range p.Features[:words] {
		b = le.AppendUint64(b, w)
	}
	if p.HasConnID {
		b = le.AppendUint64(b, uint64(p.ConnID))
	}
	if p.HasHostID {
		b = le.AppendUint64(b, p.HostID)
	}
	if p.HasDeviceVersion {
		b = le.AppendUint64(b, uint64(p.DeviceVersion))
	}
	if p.HasUserRecvQP {
		b = le.AppendUint32(b, p.UserRecvQP.QPN)
		b = le.AppendUint32(b, p.UserRecvQP.QKey)
	}
	if p.HasP2P {
		var supported uint64
		if p.P2PSupported {
			supported = 1
		}
		b = le.AppendUint64(b, supported)
	}
	return b
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *Handshake) Read(v *View) (n int, err error) {
	if n, err = v.header(famHandshake); err != nil {
		return 0, err
	}
	b := v.b
	extra := b[HandshakeLen:n]
	q := Handshake{
		HasConnID:        v.Flags&FlagConnID != 0,
		HasHostID:        v.Flags&FlagHandshakeHostID != 0,
		HasDeviceVersion: v.Flags&FlagHandshakeDeviceVersion != 0,
		HasUserRecvQP:    v.Flags&FlagHandshakeUserRecvQP != 0,
		HasP2P:           v.Flags&FlagHandshakeHMEMP2P != 0,
	}
	for i := 0; i < len(q.Features) && len(extra) >= 8; i++ {
		q.Features[i] = le.Uint64(extra)
		extra = extra[8:]
	}
	// Each optional field is 8 bytes long, its padding included.
	if q.HasConnID {
		if len(b)-n < 8 {
			return 0, fail(TypeHandshake, handshakeShort)
		}
		q.ConnID = v.connID
		n += 8
	}
	fields := [...]struct {
		has bool
		raw uint64
	}{{has: q.HasHostID}, {has: q.HasDeviceVersion}, {has: q.HasUserRecvQP}, {has: q.HasP2P}}
	for i := range fields {
		if !fields[i].has {
			continue
		}
		if len(b)-n < 8 {
			return 0, fail(TypeHandshake, handshakeShort)
		}
		fields[i].raw = le.Uint64(b[n:])
		n += 8
	}
	q.HostID = fields[0].raw
	q.DeviceVersion = uint32(fields[1].raw)
	q.UserRecvQP = UserRecvQP{QPN: uint32(fields[2].raw), QKey: uint32(fields[2].raw >> 32)}
	q.P2PSupported = uint8(fields[3].raw) != 0
	*p = q
	return n, nil
}

// extraInfo finds the end of extra_info in a HANDSHAKE packet. The claim of nextra_p3 is checked against the datagram, in 64 bits so that
// it can't overflow.
//
// Preconditions: b holds HandshakeLen bytes.
func extraInfo(b []byte) (end int, p problem) {
	nextra := le.Uint32(b[4:])
	if nextra < nextraOffset {
		return 0, extraInfoCount
	}
	size := 8 * uint64(nextra-nextraOffset)
	if size > uint64(len(b)-HandshakeLen) {
		return 0, extraInfoShort
	}
	return HandshakeLen + int(size), fine
}

// Feature is the ID of an extra feature or extra request (§2.1, Table 2.1).
type Feature uint

// Extra features and requests, in the order of Table 2.1 (§2.1). The table ends
// at 6; the others come from libfabric's header. IDs never change.
const (
	FeatureRDMARead         Feature = 0 // §4.1, since 1.10
	FeatureDeliveryComplete Feature = 1 // §4.2, since 1.12
	FeatureConstantHeader   Feature = 2 // §4.3, request, 1.13 to 1.21: raw address in every REQ packet
	FeatureConnIDHeader     Feature = 3 // §4.4, request, since 1.14: connid in REQ packets and CTSDATA
	FeatureRunt             Feature = 4 // §4.5, since 1.16
	FeatureRDMAWrite        Feature = 5 // §4.6, since 1.18
	FeatureReadNACK         Feature = 6 // §4.7, since 1.20
	FeatureUserRecvQP       Feature = 7 // request, 1.22 to 2.5: headerless data at another queue pair
	FeatureUnsolicitedWrite Feature = 8 // since 1.22: a write with immediate takes no posted receive
	FeaturePeerError        Feature = 9 // after 2.6: understands PEER_ERROR
)

var featureNames = [...]string{
	FeatureRDMARead:         "rdma_read",
	FeatureDeliveryComplete: "delivery_complete",
	FeatureConstantHeader:   "constant_header",
	FeatureConnIDHeader:     "connid_header",
	FeatureRunt:             "runt",
	FeatureRDMAWrite:        "rdma_write",
	FeatureReadNACK:         "read_nack",
	FeatureUserRecvQP:       "user_recv_qp",
	FeatureUnsolicitedWrite: "unsolicited_write",
	FeaturePeerError:        "peer_error",
}

// String returns a short name, or the number of a feature without one.
func (f Feature) String() string {
	if f < Feature(len(featureNames)) {
		return featureNames[f]
	}
	return strconv.FormatUint(uint64(f), 10)
}

// maxExtraInfo is the number of words of extra_info that Features holds. One is
// in use after fifteen releases.
const maxExtraInfo = 4

// Features is HANDSHAKE's extra_info (§2.1, Table 2.2): the bit i%64 of word
// i/64 stands for the extra feature or request of ID i.
type Features [maxExtraInfo]uint64

// MakeFeatures makes a set of fs.
func MakeFeatures(fs ...Feature) Features {
	var s Features
	for _, f := range fs {
		s.Set(f)
	}
	return s
}

// Has reports whether f is in the set. It is false for an ID of 256 and above.
func (s Features) Has(f Feature) bool {
	return f < maxExtraInfo*64 && s[f/64]&(1<<(f%64)) != 0
}

// List returns the features of the set, in the order of the IDs.
func (s Features) List() (fs []Feature) {
	for f := range Feature(maxExtraInfo * 64) {
		if s.Has(f) {
			fs = append(fs, f)
		}
	}
	return fs
}

// Set adds f.
//
// Preconditions: f < 256.
func (s *Features) Set(f Feature) { s[f/64] |= 1 << (f % 64) }

// Clear takes f out.
//
// Preconditions: f < 256.
func (s *Features) Clear(f Feature) { s[f/64] &^= 1 << (f % 64) }

// words is the number of words that hold all set bits, at least one: that is
// what every release sends.
func (s Features) words() int {
	n := maxExtraInfo
	for n > 1 && s[n-1] == 0 {
		n--
	}
	return n
}
