package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDatatypes(t *testing.T) {
	for d, want := range []struct {
		name string
		size int
	}{
		{"INT8", 1},
		{"UINT8", 1},
		{"INT16", 2},
		{"UINT16", 2},
		{"INT32", 4},
		{"UINT32", 4},
		{"INT64", 8},
		{"UINT64", 8},
		{"FLOAT", 4},
		{"DOUBLE", 8},
		{"FLOAT_COMPLEX", 8},
		{"DOUBLE_COMPLEX", 16},
		{"LONG_DOUBLE", 16},
		{"LONG_DOUBLE_COMPLEX", 32},
		{"INT128", 16},
		{"UINT128", 16},
		{"FLOAT16", 2},
		{"BFLOAT16", 2},
		{"DATATYPE_18", 0},
	} {
		require.Equal(t, want.name, Datatype(d).String())
		require.Equal(t, want.size, Datatype(d).Size(), want.name)
	}
	require.Zero(t, Datatype(0xffffffff).Size())
}

// TestAccepts writes the table of operations out: which RTAs may have one (w, f,
// c), and on how many of the datatypes.
func TestAccepts(t *testing.T) {
	for op, want := range []struct {
		name, where string
		datatypes   int
	}{
		{"MIN", "wf", 11}, // 8 integers, float, double, long double
		{"MAX", "wf", 11},
		{"SUM", "wf", 14},
		{"PROD", "wf", 14},
		{"LOR", "wf", 14},
		{"LAND", "wf", 14},
		{"BOR", "wf", 8},
		{"BAND", "wf", 8},
		{"LXOR", "wf", 14},
		{"BXOR", "wf", 8},
		{"ATOMIC_READ", "f", 14},
		{"ATOMIC_WRITE", "wf", 14},
		{"CSWAP", "c", 14},
		{"CSWAP_NE", "c", 14},
		{"CSWAP_LE", "c", 11},
		{"CSWAP_LT", "c", 11},
		{"CSWAP_GE", "c", 11},
		{"CSWAP_GT", "c", 11},
		{"MSWAP", "c", 8},
		{"DIFF", "", 0},
		{"ATOMIC_OP_20", "", 0},
	} {
		op := AtomicOp(op)
		require.Equal(t, want.name, op.String())
		where := ""
		for i, kind := range []RTAKind{RTAWrite, RTAFetch, RTACompare} {
			n := 0
			for d := range Datatype(20) {
				if op.Accepts(kind, d) {
					n++
				}
			}
			if n != 0 {
				where += "wfc"[i : i+1]
				require.Equal(t, want.datatypes, n, want.name)
			}
		}
		require.Equal(t, want.where, where, want.name)
		for d := range Datatype(20) {
			require.Equal(t, op.Accepts(RTAWrite, d), op.Accepts(RTADCWrite, d))
		}
		require.False(t, op.Accepts(numRTAKinds, DatatypeInt8))
	}
	require.False(t, AtomicOp(0xffffffff).Accepts(RTAWrite, DatatypeInt8))
	require.False(t, OpMin.Accepts(RTAWrite, DatatypeFloatComplex))
	require.False(t, OpBOr.Accepts(RTAFetch, DatatypeDouble))
	require.False(t, OpSum.Accepts(RTAWrite, DatatypeInt128))
}
