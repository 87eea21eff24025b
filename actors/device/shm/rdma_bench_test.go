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
// different sizes, and copies the same amount within a process. Warm is always the
// same memory; cold exceeds the caches of a core. All pages are mapped before.
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

// BenchmarkForeign is one request to memory of Alloc, and to memory of a program
// that does not use this package.
func BenchmarkForeign(b *testing.B) {
	for _, size := range []int{8, 4 << 10, 64 << 10, maxRDMA} {
		for _, foreign := range []bool{false, true} {
			for kind, name := range map[device.WR]string{device.WRRead: "read", device.WRWrite: "write"} {
				b.Run(fmt.Sprintf("%s/size=%d/foreign=%v", name, size, foreign), func(b *testing.B) {
					c := newCouple(b, maxRDMA, remoteAll)
					if foreign {
						c.register(startProgram(b, maxRDMA, "open"), maxRDMA, remoteAll)
					}
					wr, p := c.wr(kind, make([]byte, size), 0), portBehind(c.a)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						if st := p.RDMA(wr, 0); st != device.StatusOK {
							b.Fatal(st)
						}
					}
				})
			}
		}
	}
}

// BenchmarkRegisterForeign makes a region, reads a byte of it and closes it.
func BenchmarkRegisterForeign(b *testing.B) {
	c := newCouple(b, 64, remoteAll)
	v := startProgram(b, 100, "open")
	for b.Loop() {
		mr, err := c.devB().RegisterForeign(v.pid(), v.addr, 100, remoteAll)
		require.NoError(b, err)
		c.mr = mr
		c.ends(c.wr(device.WRRead, make([]byte, 1), 0), device.StatusOK)
		require.NoError(b, mr.Close())
	}
}
