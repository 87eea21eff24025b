package efa

import (
	"fmt"
	"math"
)

// DataLayout says how the 32 bits of a write's data (its immediate, where a device writes)
// are divided:
//
//	 31            ValueBits           0
//	+---------------+-------------------+
//	|  generation   |       value       |
//	+---------------+-------------------+
//
// Both sides must use the same. The more bits the generation has, the later a write of an earlier
// one may come and be known as that: with b bits up to 2^b - 2 generations, and with one bit
// or none no write can come before its generation has begun. With none, all are counted for the
// present one.
type DataLayout struct {
	// ValueBits is how many bits are the value's, 1 to 32. 0 means 24, which leaves 8 for the
	// generation.
	ValueBits int
}

const defaultValueBits = 24

func (l DataLayout) bits() int {
	if l.ValueBits == 0 {
		return defaultValueBits
	}
	return l.ValueBits
}

// MaxValue is the highest value.
func (l DataLayout) MaxValue() uint32 { return uint32(uint64(1)<<l.bits() - 1) }

// generations is the mask of a generation's bits that the data has.
func (l DataLayout) generations() uint32 { return uint32(uint64(1)<<(32-l.bits()) - 1) }

// Data is the data of a write with this value, of which generation only the lower bits go
// along. ErrInvalid says that the value has more bits than the layout gives it.
func (l DataLayout) Data(value, generation uint32) (_ uint64, err error) {
	defer formed("data layout", &err)
	switch {
	case l.ValueBits < 0 || l.ValueBits > 32:
		return 0, fmt.Errorf("%w: a value of %d bits, at most 32", ErrInvalid, l.ValueBits)
	case value > l.MaxValue():
		return 0, fmt.Errorf("%w: value %d has more than %d bits", ErrInvalid, value, l.bits())
	}
	return uint64(generation&l.generations())<<l.bits()&math.MaxUint32 | uint64(value), nil
}

// split takes the lower 32 bits of data apart.
func (l DataLayout) split(data uint64) (value, mark uint32) {
	return uint32(data) & l.MaxValue(), uint32(uint64(uint32(data)) >> l.bits())
}
