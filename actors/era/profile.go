package era

import "github.com/efactor/efactor/wire"

// Rounding is how a medium message is cut (§3.2; releases differ).
type Rounding uint8

// The ways to cut.
const (
	Down Rounding = iota // since 1.22: even parts rounded down, the last takes the rest
	Up                   // 1.17 and 1.18: even parts rounded up, the last is the smallest
	Fill                 // until 1.14: full packets, the last takes the rest
)

// Profile is how an endpoint of a release behaves, and which packets it fails on.
// The zero value is this project's own behaviour, which is libfabric 2.3's.
type Profile struct {
	Name string
	// Features are the extra features and requests that the era knows (§2.1), if
	// Limited is set; it neither advertises nor understands others.
	Limited  bool
	Features wire.Features

	ShortAddr       bool // raw address headers are 36 bytes, not 40 (until 1.12)
	NoConnID        bool // packets that are no requests carry no connid (until 1.13)
	ShortEOR        bool // EOR is 12 bytes (until 1.13)
	NoHostID        bool // HANDSHAKE has no host_id (until 1.17)
	NoDeviceVersion bool // HANDSHAKE has no device_version (until 1.19)
	P2P             bool // HANDSHAKE says whether the device reaches memory (p2p; after 2.6)
	AlwaysConnID    bool // requests carry the connid although the peer did not ask (2.6)

	DataHeader int // bytes reserved for the header of CTSDATA; 0: 32, until 1.13: 24
	Rounding   Rounding

	MediumFirst bool // what fits a medium message is never read (until 1.13)
	ReadWaits   bool // what may be read waits for HANDSHAKE (1.17)
	RMANoWait   bool // writes and reads do not wait for HANDSHAKE (until 1.18)
	RTRWhole    bool // the first window of a read is all of it (1.13 and 1.14)
	// InjectsPackets: an injected write goes as a packet, also where the device writes (1.18).
	InjectsPackets bool
	// EndsAtPieces: a CTSDATA packet ends where a piece of the memory does that it comes
	// from (1.13).
	EndsAtPieces bool
	CQData32     bool // tagged messages carry 32 bits of CQ data (until 1.17)

	DCUnasked bool // delivery complete does not wait for HANDSHAKE either (main)

	// CreditsAsked: a request asks for a window of as many packets as its message
	// needs, though the granter gives its own (1.10 to 1.15).
	CreditsAsked bool
	// RecvWindow is how many messages may arrive ahead of their turn.
	RecvWindow int

	// Packets that it fails on; Judge looks for them.

	AbortsAhead   bool // a message beyond RecvWindow ends the process (until 1.22)
	OneHandshake  bool // a second HANDSHAKE of a peer ends the process (1.10)
	NoNACKWrite   bool // READ_NACK answers messages, not writes (1.20 and 1.22)
	OneCompareIOV bool // a COMPARE_RTA of several rma_iov gets wrong answers (since 1.18)
}

// Knows is the part of f that the era knows.
func (p *Profile) Knows(f wire.Features) wire.Features {
	if !p.Limited {
		return f
	}
	for i := range f {
		f[i] &= p.Features[i]
	}
	return f
}

// Has reports whether the era knows f.
func (p *Profile) Has(f wire.Feature) bool { return !p.Limited || p.Features.Has(f) }
