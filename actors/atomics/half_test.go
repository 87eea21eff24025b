package atomics

import (
	"math"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/wire"
)

// halves16 are numbers of both formats: zero, the smallest, beside the smallest normal ones, 1
// or a neighbor, the largest, infinity and NaN.
var halves16 = []uint16{
	0, 1, 0x3ff, 0x80, 0x3c00, 0x3f81, 0x7bff, 0x7c00, 0x7f7f, 0x7f80, 0x7fff,
}

// table16 is a format written out: the numbers above zero in the order of their bits, made from
// the definition of the format.
type table16 struct {
	values   []float64
	infinity uint16
}

// nearest are the formats by type.
var nearest = map[wire.Datatype]*table16{
	wire.DatatypeFloat16:  newTable16(10, 15),
	wire.DatatypeBFloat16: newTable16(7, 127),
}

func newTable16(fraction, bias int) *table16 {
	t := new(table16)
	for e := range 1<<(15-fraction) - 1 {
		for m := range 1 << fraction {
			if e == 0 {
				t.values = append(t.values, math.Ldexp(float64(m), 1-bias-fraction))
			} else {
				t.values = append(t.values, math.Ldexp(float64(1<<fraction+m), e-bias-fraction))
			}
		}
	}
	t.infinity = uint16(len(t.values))
	return t
}

func (t *table16) nan(v uint16) bool { return v&0x7fff > t.infinity }

func (t *table16) value(v uint16) float64 {
	x := math.NaN()
	switch u := v & 0x7fff; {
	case u < t.infinity:
		x = t.values[u]
	case u == t.infinity:
		x = math.Inf(1)
	}
	return math.Copysign(x, 1-2*float64(v>>15))
}

// round finds the nearest number by looking for it.
func (t *table16) round(v float64) uint16 {
	if math.IsNaN(v) {
		return 0x7fff
	}
	sign, abs := uint16(0), math.Abs(v)
	if math.Signbit(v) {
		sign = 0x8000
	}
	n := len(t.values)
	i := sort.SearchFloat64s(t.values, abs) // the first that is not below
	if i == 0 {
		return sign
	}
	below, above := t.values[i-1], 0.0
	if i < n {
		above = t.values[i]
	} else {
		above = 2*t.values[n-1] - t.values[n-2] // where infinity would be
	}
	if middle := below + (above-below)/2; abs < middle || abs == middle && (i-1)%2 == 0 {
		i--
	}
	return sign | uint16(i)
}

func refHalf(op wire.AtomicOp, typ wire.Datatype, target, operand, compare []byte) (want []byte, loose bool) {
	t := nearest[typ]
	a, b, c := t.value(le.Uint16(target)), t.value(le.Uint16(operand)), t.value(le.Uint16(compare))
	var v float64
	switch op {
	case wire.OpSum:
		v = exact(wire.OpSum, a, b, 8)
	case wire.OpDiff:
		v = exact(wire.OpSum, a, -b, 8)
	case wire.OpProd:
		v = exact(wire.OpProd, a, b, 8)
	case wire.OpLOr, wire.OpLAnd, wire.OpLXor:
		v = float64(truth(op, a != 0, b != 0))
	default:
		order, ordered := compareFloats(a, b)
		swap, swapOrdered := compareFloats(c, a)
		if op != wire.OpMin && op != wire.OpMax {
			ordered = swapOrdered
		}
		if takes(op, order, swap, ordered) {
			return operand, false
		}
		return target, false
	}
	return le.AppendUint16(nil, t.round(v)), math.IsNaN(v)
}

// TestHalfFormats: all 65,536 values of both formats are what the definition says, and are
// themselves after rounding.
func TestHalfFormats(t *testing.T) {
	for typ, h := range map[wire.Datatype]half{wire.DatatypeFloat16: binary16, wire.DatatypeBFloat16: bfloat16} {
		table := nearest[typ]
		require.Equal(t, table.infinity, h.infinity())
		for i := range 1 << 16 {
			v := uint16(i)
			got, want := h.value(v), table.value(v)
			if table.nan(v) {
				require.True(t, math.IsNaN(got), "%v %#x", typ, v)
				require.True(t, table.nan(h.bits(got)))
				continue
			}
			require.Equal(t, math.Float64bits(want), math.Float64bits(got), "%v %#x", typ, v)
			require.Equal(t, v, h.bits(got), "%v %#x", typ, v)
		}
	}
	require.Equal(t, uint16(0x3f80), BFloat16(1))
	require.Equal(t, 1.0, FromBFloat16(0x3f80))
	require.Equal(t, uint16(0x3c00), Float16(1))
	require.Equal(t, -2.0, FromFloat16(0xc000))
}

// TestHalfRounding: every value of a format, its two neighbors' middles, and a hair beside them,
// round as the search in the table says; random float64 and every sum of sampled pairs too.
func TestHalfRounding(t *testing.T) {
	rng := rand.New(rand.NewPCG(16, 1))
	for typ, h := range map[wire.Datatype]half{wire.DatatypeFloat16: binary16, wire.DatatypeBFloat16: bfloat16} {
		table := nearest[typ]
		check := func(v float64) {
			if got, want := h.bits(v), table.round(v); got != want && !math.IsNaN(v) {
				t.Fatalf("%v: %g (%#x) rounds to %#x, want %#x", typ, v, math.Float64bits(v), got, want)
			}
		}
		for i := range table.values[1:] {
			middle := table.values[i] + (table.values[i+1]-table.values[i])/2
			for _, v := range []float64{middle, math.Nextafter(middle, 0), math.Nextafter(middle, math.Inf(1))} {
				check(v)
				check(-v)
			}
		}
		last := table.values[len(table.values)-1]
		for _, v := range []float64{0, last, math.MaxFloat64, math.Inf(1), math.SmallestNonzeroFloat64, last * (1 + 1.0/1024), last * (1 + 1.0/4096), last * (1 + 1.0/512)} {
			check(v)
			check(-v)
		}
		for range 50_000 {
			check(math.Float64frombits(rng.Uint64()))
			a, b := uint16(rng.Uint32()), uint16(rng.Uint32())
			x, y := le.AppendUint16(nil, a), le.AppendUint16(nil, b)
			for _, op := range []wire.AtomicOp{wire.OpSum, wire.OpDiff, wire.OpProd, wire.OpMin, wire.OpMax} {
				want, loose := refHalf(op, typ, x, y, y)
				got := h.step(op, a, b, b)
				if got != le.Uint16(want) && (!loose || !table.nan(got)) {
					t.Fatalf("%v: %#x %v %#x is %#x, want %x", typ, a, op, b, got, want)
				}
			}
		}
	}
}
