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

// BenchmarkRead reads from a region of another process, with requests of different
// sizes. The memory is too large for the caches of a core, and its pages are mapped.
func BenchmarkRead(b *testing.B) {
	const size, span = 1 << 20, 64 << 20
	dir := fabricDir(b)
	q, ah := mustAttach(b, dir, device.QPConfig{})
	owner := startOwner(b, dir, span, device.RemoteRead)
	mine, err := portBehind(q).dev.Alloc(span, device.LocalWrite)
	require.NoError(b, err)
	defer mine.Close()
	wr := device.SendWR{AH: ah, QPN: owner.qpn, QKey: testQKey, Kind: device.WRRead, RKey: owner.key}
	each := func(b *testing.B, f func(at int)) {
		b.SetBytes(size)
		at := 0
		for b.Loop() {
			f(at)
			at = (at + size) % span
		}
	}
	p := portBehind(q)
	for at := 0; at < span; at += size {
		wr.Remote = owner.addr + uint64(at)
		fetch(b, p, wr, mine.Bytes()[at:at+size], size)
	}
	for _, chunk := range []int{16 << 10, 64 << 10, 256 << 10, 512 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("1MiB/by=%dKiB", chunk>>10), func(b *testing.B) {
			each(b, func(at int) {
				wr.Remote = owner.addr + uint64(at)
				fetch(b, p, wr, mine.Bytes()[at:at+size], chunk)
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
