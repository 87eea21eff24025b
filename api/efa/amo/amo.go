package amo

import (
	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/wire"
)

// Op is an operation on elements of a peer's memory (enum fi_op, §3.3). Each
// element is updated at once, an array of them is not.
type Op = wire.AtomicOp

// The operations, with t for what is in memory, o for the operand and c for the
// comparand. efa.Cell.Update and Fetch take those of the first block, but
// only Fetch takes Read; Compare takes the others. Minimum, maximum and the
// ordered comparisons are for all but complex numbers, those of bits and MaskedSwap for
// integers. What holds of numbers that are none is said at the types.
const (
	Min   = wire.OpMin   // t = min(t, o)
	Max   = wire.OpMax   // t = max(t, o)
	Sum   = wire.OpSum   // t += o; integers wrap around
	Prod  = wire.OpProd  // t *= o
	LOr   = wire.OpLOr   // t = t || o, as 1 or 0
	LAnd  = wire.OpLAnd  // t = t && o
	BOr   = wire.OpBOr   // t |= o
	BAnd  = wire.OpBAnd  // t &= o
	LXor  = wire.OpLXor  // t = t != o, of what is true
	BXor  = wire.OpBXor  // t ^= o
	Read  = wire.OpRead  // nothing but to fetch; the operand may be nil
	Write = wire.OpWrite // t = o
	Diff  = wire.OpDiff  // t -= o; integers wrap around; where Sum is

	CompareSwap = wire.OpCSwap   // if c == t: t = o
	SwapNE      = wire.OpCSwapNE // if c != t: t = o
	SwapLE      = wire.OpCSwapLE // if c <= t: t = o
	SwapLT      = wire.OpCSwapLT // if c < t: t = o
	SwapGE      = wire.OpCSwapGE // if c >= t: t = o
	SwapGT      = wire.OpCSwapGT // if c > t: t = o
	MaskedSwap  = wire.OpMSwap   // t = o&c | t&^c
)

// Type is the type of an atomic's elements (enum fi_datatype).
type Type = wire.Datatype

// Form is what an atomic brings along and what it brings back.
type Form = atomics.Form

// The forms.
const (
	Update  = atomics.Write   // an operand, and nothing comes back (fi_atomic)
	Fetch   = atomics.Fetch   // an operand, and what was there before comes back (fi_fetch_atomic)
	Compare = atomics.Compare // a comparand too (fi_compare_atomic)
)
