package efa_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestCopies counts how often a message is copied on its way, with the receive posted first: through
// shared memory by the device into the receiver's memory and from there to its place, or once by the device that
// reads it; over tcp, beside the way through the socket, of which one copy is counted, the first packet alone.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		name   string
		lab    lab
		size   int
		alloc  bool
		want   string
		copies float64
	}{
		{"plain slices", lab{shm: true, depth: 16}, 1 << 20, false, "long-CTS", 2},
		{"Alloc", lab{shm: true, depth: 16}, 1 << 20, true, "long-read", 1},
		{"tcp", lab{tcp: true}, 64 << 10, false, "medium", 1.135},
	} {
		t.Run(c.name, func(t *testing.T) {
			size := c.size
			a, b := c.lab.open(t)
			marker(t, a, b)
			marker(t, b, a) // each has the other's HANDSHAKE
			src, dst := make([]byte, size), make([]byte, size)
			if c.alloc {
				src, dst = alloc(t, a, size, 0).Bytes(), alloc(t, b, size, 0).Bytes()
			}
			copied := func() (n uint64) {
				for _, s := range []*side{a, b} {
					stats, err := s.ep.Stats(testContext(t))
					require.NoError(t, err)
					n += stats["Queue.SendBytes"] + stats["Queue.RDMABytes"] + stats["Copied"]
				}
				return n
			}
			before := copied()
			recv := start(t, b, &efa.RecvReq{Buf: dst})
			send := done(t, start(t, a, &efa.SendReq{To: a.peer, Buf: src}))
			done(t, recv)
			require.Equal(t, c.want, send.Protocol.String())
			require.InDelta(t, c.copies, float64(copied()-before)/float64(size), .02, "the headers are the rest, and a copy of the first packet if it came before the receive")
			require.Equal(t, src, dst)
		})
	}
}

// BenchmarkLarge sends large messages through shared memory from and to memory of
// Alloc, which the receiver's device reads, and from and to plain slices.
func BenchmarkLarge(b *testing.B) {
	for _, size := range []int{256 << 10, 1 << 20, 4 << 20, 16 << 20} {
		for _, kind := range []string{"plain", "alloc"} {
			b.Run(fmt.Sprintf("size=%dK/memory=%s", size>>10, kind), func(b *testing.B) {
				x, y := lab{shm: true, depth: 16}.open(b)
				src, dst := make([]byte, size), make([]byte, size)
				if kind == "alloc" {
					src, dst = alloc(b, x, size, 0).Bytes(), alloc(b, y, size, 0).Bytes()
				}
				ctx := context.Background()
				ended := make(chan error, 1)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				go func() {
					for range b.N {
						if err := x.ep.Send(ctx, x.peer, src); err != nil {
							ended <- err
							return
						}
					}
					ended <- nil
				}()
				for range b.N {
					if _, err := y.ep.Recv(ctx, dst); err != nil {
						b.Fatal(err)
					}
				}
				require.NoError(b, <-ended)
			})
		}
	}
}
