package efa

import (
	"fmt"
	"strings"

	"github.com/efactor/efactor/actors/endpoint"
)

// Caps are kinds of operations (fi_getinfo's capabilities), for
// [EndpointConfig].Initiate and Target and [Limits].Caps.
type Caps uint16

// The kinds.
const (
	CapMessages Caps = 1 << iota // messages, tagged and not (FI_MSG, FI_TAGGED)
	CapRead                      // reads of a peer's memory (FI_RMA with FI_READ, FI_REMOTE_READ)
	CapWrite                     // writes to it (FI_RMA with FI_WRITE, FI_REMOTE_WRITE)
	CapAtomic                    // atomics on it (FI_ATOMIC)
	CapDirected                  // receives from one peer (FI_DIRECTED_RECV); of Limits only
	CapSource                    // messages tell their sender (FI_SOURCE); of Limits only
	CapNothing                   // none of them, since 0 means all; of an EndpointConfig only

	capsAll    = CapMessages | CapRead | CapWrite | CapAtomic
	capsConfig = capsAll | CapNothing
)

var capNames = []string{"messages", "read", "write", "atomic", "directed", "source", "nothing"}

// String lists the kinds: "messages|read".
func (c Caps) String() string {
	var names []string
	for i, n := range capNames {
		if c&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if c >>= len(capNames); c != 0 {
		names = append(names, fmt.Sprintf("%#x", uint16(c)<<len(capNames)))
	}
	return strings.Join(names, "|")
}

// has reports whether a setting allows a kind.
func (c Caps) has(kind Caps) bool { return c == 0 || c&kind != 0 }

// begins is the state of an endpoint that is enabled.
func (c Caps) begins() uint32 {
	if c.has(CapMessages) {
		return enabled
	}
	return mute
}

// target is what the setting Target comes to: the protocol's settings, and what peers may not
// do.
func (c Caps) target(p ProtocolConfig) (ProtocolConfig, endpoint.Refusals) {
	var r endpoint.Refusals
	if !c.has(CapRead) {
		p.NoRDMARead = true
		r |= endpoint.RefuseReads
	}
	if !c.has(CapWrite) {
		p.NoRDMAWrite = true
		r |= endpoint.RefuseWrites
	}
	if !c.has(CapAtomic) {
		r |= endpoint.RefuseAtomics
	}
	return p, r
}

// may checks that the endpoint is enabled, and begins operations of a kind.
func (e *Endpoint) may(kind Caps) error {
	if err := e.ready(); err != nil {
		return err
	}
	if !e.cfg.Initiate.has(kind) {
		return fmt.Errorf("%w: %v by an endpoint with Initiate %v", ErrNotSupported, kind, e.cfg.Initiate)
	}
	return nil
}

func (cfg *EndpointConfig) checkCaps(bad func(cond bool, err error, format string, args ...any)) {
	for name, c := range map[string]Caps{"Initiate": cfg.Initiate, "Target": cfg.Target} {
		bad(c&^capsConfig != 0, ErrInvalid, "%s has %v, which is nothing to ask for", name, c&^capsConfig)
		bad(c&CapNothing != 0 && c != CapNothing, ErrInvalid, "%s is %v: nothing and something", name, c)
	}
	bad((cfg.Direct || cfg.Datagram) && cfg.Target != 0, ErrNotSupported, "Target of a direct endpoint, whose device does what the keys allow")
}
