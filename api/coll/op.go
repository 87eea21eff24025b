package coll

// Op combines elements: it leaves in inout[i] what in[i] and inout[i] make, for
// all i. Both slices have the same length, and do not overlap. The functions
// [Sum], [Min] and so on are such operators, and so is any function of the
// caller's; it must be associative and the same on all ranks.
//
// Operators are taken to be commutative. With the option [NonCommutative], and always in
// [Scan] and [Exscan], in comes from lower ranks than inout, so that the result is that of
// rank 0, 1, 2, ... in this order.
//
// An operator that panics, or ends its goroutine, ends its rank's part in the group: the other
// ranks get a [RankError] that names it. The panic goes on in the caller of a blocking
// collective, and is the error of a [Request].
type Op[T any] func(in, inout []T)

// Integer is Go's integers.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

// Ordered is Go's numbers that can be less or greater.
type Ordered interface {
	Integer | ~float32 | ~float64
}

// Number is all of Go's numbers.
type Number interface {
	Ordered | ~complex64 | ~complex128
}

// combiner is an Op without its element type: the algorithms' view of it.
type combiner interface {
	combine(in, inout []byte)
}

// combine implements combiner.
func (op Op[T]) combine(in, inout []byte) { op(elements[T](in), elements[T](inout)) }

// Sum adds; integers wrap around.
func Sum[T Number](in, inout []T) {
	in = in[:len(inout)]
	for len(inout) >= unroll {
		a, b := (*[unroll]T)(in), (*[unroll]T)(inout)
		b[0] += a[0]
		b[1] += a[1]
		b[2] += a[2]
		b[3] += a[3]
		b[4] += a[4]
		b[5] += a[5]
		b[6] += a[6]
		b[7] += a[7]
		in, inout = in[unroll:], inout[unroll:]
	}
	for i, v := range in {
		inout[i] += v
	}
}

// unroll is how many elements a turn of a loop does: enough for the processor to
// have no wait for the loop itself.
const unroll = 8

// Prod multiplies; integers wrap around.
func Prod[T Number](in, inout []T) {
	in = in[:len(inout)]
	for len(inout) >= unroll {
		a, b := (*[unroll]T)(in), (*[unroll]T)(inout)
		b[0] *= a[0]
		b[1] *= a[1]
		b[2] *= a[2]
		b[3] *= a[3]
		b[4] *= a[4]
		b[5] *= a[5]
		b[6] *= a[6]
		b[7] *= a[7]
		in, inout = in[unroll:], inout[unroll:]
	}
	for i, v := range in {
		inout[i] *= v
	}
}

// Min keeps the least; NaN if there is one.
func Min[T Ordered](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] = min(inout[i], v)
	}
}

// Max keeps the greatest; NaN if there is one.
func Max[T Ordered](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] = max(inout[i], v)
	}
}

// And is the bitwise and.
func And[T Integer](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] &= v
	}
}

// Or is the bitwise or.
func Or[T Integer](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] |= v
	}
}

// Xor is the bitwise exclusive or.
func Xor[T Integer](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] ^= v
	}
}

// LAnd is the logical and: 1 if both are not 0, else 0.
func LAnd[T Number](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] = truth[T](v != 0 && inout[i] != 0)
	}
}

// LOr is the logical or: 1 if one is not 0, else 0.
func LOr[T Number](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] = truth[T](v != 0 || inout[i] != 0)
	}
}

// LXor is the logical exclusive or: 1 if one is 0 and the other is not, else 0.
func LXor[T Number](in, inout []T) {
	in = in[:len(inout)]
	for i, v := range in {
		inout[i] = truth[T]((v != 0) != (inout[i] != 0))
	}
}

func truth[T Number](v bool) T {
	if v {
		return 1
	}
	return 0
}
