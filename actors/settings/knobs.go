package settings

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// Knobs are settings of the protocol that only tests make. They lie where programs cannot set
// them; package efatest hands them out. Their zero value changes nothing.
type Knobs struct {
	// FirstMsgID is where both directions begin to count, for tests of the
	// wrap-around; all endpoints that talk must agree.
	FirstMsgID uint32
	// FirstUse is the generation at which the ids of operations begin, of 4096.
	FirstUse uint32
	// ConnID is the endpoint's connid, 0 for a random one.
	ConnID uint32
	// WaitHandshake makes first messages wait for the peer's HANDSHAKE.
	WaitHandshake bool
	// Rounding is how medium messages are cut.
	Rounding Rounding
	// HostID goes into HANDSHAKE; 0: none.
	HostID uint64
	// Habits are those of another release of the protocol.
	Habits Habits
	// Device returns the device that the endpoint gets in place of its own; nil: its own.
	Device func(device.Device) device.Device
	// Steps gets the counters of what the machines of the endpoint's operations do, when it is
	// opened; nil: nobody does. They may be read on the endpoint's shard.
	Steps func(Steps)
}

// Steps are counters of what machines did, see ope.Steps.
type Steps interface {
	// Each calls f for every event in every state that allows it, always in the same order.
	Each(f func(machine, state, event string, n uint64))
}

// Habits are what releases of the protocol do each in its own way, as far as the packets'
// bytes alone do not say it. The zero value is this project's own way, which is libfabric 2.3's.
type Habits struct {
	// Features are the extra features and requests that the release knows (§2.1), if
	// Limited is set; it neither advertises nor understands others.
	Limited  bool
	Features wire.Features

	AlwaysConnID bool // requests carry the connid although the peer did not ask (2.6)

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
	// Unasked: delivery complete and READ_NACK do not wait for HANDSHAKE either (2.6).
	Unasked bool

	PeerErrors wire.PeerErrorForm // which PEER_ERROR it sends

	// RecvWindow is how many messages may arrive ahead of their turn; 0: 16.
	RecvWindow int
}

// Knows is the part of f that the release knows.
func (h *Habits) Knows(f wire.Features) wire.Features {
	if !h.Limited {
		return f
	}
	for i := range f {
		f[i] &= h.Features[i]
	}
	return f
}

// Has reports whether the release knows f.
func (h *Habits) Has(f wire.Feature) bool { return !h.Limited || h.Features.Has(f) }

// Rounding is how a medium message is cut (§3.2; releases differ).
type Rounding uint8

// The ways to cut.
const (
	RoundDown Rounding = iota // since 1.22: even parts rounded down, the last takes the rest
	RoundUp                   // 1.17 and 1.18: even parts rounded up, the last is the smallest
	Fill                      // until 1.14: full packets, the last takes the rest
)
