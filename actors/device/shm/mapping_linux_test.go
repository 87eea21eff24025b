//go:build linux

package shm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// couple is two devices with a queue pair each, and a region at the second.
type couple struct {
	testing.TB
	dir  string
	a, b device.QP
	ah   device.AH
	mr   device.MR
}

func newCouple(t testing.TB, size int, access device.Access) *couple {
	t.Helper()
	c := &couple{TB: t, dir: fabricDir(t)}
	c.a, c.ah = mustAttach(t, c.dir, device.QPConfig{})
	c.b, _ = mustAttach(t, c.dir, device.QPConfig{QKey: testQKey, RQDepth: 2})
	c.mr = c.alloc(size, access)
	return c
}

func (c *couple) devA() *attachment { return portBehind(c.a).dev }
func (c *couple) devB() *attachment { return portBehind(c.b).dev }

// alloc makes a region at b, which is closed at the end.
func (c *couple) alloc(size int, access device.Access) device.MR {
	c.Helper()
	mr, err := c.devB().Alloc(size, access)
	require.NoError(c, err)
	c.Cleanup(func() { _ = mr.Close() })
	return mr
}

func (c *couple) wr(kind device.WR, local []byte, off int) *device.SendWR {
	return &device.SendWR{
		AH: c.ah, QPN: c.b.QPN(), QKey: testQKey, Kind: kind, Payload: local,
		RKey: c.mr.RKey(), Remote: c.mr.Addr() + uint64(off),
	}
}

func (c *couple) ends(wr *device.SendWR, st device.Status) {
	c.Helper()
	require.Equal(c, st, statusOf(c, c.a, wr))
}

// file opens the region's file, to look at it.
func (c *couple) file(mr device.MR) *os.File {
	f, err := os.OpenFile(filepath.Join(c.dir, regionName(mr.RKey())), os.O_RDWR, 0)
	require.NoError(c, err)
	defer f.Close()
	var h regionHeader
	_, err = f.ReadAt(unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), 0)
	require.NoError(c, err)
	fd, err := h.sealed.open(unix.O_RDWR)
	require.NoError(c, err)
	m := os.NewFile(uintptr(fd), "memory")
	c.Cleanup(func() { _ = m.Close() })
	return m
}

// blocks is how much memory a file has, in pages.
func blocks(t testing.TB, f *os.File) int {
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	return int(st.Blocks) * 512 / pageBytes
}

func TestReadWrite(t *testing.T) {
	const size = 3*maxRDMA + 77
	c := newCouple(t, size, remoteAll)
	require.Len(t, c.mr.Bytes(), size)
	require.Equal(t, size, cap(c.mr.Bytes()))
	require.Zero(t, bytes.Count(c.mr.Bytes(), []byte{1}))
	require.True(t, c.mr.Remote())
	want := make([]byte, size)
	for i, n := range []int{0, 1, 63, 64, 4096, 8760, 70_001, maxRDMA} {
		for _, off := range []int{0, 1, 4095, size - n} {
			data := parcel(make([]byte, max(n, 16)), uint64(i*size+off+1))[:n]
			c.ends(c.wr(device.WRWrite, data, off), device.StatusOK)
			copy(want[off:], data)
			back := make([]byte, n)
			c.ends(c.wr(device.WRRead, back, off), device.StatusOK)
			require.Equal(t, data, back)
		}
	}
	require.Equal(t, want, c.mr.Bytes(), "nothing beside what was written")
	require.Equal(t, 1, c.devA().mappings.size())
	require.ErrorIs(t, c.a.PostSend(c.wr(device.WRRead, make([]byte, maxRDMA+1), 0)), device.ErrTooLong)
}

// A queue pair reaches the regions of its own device, too.
func TestOwnRegion(t *testing.T) {
	q, ah := mustAttach(t, fabricDir(t), device.QPConfig{})
	mr, err := portBehind(q).dev.Alloc(100, device.RemoteRead)
	require.NoError(t, err)
	copy(mr.Bytes(), "mine")
	local := make([]byte, 4)
	wr := &device.SendWR{
		AH: ah, QPN: q.QPN(), Kind: device.WRRead, Payload: local, RKey: mr.RKey(), Remote: mr.Addr(),
	}
	require.Equal(t, device.StatusOK, statusOf(t, q, wr))
	require.Equal(t, "mine", string(local))
	require.NoError(t, mr.Close())
	require.ErrorIs(t, mr.Close(), device.ErrClosed)
	require.Equal(t, device.StatusBadAddress, statusOf(t, q, wr))
}

