package atomics

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

const (
	numOps   = 22 // two of them have no meaning
	numTypes = 20 // likewise
)

// matrix is the whole table, written out: one letter a form (w, f, c), one column a
// datatype from INT8 on.
const matrix = `
                 i8 u8 i16 u16 i32 u32 i64 u64 flt dbl fc dc ld ldc i128 u128 f16 bf16
MIN              wf wf wf  wf  wf  wf  wf  wf  wf  wf  -  -  -  -   wf   wf   wf  wf
MAX              wf wf wf  wf  wf  wf  wf  wf  wf  wf  -  -  -  -   wf   wf   wf  wf
SUM              wf wf wf  wf  wf  wf  wf  wf  wf  wf  wf wf -  -   wf   wf   wf  wf
PROD             wf wf wf  wf  wf  wf  wf  wf  wf  wf  wf wf -  -   wf   wf   wf  wf
LOR              wf wf wf  wf  wf  wf  wf  wf  wf  wf  wf wf -  -   wf   wf   wf  wf
LAND             wf wf wf  wf  wf  wf  wf  wf  wf  wf  wf wf -  -   wf   wf   wf  wf
BOR              wf wf wf  wf  wf  wf  wf  wf  -   -   -  -  -  -   wf   wf   -   -
BAND             wf wf wf  wf  wf  wf  wf  wf  -   -   -  -  -  -   wf   wf   -   -
LXOR             wf wf wf  wf  wf  wf  wf  wf  wf  wf  wf wf -  -   wf   wf   wf  wf
BXOR             wf wf wf  wf  wf  wf  wf  wf  -   -   -  -  -  -   wf   wf   -   -
ATOMIC_READ      f  f  f   f   f   f   f   f   f   f   f  f  f  f   f    f    f   f
ATOMIC_WRITE     wf wf wf  wf  wf  wf  wf  wf  wf  wf  wf wf wf wf  wf   wf   wf  wf
CSWAP            c  c  c   c   c   c   c   c   c   c   c  c  -  -   c    c    c   c
CSWAP_NE         c  c  c   c   c   c   c   c   c   c   c  c  -  -   c    c    c   c
CSWAP_LE         c  c  c   c   c   c   c   c   c   c   -  -  -  -   c    c    c   c
CSWAP_LT         c  c  c   c   c   c   c   c   c   c   -  -  -  -   c    c    c   c
CSWAP_GE         c  c  c   c   c   c   c   c   c   c   -  -  -  -   c    c    c   c
CSWAP_GT         c  c  c   c   c   c   c   c   c   c   -  -  -  -   c    c    c   c
MSWAP            c  c  c   c   c   c   c   c   -   -   -  -  -  -   c    c    -   -
DIFF             wf wf wf  wf  wf  wf  wf  wf  wf  wf  wf wf -  -   wf   wf   wf  wf
ATOMIC_OP_20     -  -  -   -   -   -   -   -   -   -   -  -  -  -   -    -    -   -
ATOMIC_OP_21     -  -  -   -   -   -   -   -   -   -   -  -  -  -   -    -    -   -
`

func TestValid(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(matrix), "\n")[1:]
	require.Len(t, lines, numOps)
	for i, line := range lines {
		op, cells := wire.AtomicOp(i), strings.Fields(line)
		require.Equal(t, cells[0], op.String())
		cells = append(cells[1:], "-", "-")
		require.Len(t, cells, numTypes)
		for d, forms := range cells {
			typ := wire.Datatype(d)
			for f, letter := range "wfc" {
				f := Form(f)
				require.Equal(t, strings.ContainsRune(forms, letter), Valid(op, typ, f), "%v %v %v", op, typ, f)
			}
			require.False(t, Valid(op, typ, Compare+1))
		}
	}
}

// TestValidIsWithinWire: package wire knows what libfabric performs; of that only
// arithmetic on long doubles is missing here. What is more here is DIFF and four types.
func TestValidIsWithinWire(t *testing.T) {
	missing := 0
	for op := range wire.AtomicOp(numOps) {
		for d := range wire.Datatype(numTypes) {
			for _, k := range []wire.RTAKind{wire.RTAWrite, wire.RTAFetch, wire.RTACompare, wire.RTADCWrite} {
				accepts, valid := op.Accepts(k, d), Valid(op, d, FormOf((&wire.RTA{Kind: k}).Type()))
				more := op == wire.OpDiff || d >= wire.DatatypeInt128
				require.True(t, accepts || !valid || more, "%v %v", op, d)
				if accepts && !valid {
					require.Contains(t, d.String(), "LONG_DOUBLE")
					missing++
				}
			}
		}
	}
	// Write, DC write and fetch of MIN, MAX (one type), SUM, PROD, LOR, LAND, LXOR
	// (two); CSWAP, CSWAP_NE (two), the other four (one).
	require.Equal(t, 3*(2*1+5*2)+2*2+4*1, missing)
}

func TestCount(t *testing.T) {
	require.Equal(t, 1000, Count(wire.DatatypeUint64, Write, 8007))
	require.Equal(t, 1000, Count(wire.DatatypeUint64, Fetch, 8000))
	require.Equal(t, 500, Count(wire.DatatypeUint64, Compare, 8015))
	require.Equal(t, 499, Count(wire.DatatypeUint64, Compare, 7999))
	require.Equal(t, 0, Count(wire.DatatypeDoubleComplex, Compare, 31))
	require.Equal(t, 0, Count(wire.DatatypeUint8, Write, -1))
	require.Equal(t, 0, Count(numTypes, Write, 8000))
}
