package atomics

import (
	"fmt"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/wire"
)

// Form is how an atomic is called. It decides which operations are valid and which
// operands accompany them.
type Form uint8

// The forms.
const (
	Write   Form = iota // fi_atomic: an operand
	Fetch               // fi_fetch_atomic: an operand; answered by the old value
	Compare             // fi_compare_atomic: an operand and a comparand; answered likewise
)

var formNames = [...]string{"update", "fetch", "compare"}

// String gives the name in small letters.
func (f Form) String() string {
	if int(f) < len(formNames) {
		return formNames[f]
	}
	return fmt.Sprintf("Form(%d)", uint8(f))
}

// FormOf returns the form of an RTA packet of type t.
func FormOf(t wire.Type) Form {
	switch t {
	case wire.TypeFetchRTA:
		return Fetch
	case wire.TypeCompareRTA:
		return Compare
	default:
		return Write
	}
}

// kind is the packet that carries the form.
func (f Form) kind() (wire.RTAKind, bool) {
	switch f {
	case Write:
		return wire.RTAWrite, true
	case Fetch:
		return wire.RTAFetch, true
	case Compare:
		return wire.RTACompare, true
	default:
		return 0, false
	}
}

// likeness is a datatype that every libfabric performs the same operations on.
func likeness(t wire.Datatype) wire.Datatype {
	switch t {
	case wire.DatatypeInt128:
		return wire.DatatypeInt64
	case wire.DatatypeUint128:
		return wire.DatatypeUint64
	case wire.DatatypeFloat16, wire.DatatypeBFloat16:
		return wire.DatatypeFloat
	default:
		return t
	}
}

// Valid reports whether Apply performs op on elements of type t in the form f. The
// answer is that of wire.AtomicOp.Accepts, except that
//
//   - a long double, which Go lacks, and its complex type can only be read and written;
//   - integers of 128 bits are like others, and floating-point numbers of 16 bits like
//     those of 32;
//   - DIFF is valid where SUM is.
func Valid(op wire.AtomicOp, t wire.Datatype, f Form) bool {
	k, ok := f.kind()
	as := op
	if op == wire.OpDiff {
		as = wire.OpSum
	}
	if !ok || !as.Accepts(k, likeness(t)) {
		return false
	}
	if t == wire.DatatypeLongDouble || t == wire.DatatypeLongDoubleComplex {
		return op == wire.OpRead || op == wire.OpWrite
	}
	return true
}

// Count returns how many elements of type t one packet carries if its operand, and
// in the form Compare also its comparand, share room bytes.
func Count(t wire.Datatype, f Form, room int) int {
	size := t.Size()
	if size == 0 || room < 0 {
		return 0
	}
	if f == Compare {
		size *= 2
	}
	return room / size
}

// Errors of Apply; nothing was applied.
var (
	// ErrNotSupported: there is no such operation on this datatype in this form.
	ErrNotSupported = fmt.Errorf("atomics: no such operation on the datatype: %w", errno.ErrNotSupported)
	// ErrLength: the target is no whole number of elements, or the operand, the
	// comparand or the result is shorter than the target.
	ErrLength = fmt.Errorf("atomics: lengths do not fit: %w", errno.ErrInvalid)
)
