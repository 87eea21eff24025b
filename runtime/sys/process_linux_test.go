package sys

import (
	"bytes"
	"os"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestOwnMemory: this process's memory by way of a pipe. After a fault nothing is left in it.
func TestOwnMemory(t *testing.T) {
	var o own
	page := os.Getpagesize()
	b, err := unix.Mmap(-1, 0, 20*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	addr := uint64(uintptr(unsafe.Pointer(&b[0])))
	defer func() {
		require.NoError(t, unix.Munmap(b))
		require.NoError(t, unix.Close(o.ends[0]))
		require.NoError(t, unix.Close(o.ends[1]))
	}()
	move := func(want int, p []byte, addr uint64, write bool) {
		t.Helper()
		n, err := o.move(p, addr, write)
		if want == 0 {
			require.ErrorIs(t, err, unix.EFAULT)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, want, n)
	}
	text := bytes.Repeat([]byte("abcdefg"), 8*page/7)
	got := make([]byte, len(text))
	for range 2 {
		require.NoError(t, unix.Mprotect(b[10*page:11*page], unix.PROT_READ|unix.PROT_WRITE))
		clear(b)
		clear(got)
		move(len(text), text, addr+3, true)
		require.True(t, bytes.Equal(text, b[3:3+len(text)]))
		move(len(text), got, addr+3, false)
		require.True(t, bytes.Equal(text, got))
		require.NoError(t, unix.Mprotect(b[10*page:11*page], unix.PROT_READ))
		move(0, text[:1], addr+10*uint64(page), true)
		move(10, got[:10], addr+10*uint64(page), false)
		require.NoError(t, unix.Mprotect(b[10*page:11*page], unix.PROT_NONE))
		move(0, got, addr+10*uint64(page), false)
		move(0, text[:1], 0, true)
		n, err := o.move(got, 1<<64-2, false)
		require.Error(t, err)
		require.Zero(t, n)
	}
}
