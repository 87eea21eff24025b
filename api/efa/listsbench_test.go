package efa_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// BenchmarkLists writes 256 blocks to scattered places of a peer's memory, by one call and by
// 256 calls, through shared memory.
func BenchmarkLists(b *testing.B) {
	const blocks = 256
	for _, size := range []int{64, 4096} {
		for _, calls := range []int{1, blocks} {
			b.Run(fmt.Sprintf("block=%d/calls=%d", size, calls), func(b *testing.B) {
				x, y := lab{shm: true, mode: efa.ProgressManual, depth: 512}.open(b)
				there, here := alloc(b, y, 2*blocks*size, remote), alloc(b, x, 2*blocks*size, 0).Bytes()
				var at []efa.Remote
				var from [][]byte
				for i := range blocks {
					at = append(at, there.Remote().Slice(uint64((blocks-i)*2*size-size), uint64(size)))
					from = append(from, here[2*i*size:][:size])
				}
				ctx := context.Background()
				cs := make([]efa.Completion, blocks)
				b.ReportAllocs()
				b.SetBytes(int64(blocks * size))
				one := func() {
					if calls == 1 {
						_, err := x.ep.PostWrite(&efa.WriteReq{To: x.peer, Ats: at, Bufs: from, Level: efa.Delivered})
						require.NoError(b, err)
					} else {
						for i := range blocks {
							_, err := x.ep.PostWrite(&efa.WriteReq{To: x.peer, At: at[i], Buf: from[i], Level: efa.Delivered})
							require.NoError(b, err)
						}
					}
					for left := calls; left > 0; {
						n, err := x.ep.SendQueue().Read(ctx, cs[:left])
						require.NoError(b, err)
						left -= n
					}
				}
				one()
				b.ResetTimer()
				for range b.N {
					one()
				}
			})
		}
	}
}
