// Package testknobs are settings of the protocol that only tests make. Package settings has
// them beside its own, where programs cannot set them, and package efatest hands them out.
package testknobs

import "github.com/efactor/efactor/actors/era"

// Knobs are the settings. Their zero value changes nothing.
type Knobs struct {
	// Era is a release of libfabric to talk like, for tests of what old peers do:
	// one at which something changed on the wire (1.10, 1.12, 1.13, 1.14, 1.16,
	// 1.17.0, 1.18, 1.20, 1.22, 2.0, 2.3.1, 2.6), or "main". "": this project's
	// own way.
	Era string
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
	Rounding era.Rounding
	// HostID goes into HANDSHAKE; 0: none.
	HostID uint64
	// Steps gets the counters of what the machines of the endpoint's operations do, when it is
	// opened; nil: nobody does. They may be read on the endpoint's shard.
	Steps func(Steps)
}

// Steps are counters of what machines did, see ope.Steps.
type Steps interface {
	// Each calls f for every event in every state that allows it, always in the same order.
	Each(f func(machine, state, event string, n uint64))
}
