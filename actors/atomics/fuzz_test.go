package atomics

import (
	"bytes"
	"testing"

	"github.com/efactor/efactor/wire"
)

// FuzzApply gives any operation any bytes: nothing panics, nothing outside of target
// and result is written, and an error means that they weren't either.
func FuzzApply(f *testing.F) {
	f.Add(uint32(wire.OpSum), uint32(wire.DatatypeUint64), uint8(Write), uint8(0), []byte("01234567"), []byte("abcdefgh"), []byte(nil), uint16(0))
	f.Add(uint32(wire.OpCSwapLE), uint32(wire.DatatypeDouble), uint8(Compare), uint8(3), []byte("0123456789abcdef"), []byte("fedcba9876543210"), []byte("0123456789abcdef"), uint16(17))
	f.Add(uint32(wire.OpRead), uint32(wire.DatatypeLongDoubleComplex), uint8(Fetch), uint8(1), bytes.Repeat([]byte{9}, 96), []byte(nil), []byte(nil), uint16(97))
	f.Add(uint32(wire.OpProd), uint32(wire.DatatypeFloatComplex), uint8(Fetch), uint8(4), bytes.Repeat([]byte{0x7f}, 64), bytes.Repeat([]byte{0xff}, 65), []byte(nil), uint16(65))
	f.Add(uint32(wire.OpDiff), uint32(99), uint8(7), uint8(63), []byte("x"), []byte("y"), []byte("z"), uint16(2))
	f.Fuzz(func(t *testing.T, op, typ uint32, form, shift uint8, before, operand, compare []byte, room uint16) {
		target := newGuarded(before, int(shift))
		result := newGuarded(bytes.Repeat([]byte{1}, int(room)), 0)
		given := result.p
		if room == 0 {
			given = nil
		}
		operandBefore, compareBefore := bytes.Clone(operand), bytes.Clone(compare)
		err := Apply(wire.AtomicOp(op), wire.Datatype(typ), Form(form), target.p, operand, compare, given)
		target.intact(t)
		result.intact(t)
		if !bytes.Equal(operand, operandBefore) || !bytes.Equal(compare, compareBefore) {
			t.Fatal("wrote to the operand or the comparand")
		}
		if err != nil {
			if !bytes.Equal(before, target.p) || bytes.IndexFunc(result.p, func(r rune) bool { return r != 1 }) >= 0 {
				t.Fatalf("applied, and %v", err)
			}
			return
		}
		if given != nil && !bytes.Equal(before, given[:len(before)]) {
			t.Fatal("the result is not what was there")
		}
	})
}
