package wire

import "strconv"

// Datatype is the type of an atomic's elements, as atomic_datatype has it (§3.3,
// Table 3.13): libfabric's enum fi_datatype.
type Datatype uint32

// Atomic datatypes, in libfabric's order. Those from INT128 on have a number, but
// no release of the EFA provider accepts them; an efactor does.
const (
	DatatypeInt8 Datatype = iota
	DatatypeUint8
	DatatypeInt16
	DatatypeUint16
	DatatypeInt32
	DatatypeUint32
	DatatypeInt64
	DatatypeUint64
	DatatypeFloat
	DatatypeDouble
	DatatypeFloatComplex
	DatatypeDoubleComplex
	DatatypeLongDouble
	DatatypeLongDoubleComplex
	DatatypeInt128
	DatatypeUint128
	DatatypeFloat16  // IEEE 754 binary16, from libfabric 2.0 on
	DatatypeBFloat16 // likewise
	numDatatypes
)

// kinds of datatypes; an operation accepts some.
const (
	kindInteger = 1 << iota
	kindReal
	kindComplex

	kindOrdered = kindInteger | kindReal
	kindAll     = kindInteger | kindReal | kindComplex
)

var datatypes = [numDatatypes]struct {
	name string
	size uint8
	kind uint8
}{
	DatatypeInt8:          {"INT8", 1, kindInteger},
	DatatypeUint8:         {"UINT8", 1, kindInteger},
	DatatypeInt16:         {"INT16", 2, kindInteger},
	DatatypeUint16:        {"UINT16", 2, kindInteger},
	DatatypeInt32:         {"INT32", 4, kindInteger},
	DatatypeUint32:        {"UINT32", 4, kindInteger},
	DatatypeInt64:         {"INT64", 8, kindInteger},
	DatatypeUint64:        {"UINT64", 8, kindInteger},
	DatatypeFloat:         {"FLOAT", 4, kindReal},
	DatatypeDouble:        {"DOUBLE", 8, kindReal},
	DatatypeFloatComplex:  {"FLOAT_COMPLEX", 8, kindComplex},
	DatatypeDoubleComplex: {"DOUBLE_COMPLEX", 16, kindComplex},
	// x86-64's 80-bit extended format, padded to 16 bytes.
	DatatypeLongDouble:        {"LONG_DOUBLE", 16, kindReal},
	DatatypeLongDoubleComplex: {"LONG_DOUBLE_COMPLEX", 32, kindComplex},
	DatatypeInt128:            {"INT128", 16, 0},
	DatatypeUint128:           {"UINT128", 16, 0},
	DatatypeFloat16:           {"FLOAT16", 2, 0},
	DatatypeBFloat16:          {"BFLOAT16", 2, 0},
}

// Size is the bytes of one element, 0 for an unknown datatype.
func (d Datatype) Size() int {
	if d >= numDatatypes {
		return 0
	}
	return int(datatypes[d].size)
}

// String returns libfabric's name without its prefix FI_.
func (d Datatype) String() string {
	if d >= numDatatypes {
		return "DATATYPE_" + strconv.FormatUint(uint64(d), 10)
	}
	return datatypes[d].name
}

// AtomicOp is an atomic operation, as atomic_op has it (§3.3, Table 3.13):
// libfabric's enum fi_op.
type AtomicOp uint32

// Atomic operations, in libfabric's order. DIFF has a number, but no release
// of the EFA provider accepts it; an efactor does.
const (
	OpMin AtomicOp = iota
	OpMax
	OpSum
	OpProd
	OpLOr
	OpLAnd
	OpBOr
	OpBAnd
	OpLXor
	OpBXor
	OpRead
	OpWrite
	OpCSwap
	OpCSwapNE
	OpCSwapLE
	OpCSwapLT
	OpCSwapGE
	OpCSwapGT
	OpMSwap
	OpDiff
	numAtomicOps
)

// atomicOps holds the kinds of datatypes that each operation accepts, and the RTAs
// in which it may be.
var atomicOps = [numAtomicOps]struct {
	name                  string
	kinds                 uint8
	write, fetch, compare bool
}{
	OpMin:     {name: "MIN", kinds: kindOrdered, write: true, fetch: true},
	OpMax:     {name: "MAX", kinds: kindOrdered, write: true, fetch: true},
	OpSum:     {name: "SUM", kinds: kindAll, write: true, fetch: true},
	OpProd:    {name: "PROD", kinds: kindAll, write: true, fetch: true},
	OpLOr:     {name: "LOR", kinds: kindAll, write: true, fetch: true},
	OpLAnd:    {name: "LAND", kinds: kindAll, write: true, fetch: true},
	OpBOr:     {name: "BOR", kinds: kindInteger, write: true, fetch: true},
	OpBAnd:    {name: "BAND", kinds: kindInteger, write: true, fetch: true},
	OpLXor:    {name: "LXOR", kinds: kindAll, write: true, fetch: true},
	OpBXor:    {name: "BXOR", kinds: kindInteger, write: true, fetch: true},
	OpRead:    {name: "ATOMIC_READ", kinds: kindAll, fetch: true},
	OpWrite:   {name: "ATOMIC_WRITE", kinds: kindAll, write: true, fetch: true},
	OpCSwap:   {name: "CSWAP", kinds: kindAll, compare: true},
	OpCSwapNE: {name: "CSWAP_NE", kinds: kindAll, compare: true},
	OpCSwapLE: {name: "CSWAP_LE", kinds: kindOrdered, compare: true},
	OpCSwapLT: {name: "CSWAP_LT", kinds: kindOrdered, compare: true},
	OpCSwapGE: {name: "CSWAP_GE", kinds: kindOrdered, compare: true},
	OpCSwapGT: {name: "CSWAP_GT", kinds: kindOrdered, compare: true},
	OpMSwap:   {name: "MSWAP", kinds: kindInteger, compare: true},
	OpDiff:    {name: "DIFF"},
}

// String returns libfabric's name without its prefix FI_.
func (op AtomicOp) String() string {
	if op >= numAtomicOps {
		return "ATOMIC_OP_" + strconv.FormatUint(uint64(op), 10)
	}
	return atomicOps[op].name
}

// Accepts reports whether libfabric's EFA provider performs op on elements of type d in an RTA of
// kind k. It is false for numbers that are not assigned.
func (op AtomicOp) Accepts(k RTAKind, d Datatype) bool {
	if op >= numAtomicOps || d >= numDatatypes {
		return false
	}
	o := &atomicOps[op]
	if o.kinds&datatypes[d].kind == 0 {
		return false
	}
	switch k {
	case RTAWrite, RTADCWrite:
		return o.write
	case RTAFetch:
		return o.fetch
	case RTACompare:
		return o.compare
	default:
		return false
	}
}
