package efa

import (
	"fmt"

	"github.com/efactor/efactor/actors/ope"
)

// Level is how far what leaves from here must have come before its operation
// completes. What fetches completes with what was fetched, whatever the level.
type Level uint8

// The completion levels.
const (
	// Transmitted: the message is in the peer's receive buffers or its queue of
	// unexpected messages, acknowledged by its device (FI_TRANSMIT_COMPLETE).
	// This is the default; Injected is the same on EFA. A write or an atomic
	// that is short enough for one packet has only reached the peer's device
	// then: whether the peer refused it, nobody hears.
	Transmitted Level = iota
	Injected          // FI_INJECT_COMPLETE
	// Delivered: the data is in the application's buffer, or in the memory that
	// was written or updated, for everybody there to see
	// (FI_DELIVERY_COMPLETE, §4.2). A peer that refuses says so.
	Delivered
	// Matched: a receive has taken the message (FI_MATCH_COMPLETE). On the wire
	// it is the same as Delivered, and for what is no message it means that.
	Matched
)

// OpOption modifies one operation, or a view of an endpoint (see Endpoint.With).
// Options are values: giving them does not allocate.
type OpOption struct {
	kind optKind
	u    uint64
	a    any
}

type optKind uint8

const (
	optNone optKind = iota
	optData
	optToken
	optFrom
	optLevel
	optInject
	optQuiet
	optFence
)

// Options without a value.
var (
	// Inject copies a message, a write or the operand of an atomic that fetches
	// nothing before the call returns, so that its buffer is free at once; at
	// most Limits.MaxInject bytes. It has no completion unless it fails
	// (fi_inject). Its level is Transmitted, whatever was asked for. For what
	// fetches it means nothing.
	Inject = OpOption{kind: optInject}
	// Quiet makes a posted operation report failure only
	// (FI_SELECTIVE_COMPLETION without FI_COMPLETION). Blocking calls take no
	// notice of it. A queue that nobody reads keeps the first few thousand
	// failures of Quiet and Inject.
	Quiet = OpOption{kind: optQuiet}
	// Fence makes an operation wait for all earlier ones to the same peer.
	// Not built yet.
	Fence = OpOption{kind: optFence}
)

// Data sends v along with a message or a write as remote CQ data
// (FI_REMOTE_CQ_DATA). A write with data tells the other side, see [RemoteWrite].
func Data(v uint64) OpOption { return OpOption{kind: optData, u: v} }

// Token is the caller's, and comes back in the completion. A pointer costs no
// allocation.
func Token(v any) OpOption { return OpOption{kind: optToken, a: v} }

// From makes a receive take messages of one peer only (FI_DIRECTED_RECV), or, in a
// call on a view that has it, with AnyAddr of all again.
func From(a Addr) OpOption { return OpOption{kind: optFrom, u: uint64(a)} }

// Complete asks for a completion level.
func Complete(l Level) OpOption { return OpOption{kind: optLevel, u: uint64(l)} }

// settings is what options come to.
type settings struct {
	data    uint64
	hasData bool
	token   any
	from    Addr
	level   Level
	inject  bool
	quiet   bool
	fence   bool
}

func (s *settings) apply(opts []OpOption) {
	for i := range opts {
		switch o := &opts[i]; o.kind {
		case optData:
			s.data, s.hasData = o.u, true
		case optToken:
			s.token = o.a
		case optFrom:
			s.from = Addr(o.u)
		case optLevel:
			s.level = Level(o.u)
		case optInject:
			s.inject = true
		case optQuiet:
			s.quiet = true
		case optFence:
			s.fence = true
		case optNone:
		}
	}
}

func (s *settings) check() error {
	switch {
	case s.level > Matched:
		return fmt.Errorf("%w: there is no completion level %d", ErrInvalid, s.level)
	case s.fence:
		return fmt.Errorf("%w: Fence is not built yet", ErrNotSupported)
	}
	return nil
}

// flags are what a request with the given wishes of its own gets.
func (s *settings) flags(level Level, inject, quiet bool) ope.Flags {
	if level == 0 {
		level = s.level
	}
	var f ope.Flags
	if level >= Delivered {
		f |= ope.Deliver
	}
	if quiet || s.quiet {
		f |= ope.Quiet
	}
	if inject || s.inject {
		f |= ope.Inject | ope.Quiet
		f &^= ope.Deliver
	}
	return f
}

// withoutInject is the settings of what cannot be injected.
func (s settings) withoutInject() *settings {
	s.inject = false
	return &s
}

// tokenOf is what comes back in the completion of a request with a token of its
// own, or none.
func (s *settings) tokenOf(own any) any {
	if own == nil {
		return s.token
	}
	return own
}
