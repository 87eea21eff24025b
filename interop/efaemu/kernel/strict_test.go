//go:build linux

package kernel_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/memory"
)

// Mappings that a kernel would have refused are found when the queue is destroyed.
func TestMappingsOfDestroyed(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  func(ring, db *kernel.Mapping)
		want string
	}{
		{"as they should be", func(_, _ *kernel.Mapping) {}, ""},
		{"ring too long", func(r, _ *kernel.Mapping) { r.Length += 4096 }, "map-length: CQ ring: 8192 bytes at 0x0 mapped, not 4096 at 0x0"},
		{"ring begins later", func(r, _ *kernel.Mapping) { r.Offset, r.Length = 2048, 2048 }, "map-length: CQ ring: 2048 bytes at 0x800 mapped, not 4096 at 0x0"},
		{"private", func(_, d *kernel.Mapping) { d.Shared = false }, "map-private: CQ doorbell: the mapping at 0x2000 is private"},
		{"ring writable", func(r, _ *kernel.Mapping) { r.Prot = 3 }, "map-prot: CQ ring: mapped with protection 3 where 1 is enough"},
		{"doorbell readable", func(_, d *kernel.Mapping) { d.Prot = 3 }, "map-prot: CQ doorbell: mapped with protection 3 where 2 is enough"},
		{"executable", func(_, d *kernel.Mapping) { d.Prot = 6 }, "map-prot: CQ doorbell: mapped with protection 6 where 2 is enough"},
		{"unmapped before", func(r, d *kernel.Mapping) { r.Offset, d.Offset = 1<<24, 1<<25 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, "efa")
			h, cq := p.cq(1, -1)
			ring := kernel.Mapping{Start: 1 << 40, Offset: cq.Key, Length: cq.Size, Prot: unix.PROT_READ, Shared: true}
			db := kernel.Mapping{Start: 1 << 41, Offset: cq.DoorbellKey, Length: 4096, Prot: unix.PROT_WRITE, Shared: true}
			c.bad(&ring, &db)
			p.maps = []kernel.Mapping{ring, db}
			p.destroyCQ(h)
			found, n := p.log.Take()
			if c.want == "" {
				require.Zero(t, n, "%v", found)
				return
			}
			require.Equal(t, 1, n, "%v", found)
			assert.Equal(t, c.want, found[0].String())
		})
	}
}

// elsewhere is the memory of another process.
type elsewhere struct{ memory.Space }

func (elsewhere) PID() int { return 1 }

// A child of fork can use what its parent has made, but for memory.
func TestOtherProcess(t *testing.T) {
	p := newProgram(t, "efa")
	pd := p.pd()
	m := abi.RegMR{Start: p.at(0), IOVA: p.at(0), Length: 4096, PD: uint32(pd)}
	m.Append(p.page[8192:8192])
	require.Zero(t, p.command(abi.CmdRegMR, abi.RegMRLen, abi.RegMRRespLen))
	p.space = elsewhere{p.space}
	assert.Equal(t, unix.EOPNOTSUPP, p.command(abi.CmdRegMR, abi.RegMRLen, abi.RegMRRespLen))
	found, n := p.log.Take()
	require.Equal(t, 1, n)
	assert.Equal(t, "other-process", found[0].Rule)
	mr := uint64(le.Uint32(p.page[12288:]))
	assert.Zero(t, p.call(abi.ObjectMR, abi.MRDestroy, abi.Attr{ID: abi.DestroyHandle, Data: mr}))
}

// The file can neither shrink, which would kill processes that have it mapped, nor
// grow.
func TestSealed(t *testing.T) {
	p := newProgram(t, "efa")
	fd := p.ctx.FD()
	assert.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
	assert.ErrorIs(t, unix.Ftruncate(fd, 1<<40), unix.EPERM)
	_, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE)
	assert.ErrorIs(t, err, unix.EPERM)
	r, ok := p.ctx.Region(0)
	assert.False(t, ok, "%v", r)
}

// A closed context answers, too.
func TestClosed(t *testing.T) {
	p := newProgram(t, "efa")
	p.ctx.Close()
	assert.Equal(t, unix.EBADF, p.ctx.Ioctl(p, abi.IoctlVerbs, p.at(0)))
}
