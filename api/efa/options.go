package efa

import (
	"fmt"
)

// Level is how far what leaves from here must have come before its operation
// completes. What fetches completes with what was fetched, whatever the level.
// Zero means the default: of an operation the endpoint's, of an endpoint
// Transmitted.
type Level uint8

// The completion levels.
const (
	// Transmitted: the message is in the peer's receive buffers or its queue of
	// unexpected messages, acknowledged by its device (FI_TRANSMIT_COMPLETE).
	// FI_INJECT_COMPLETE is the same on EFA. A write or an atomic that is short
	// enough for one packet has only reached the peer's device then: nobody hears
	// whether the peer refused it.
	Transmitted Level = iota + 1
	// Delivered: the data is in the application's buffer, or in the memory that
	// was written or updated, for everybody there to see
	// (FI_DELIVERY_COMPLETE, §4.2, and FI_MATCH_COMPLETE, which is the same on the
	// wire). A peer that refuses says so.
	Delivered
)

var levelNames = [...]string{"default", "transmitted", "delivered"}

// String gives the name in small letters, "default" of 0.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// check refuses a level that there is not.
func (l Level) check() error {
	if l > Delivered {
		return fmt.Errorf("%w: there is no completion level %d", ErrInvalid, l)
	}
	return nil
}

// OpOption modifies a blocking call. Posted operations have fields of their request
// for the same. Options are values: giving them does not allocate.
type OpOption struct {
	kind optKind
	u    uint64
}

type optKind uint8

const (
	optNone optKind = iota
	optData
	optFrom
	optLevel
	optInject
	optToken
	optFence
	optWait

	optKinds
)

// Inject copies a message, a write or the operand of an atomic that fetches
// nothing before the call returns, so that its buffer is free at once; at
// most Limits.MaxInject bytes. It has no completion unless it fails
// (fi_inject). Its level is Transmitted, whatever was asked for. For what
// fetches it means nothing.
var Inject = OpOption{kind: optInject}

// Data sends v along with a message or a write as remote CQ data
// (FI_REMOTE_CQ_DATA). A write with data tells the other side, see [RemoteWrite]. It has 64
// bits; a message to a libfabric peer that receives without copies (a user receive queue pair,
// releases 1.22 to 2.5) carries 32, and more end it with ErrNotSupported.
func Data(v uint64) OpOption { return OpOption{kind: optData, u: v} }

// Token is the caller's, and comes back in the completion if what is injected fails.
func Token(v uint64) OpOption { return OpOption{kind: optToken, u: v} }

// From makes a receive take messages of one peer only (FI_DIRECTED_RECV), or, with
// AnyAddr, of all.
func From(a Addr) OpOption { return OpOption{kind: optFrom, u: uint64(a)} }

// Wait makes Peek, Claim and their forms for tags wait until there is a message, or ctx ends.
// With [Inject] Send and SendTag return when the device has the message, and those before it: then the
// end of the process loses no more of them than the device does, and what waits here because the peer
// takes no more. Of software devices shm has put it into the peer's memory, tcp into the socket.
// Elsewhere Wait means nothing: what else can wait does.
var Wait = OpOption{kind: optWait}

// Complete asks for a completion level.
func Complete(l Level) OpOption { return OpOption{kind: optLevel, u: uint64(l)} }

// wishes is what options come to: which kinds there are, as bits, and the last value of each.
type wishes struct {
	kinds  uint
	values [optKinds]uint64
}

// read reads the options of a call, and reports whether there are such values; else err says
// what is wrong.
func (w *wishes) read(opts []OpOption) bool {
	for i := range opts {
		k := opts[i].kind % optKinds
		w.kinds |= 1 << k
		w.values[k] = opts[i].u
	}
	return w.level() <= Delivered
}

func (w *wishes) err() error { return w.level().check() }

func (w *wishes) has(k optKind) bool { return w.kinds>>k&1 != 0 }

func (w *wishes) level() Level { return Level(w.values[optLevel]) }

// from is the only sender to receive from, or AnyAddr.
func (w *wishes) from() Addr {
	if w.has(optFrom) {
		return Addr(w.values[optFrom])
	}
	return AnyAddr
}
