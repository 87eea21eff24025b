package atomics

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/wire"
)

// samples are the elements that the cells of the table are tried with, as they are
// in packets.
func samples(t wire.Datatype) [][]byte {
	size := t.Size()
	var out [][]byte
	switch {
	case t <= wire.DatatypeUint64:
		for _, v := range []uint64{0, 1, 2, 3, 0x7fff_ffff_ffff_ffff, 0x8000_0000_0000_0000, math.MaxUint64, 0x8081_8283_8485_8687, 100} {
			// The low and the high bytes, so that each type sees its own ends.
			b := le.AppendUint64(nil, v)
			out = append(out, b[:size], b[8-size:])
		}
	case t <= wire.DatatypeDouble:
		for _, v := range floats {
			out = append(out, appendFloat(nil, v, size))
		}
	case t <= wire.DatatypeDoubleComplex:
		for i, re := range floats {
			out = append(out, appendFloat(appendFloat(nil, re, size/2), floats[(i*5+3)%len(floats)], size/2))
			out = append(out, appendFloat(appendFloat(nil, re, size/2), 0, size/2))
		}
	case integers(t):
		for _, v := range [][2]uint64{{0, 0}, {1, 0}, {0, 1}, {math.MaxUint64, 0}, {math.MaxUint64, math.MaxInt64}, {0, 1 << 63}, {math.MaxUint64, math.MaxUint64}, {0x8081_8283_8485_8687, 3}, {5, 0x8081_8283_8485_8687}} {
			out = append(out, le.AppendUint64(le.AppendUint64(nil, v[0]), v[1]))
		}
	case size == 2:
		for _, v := range halves16 {
			out = append(out, le.AppendUint16(nil, v), le.AppendUint16(nil, v|0x8000))
		}
	default:
		for i := range 3 {
			out = append(out, bytes.Repeat([]byte{byte(i + 1), 0x7f, 0xff, byte(i)}, size/4))
		}
	}
	return out
}

var floats = []float64{
	0, math.Copysign(0, -1), 1, -1, 1.0 / 3, -2.5e10, 1e30, -3e38, math.MaxFloat64,
	math.SmallestNonzeroFloat32, 3e-45, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN(),
}

// triples are all combinations of samples, as three long vectors. Only the form
// Compare looks at the comparand.
func triples(t wire.Datatype, f Form) (target, operand, compare []byte) {
	s := samples(t)
	last := s
	if f != Compare {
		last = s[len(s)-1:]
	}
	for _, a := range s {
		for _, b := range s {
			for _, c := range last {
				target, operand, compare = append(target, a...), append(operand, b...), append(compare, c...)
			}
		}
	}
	return target, operand, compare
}

// guarded is memory with something around it.
type guarded struct{ all, p []byte }

const guard = 40

func newGuarded(p []byte, shift int) guarded {
	all := memory(len(p) + 2*guard + shift)
	for i := range all {
		all[i] = 0xa5
	}
	g := guarded{all, all[guard+shift : guard+shift+len(p)]}
	copy(g.p, p)
	return g
}

func (g guarded) intact(t *testing.T) {
	t.Helper()
	head := cap(g.all) - cap(g.p)
	front, behind := g.all[:head], g.all[head+len(g.p):]
	require.Equal(t, len(front), bytes.Count(front, []byte{0xa5}), "in front")
	require.Equal(t, guard, bytes.Count(behind, []byte{0xa5}), "behind")
}

// TestEveryCell performs every operation on every datatype in every form, at aligned
// and other addresses, on all combinations of values; or sees it refused.
func TestEveryCell(t *testing.T) {
	if bigEndian {
		t.Fatal("the samples are little-endian: this test is for little-endian hosts")
	}
	for op := range wire.AtomicOp(numOps) {
		for typ := range wire.Datatype(numTypes) {
			for form := range Compare + 2 {
				t.Run(fmt.Sprintf("%v/%v/%d", op, typ, form), func(t *testing.T) {
					if !Valid(op, typ, form) {
						refused(t, op, typ, form)
						return
					}
					shifts := []int{0, 1, 4}
					if testenv.Short() {
						shifts = shifts[:2]
					}
					for _, shift := range shifts {
						performed(t, op, typ, form, shift)
					}
				})
			}
		}
	}
}

