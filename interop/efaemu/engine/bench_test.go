package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// carrier is two programs of which one has sent to the other, for benchmarks.
func carrier(t testing.TB, n int) func() {
	_, a, b := pair(t, options{}, progConfig{cq: 8})
	at := b.alloc(make([]byte, n))
	wqe := piece(a, b, a.sge(a.mem.base(), n))
	return func() {
		b.desc(abi.RxDesc{Addr: at, Length: uint16(n), LKey: b.mr.LKey(), First: true, Last: true})
		b.ringRQ()
		b.e.Step()
		a.post(wqe)
		a.e.Step()
		b.e.Step()
	}
}

func TestStepsAllocateNothing(t *testing.T) {
	do := carrier(t, 1000)
	for range 100 {
		do()
	}
	require.Zero(t, testing.AllocsPerRun(100, do))
}

func BenchmarkSend(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"64", 64}, {"8000", 8000}} {
		b.Run("size="+size.name, func(b *testing.B) {
			do := carrier(b, size.n)
			b.ReportAllocs()
			b.SetBytes(int64(size.n))
			for b.Loop() {
				do()
			}
		})
	}
}

func BenchmarkIdleStep(b *testing.B) {
	_, p, _ := pair(b, options{}, progConfig{})
	for b.Loop() {
		p.e.Step()
	}
}
