package coll_test

import (
	"testing"

	"github.com/efactor/efactor/api/coll"
)

// BenchmarkOp is the loops that reductions consist of, on data in cache.
func BenchmarkOp(b *testing.B) {
	b.Run("op=sum/type=float32", func(b *testing.B) { benchOp(b, coll.Sum[float32], 4) })
	b.Run("op=sum/type=float64", func(b *testing.B) { benchOp(b, coll.Sum[float64], 8) })
	b.Run("op=sum/type=int32", func(b *testing.B) { benchOp(b, coll.Sum[int32], 4) })
	b.Run("op=sum/type=uint8", func(b *testing.B) { benchOp(b, coll.Sum[uint8], 1) })
	b.Run("op=sum/type=complex128", func(b *testing.B) { benchOp(b, coll.Sum[complex128], 16) })
	b.Run("op=prod/type=float64", func(b *testing.B) { benchOp(b, coll.Prod[float64], 8) })
	b.Run("op=min/type=float64", func(b *testing.B) { benchOp(b, coll.Min[float64], 8) })
	b.Run("op=max/type=int64", func(b *testing.B) { benchOp(b, coll.Max[int64], 8) })
	b.Run("op=xor/type=uint64", func(b *testing.B) { benchOp(b, coll.Xor[uint64], 8) })
	b.Run("op=land/type=int32", func(b *testing.B) { benchOp(b, coll.LAnd[int32], 4) })
	b.Run("op=copy", func(b *testing.B) { benchOp(b, func(in, inout []byte) { copy(inout, in) }, 1) })
}

func benchOp[T any](b *testing.B, op coll.Op[T], size int) {
	const bytes = 16 << 10
	in, inout := make([]T, bytes/size), make([]T, bytes/size)
	b.SetBytes(bytes)
	for b.Loop() {
		op(in, inout)
	}
}