func refused(t *testing.T, op wire.AtomicOp, typ wire.Datatype, form Form) {
	p := bytes.Repeat([]byte{3}, 64)
	target, result := bytes.Clone(p), bytes.Clone(p)
	require.Same(t, ErrNotSupported, Apply(op, typ, form, target, bytes.Repeat([]byte{5}, 64), p, result))
	require.Equal(t, p, target)
	require.Equal(t, p, result)
}

func performed(t *testing.T, op wire.AtomicOp, typ wire.Datatype, form Form, shift int) {
	before, operand, compare := triples(typ, form)
	target, result := newGuarded(before, shift), newGuarded(make([]byte, len(before)), shift)
	given := operand
	if op == wire.OpRead {
		given = nil
	}
	require.NoError(t, Apply(op, typ, form, target.p, given, compare, result.p))
	require.True(t, bytes.Equal(before, result.p), "what was there")
	target.intact(t)
	result.intact(t)

	without := newGuarded(before, shift)
	require.NoError(t, Apply(op, typ, form, without.p, given, compare, nil))
	require.True(t, bytes.Equal(target.p, without.p), "with and without result")

	size := typ.Size()
	for i := 0; i < len(before); i += size {
		a, b, c := before[i:i+size], operand[i:i+size], compare[i:i+size]
		want, loose := reference(op, typ, a, b, c)
		if got := target.p[i : i+size]; !same(typ, want, got, loose) {
			t.Fatalf("shift %d: target %x, operand %x, comparand %x: got %x, want %x", shift, a, b, c, got, want)
		}
	}
}

func same(typ wire.Datatype, want, got []byte, loose bool) bool {
	if !loose {
		return bytes.Equal(want, got)
	}
	n := len(want)
	if n == 2 {
		return nearest[typ].nan(le.Uint16(want)) && nearest[typ].nan(le.Uint16(got))
	}
	if typ >= wire.DatatypeFloatComplex {
		n /= 2
	}
	for i := 0; i < len(want); i += n {
		a, b := want[i:i+n], got[i:i+n]
		if math.IsNaN(toFloat(a)) != math.IsNaN(toFloat(b)) || !math.IsNaN(toFloat(a)) && !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}

// TestResultInPlace: a result may take the place of the operand or the comparand.
func TestResultInPlace(t *testing.T) {
	for _, typ := range []wire.Datatype{wire.DatatypeUint16, wire.DatatypeDouble, wire.DatatypeDoubleComplex, wire.DatatypeLongDouble} {
		before, operand, _ := triples(typ, Fetch)
		want, result := bytes.Clone(before), make([]byte, len(before))
		require.NoError(t, Apply(wire.OpWrite, typ, Fetch, want, operand, nil, result))
		require.Equal(t, operand, want)

		got, both := bytes.Clone(before), bytes.Clone(operand)
		require.NoError(t, Apply(wire.OpWrite, typ, Fetch, got, both, nil, both))
		require.Equal(t, want, got)
		require.Equal(t, before, both)
	}
	before, operand, compare := triples(wire.DatatypeInt32, Compare)
	want := bytes.Clone(before)
	require.NoError(t, Apply(wire.OpCSwapGE, wire.DatatypeInt32, Compare, want, operand, compare, nil))
	got, both := bytes.Clone(before), bytes.Clone(compare)
	require.NoError(t, Apply(wire.OpCSwapGE, wire.DatatypeInt32, Compare, got, operand, both, both))
	require.Equal(t, want, got)
	require.Equal(t, before, both)
}
