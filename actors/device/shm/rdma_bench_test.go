//go:build linux

package shm

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// fetch carries out requests of at most chunk bytes until local has gone.
func fetch(t testing.TB, p *port, wr device.SendWR, local []byte, chunk int) {
	for len(local) > 0 {
		wr.Payload = local[:min(chunk, len(local))]
		if st := p.RDMA(&wr, 0); st != device.StatusOK {
			t.Fatal(st)
		}
		wr.Remote += uint64(len(wr.Payload))
		local = local[len(wr.Payload):]
	}
}

// BenchmarkRead reads 1 MiB from a region of another process, with requests of
// different sizes, and copies as much within a process. Warm is always the same
// memory; cold is too much for the caches of a core. All pages are mapped before.
func BenchmarkRead(b *testing.B) {
	b.Run("warm", func(b *testing.B) { readMiB(b, 1<<20) })
	b.Run("cold", func(b *testing.B) { readMiB(b, 64<<20) })
}

func readMiB(b *testing.B, span int) {
	const size = 1 << 20
	dir := fabricDir(b)
	q, ah := mustAttach(b, dir, device.QPConfig{})
	p := portBehind(q)
	owner := startOwner(b, dir, span, device.RemoteRead)
	mine, err := p.dev.Alloc(span, device.LocalWrite)
	require.NoError(b, err)
	defer mine.Close()
	wr := owner.wr(ah, device.WRRead, nil)
	fetch(b, p, *wr, mine.Bytes(), size)
	each := func(b *testing.B, f func(at int)) {
		b.SetBytes(size)
		at := 0
		for b.Loop() {
			f(at)
			at = (at + size) % span
		}
	}
	for _, chunk := range []int{64 << 10, maxRDMA, 1 << 20} {
		b.Run(fmt.Sprintf("1MiB/by=%dKiB", chunk>>10), func(b *testing.B) {
			each(b, func(at int) {
				wr.Remote = owner.addr + uint64(at)
				fetch(b, p, *wr, mine.Bytes()[at:at+size], chunk)
			})
		})
	}
	from := make([]byte, span)
	for i := range from {
		from[i] = byte(i)
	}
	b.Run("1MiB/memcpy", func(b *testing.B) {
		each(b, func(at int) { copy(mine.Bytes()[at:at+size], from[at:at+size]) })
	})
}
