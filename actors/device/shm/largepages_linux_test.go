package shm

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
)

// inLargePages is how many bytes of this process's mappings of a file lie in large pages, a
// figure for each mapping.
func inLargePages(t *testing.T, name string) (sizes []int) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	begins := regexp.MustCompile(`^[0-9a-f]+-[0-9a-f]+ `)
	ours := false
	for line := range strings.Lines(string(b)) {
		if begins.MatchString(line) {
			ours = strings.Contains(line, name)
		}
		if kib, found := strings.CutPrefix(line, "ShmemPmdMapped:"); found && ours {
			n, err := strconv.Atoi(strings.Fields(kib)[0])
			require.NoError(t, err)
			sizes = append(sizes, n<<10)
		}
	}
	return sizes
}

// collapses reports whether the kernel gives large pages to those who ask for them.
func collapses(t *testing.T) bool {
	t.Helper()
	fd, err := unix.MemfdCreate("collapses", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.NoError(t, reserve(fd, largePage))
	mem, err := addresses(leastLarge, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, release(mem)) }()
	_, err = unix.MmapPtr(fd, 0, unsafe.Pointer(&mem[0]), largePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_FIXED)
	require.NoError(t, err)
	return unix.Madvise(mem[:largePage], madvCollapse) == nil
}

// A large region lies in large pages at its owner and at a reader, with the same bytes.
func TestLargePages(t *testing.T) {
	if !collapses(t) {
		t.Skip("this kernel gives no large pages to shared memory (MADV_COLLAPSE, Linux 6.1)")
	}
	const size = 3*largePage + 12345
	c := newCouple(t, size, device.RemoteRead)
	mem := c.mr.Bytes()
	for i := range mem {
		mem[i] = byte(i % 251)
	}
	name := "/memfd:" + sealedName + regionName(c.mr.RKey())
	require.Equal(t, []int{3 * largePage}, inLargePages(t, name), "the owner's: all that is whole")
	in := make([]byte, size)
	for off := 0; off < size; off += 1 << 20 {
		c.ends(c.wr(device.WRRead, in[off:min(off+1<<20, size)], off), device.StatusOK)
	}
	require.True(t, bytes.Equal(mem, in))
	require.ElementsMatch(t, []int{3 * largePage, 0, 3 * largePage}, inLargePages(t, name), "owner, reader's first page, reader's data")
}

// Addresses are where they are to be, and as many as they are to be.
func TestAddresses(t *testing.T) {
	for _, n := range []int{1, pageBytes + 1, leastLarge - pageBytes, leastLarge, leastLarge + 1} {
		for _, off := range []int{0, pageBytes, largePage - pageBytes} {
			mem, err := addresses(n, off)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(mem), n)
			require.Less(t, len(mem), n+pageBytes)
			if n >= leastLarge {
				require.EqualValues(t, off, uintptr(unsafe.Pointer(&mem[0]))%largePage)
			}
			require.NoError(t, release(mem))
		}
	}
}
