// Package atomics performs the operations of RTA packets (§3.3) on memory of this
// process: fi_atomic, fi_fetch_atomic and fi_compare_atomic at the target.
//
// # Operations
//
// [Valid] says which operations exist on which datatype. The table is that of
// package wire, which is libfabric's, except for long double and its complex type:
// Go has no such type, and hosts don't agree on one, so they can only be read and
// written, as bytes; and except for INT128, UINT128, FLOAT16, BFLOAT16 and DIFF, which have
// numbers of libfabric's that no release of its EFA provider performs.
//
// # Semantics
//
// With t, o and c for an element of target, operand and comparand:
//
//	MIN MAX            if t > o (t < o): t = o
//	SUM DIFF PROD      t + o, t - o, t * o; integers wrap around
//	LOR LAND LXOR      1 or 0 of the datatype; what differs from 0 is true
//	BOR BAND BXOR      t | o, t & o, t ^ o
//	CSWAP CSWAP_NE     if c == t (c != t): t = o
//	CSWAP_LE, _LT      if c <= t (c < t): t = o
//	CSWAP_GE, _GT      if c >= t (c > t): t = o
//	MSWAP              (o & c) | (t &^ c)
//	ATOMIC_WRITE       t = o
//	ATOMIC_READ        nothing
//
// Floating-point numbers compare by value: a NaN compares with nothing, so MIN, MAX
// and the swaps keep the target if a NaN is involved, and CSWAP_NE swaps; -0 equals
// 0. (A libfabric built with the compiler's atomics compares CSWAP by bits.) What is
// stored without arithmetic keeps its bits. Sums, differences and products
// round once each, to the nearest and of two as near to the even one, and
// are the same on every host, but for the bits of a NaN. The product of complex numbers is the textbook's, with
// no special treatment of infinities.
//
// # Atomicity
//
// Each element is updated at once, an array is not. Operations of one datatype at
// one address are atomic against each other, whichever goroutines perform them.
// Against Go code in this process:
//
//	element                               updated by         atomic against
//	32 and 64 bits, aligned; so are       compare and swap   sync/atomic on the
//	FLOAT, DOUBLE, and FLOAT_COMPLEX                         same word
//	on little-endian hosts
//	all others: 8 and 16 bits, 128 and    a lock of this     Apply only
//	256 bits, unaligned                   package
//
// Operations on overlapping elements of different datatypes or addresses tear, as
// they may in libfabric. An operation that changes nothing does not write.
//
// # Invariants
//
//   - Datatype and address alone decide which of the two ways is taken.
//   - Nothing is read or written beyond target, operand, comparand and result.
//   - Nothing is allocated. A goroutine holds one lock at a time, for at most the
//     elements that begin in one line of 64 bytes.
//
// Start reading at [Apply].
package atomics