func TestRefused(t *testing.T) {
	const size = 10_000
	c := newCouple(t, size, remoteAll)
	local := make([]byte, 100)
	for name, spoil := range map[string]func(wr *device.SendWR){
		"key":    func(wr *device.SendWR) { wr.RKey ^= 1 },
		"no key": func(wr *device.SendWR) { wr.RKey = 0 },
		"before": func(wr *device.SendWR) { wr.Remote-- },
		"end":    func(wr *device.SendWR) { wr.Remote += size - 99 },
		"after":  func(wr *device.SendWR) { wr.Remote += size + 1 },
		"far":    func(wr *device.SendWR) { wr.Remote = 0 },
		"wrap":   func(wr *device.SendWR) { wr.Remote = ^uint64(0) - 10 },
	} {
		for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
			wr := c.wr(kind, local, 0)
			spoil(wr)
			require.Equal(t, device.StatusBadAddress, statusOf(t, c.a, wr), name)
		}
	}
	c.ends(c.wr(device.WRRead, nil, size), device.StatusOK) // no bytes, at its end
	c.ends(c.wr(device.WRRead, nil, size+1), device.StatusBadAddress)

	for access, may := range map[device.Access][2]bool{
		device.LocalWrite:                      {false, false},
		device.RemoteRead:                      {true, false},
		device.RemoteWrite:                     {false, true},
		device.RemoteRead | device.RemoteWrite: {true, true},
	} {
		c.mr = c.alloc(size, access)
		for i, kind := range []device.WR{device.WRRead, device.WRWrite} {
			want := device.StatusBadAddress
			if may[i] {
				want = device.StatusOK
			}
			require.Equal(t, want, statusOf(t, c.a, c.wr(kind, local, 5)), "access %d, kind %d", access, kind)
		}
	}

	// A region of another device than that of the queue pair.
	mine, err := c.devA().Alloc(size, remoteAll)
	require.NoError(t, err)
	wr := c.wr(device.WRRead, local, 0)
	wr.RKey, wr.Remote = mine.RKey(), mine.Addr()
	c.ends(wr, device.StatusBadAddress)
	wr.QPN, wr.QKey = c.a.QPN(), 0
	c.ends(wr, device.StatusOK)
	require.NoError(t, mine.Close())

	_, err = c.devB().Alloc(0, remoteAll)
	require.ErrorIs(t, err, device.ErrNotSupported)
	_, err = c.devB().Alloc(-1, remoteAll)
	require.ErrorIs(t, err, device.ErrNotSupported)
	_, err = c.devB().Alloc(1<<45, remoteAll)
	require.ErrorIs(t, err, device.ErrNoMemory)
	_, err = c.devB().Alloc(100, 0x80)
	require.ErrorIs(t, err, device.ErrNotSupported)
	require.ErrorIs(t, c.a.PostSend(&device.SendWR{AH: c.ah, Kind: 9}), device.ErrNotSupported)
}

// Registered memory has a key, and only its own process reaches it.
func TestRegister(t *testing.T) {
	c := newCouple(t, 100, remoteAll)
	mem := make([]byte, 1000)
	mr, err := c.devB().Register(mem, remoteAll)
	require.NoError(t, err)
	require.False(t, mr.Remote())
	require.NotZero(t, mr.RKey())
	require.NotEqual(t, c.mr.RKey(), mr.RKey())
	require.Same(t, &mem[0], &mr.Bytes()[0])
	c.mr = mr
	c.ends(c.wr(device.WRRead, make([]byte, 10), 0), device.StatusBadAddress)
	require.Error(t, c.devB().Close())
	require.NoError(t, mr.Close())
	require.ErrorIs(t, mr.Close(), device.ErrClosed)
	_, err = c.devB().Register(nil, 0)
	require.Error(t, err)
}

// The queue pair of a request must be there, with the right Q_Key.
func TestRDMATarget(t *testing.T) {
	c := newCouple(t, 100, remoteAll)
	wr := c.wr(device.WRRead, make([]byte, 10), 0)
	wr.QKey++
	c.ends(wr, device.StatusBadDestQPN)
	wr.QKey--
	wr.QPN ^= 0x100
	c.ends(wr, device.StatusBadDestQPN)
	wr.QPN ^= 0x100
	c.ends(wr, device.StatusOK)
	wr.QKey++
	c.ends(wr, device.StatusBadDestQPN)
	wr.QKey--
	stranger, err := c.a.CreateAH(device.GID{1})
	require.NoError(t, err)
	wr.AH = stranger
	c.ends(wr, device.StatusBadDestQPN)
	wr.AH = c.ah
	require.NoError(t, c.b.Close())
	c.ends(wr, device.StatusBadDestQPN)
	require.NoError(t, c.mr.Close())
}

// mappingsOf lists this process's mappings of a file with their rights.
func mappingsOf(t testing.TB, name string) (rights []string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, name) {
			rights = append(rights, strings.Fields(line)[1])
		}
	}
	return rights
}

// A process without the right to write to a region has it mapped read-only.
func TestReadOnly(t *testing.T) {
	c := newCouple(t, 1000, device.RemoteRead)
	name := "/memfd:" + sealedName + regionName(c.mr.RKey())
	require.Equal(t, []string{"rw-s"}, mappingsOf(t, name))
	c.ends(c.wr(device.WRRead, make([]byte, 10), 0), device.StatusOK)
	require.ElementsMatch(t, []string{"rw-s", "rw-s", "r--s"}, mappingsOf(t, name), "owner, first page, data")
	v := (*c.devA().mappings.byKey.Load())[c.mr.RKey()]
	require.ErrorIs(t, unix.Mprotect(v.data, unix.PROT_READ|unix.PROT_WRITE), unix.EACCES)

	c.mr = c.alloc(1000, device.RemoteWrite)
	name = "/memfd:" + sealedName + regionName(c.mr.RKey())
	c.ends(c.wr(device.WRWrite, make([]byte, 10), 0), device.StatusOK)
	for _, r := range mappingsOf(t, name) {
		require.Equal(t, "rw-s", r)
	}
}

func TestRDMADoesNotAllocate(t *testing.T) {
	c := newCouple(t, 1000, remoteAll)
	p := portBehind(c.a)
	for _, kind := range []device.WR{device.WRRead, device.WRWrite} {
		wr := c.wr(kind, make([]byte, 100), 0)
		require.Zero(t, testing.AllocsPerRun(1000, func() {
			if p.RDMA(wr, 0) != device.StatusOK {
				t.Fail()
			}
		}))
	}
}
