package sys_test

import (
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/sys"
)

func TestEvent(t *testing.T) {
	r, w, err := sys.OpenEvent()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, sys.CloseEvent(r))
		if w != r {
			require.NoError(t, sys.CloseEvent(w))
		}
	})
	require.False(t, sys.WaitEvent(r, time.Microsecond))
	for range 100 {
		sys.SignalEvent(w)
	}
	require.True(t, sys.WaitEvent(r, 0))
	sys.DrainEvent(r)
	require.False(t, sys.WaitEvent(r, 0))
	go sys.SignalEvent(w)
	for !sys.WaitEvent(r, -1) { // a signal has ended it
	}
}

func TestAnonymous(t *testing.T) {
	for _, size := range []int{os.Getpagesize(), 4 << 20} {
		mem, err := sys.Anonymous(size, size > 1<<20)
		require.NoError(t, err)
		require.Len(t, mem, size)
		mem[size-1]++
		require.NoError(t, sys.Unmap(mem))
	}
}

// TestProcess reads and writes this process's own memory by its number.
func TestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		_, err := sys.ReadProcess(os.Getpid(), nil, 0)
		require.ErrorIs(t, err, sys.ErrUnsupported)
		return
	}
	mem, err := sys.Anonymous(os.Getpagesize(), false)
	require.NoError(t, err)
	addr := addressOf(mem)
	n, err := sys.WriteProcess(os.Getpid(), []byte("text"), addr+5)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	require.Equal(t, "text", string(mem[5:9]))
	got := make([]byte, 4)
	n, err = sys.ReadProcess(os.Getpid(), got, addr+5)
	require.NoError(t, err)
	require.Equal(t, "text", string(got[:n]))
	n, err = sys.ReadProcess(os.Getpid(), nil, 0)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, sys.Unmap(mem))
	_, err = sys.ReadProcess(os.Getpid(), got, 1)
	require.ErrorIs(t, err, syscall.EFAULT)
	require.Zero(t, testing.AllocsPerRun(10, func() { _, _ = sys.ReadProcess(os.Getpid(), got, 1) }))
}

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
