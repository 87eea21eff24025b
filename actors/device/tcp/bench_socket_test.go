//go:build linux && !netpoll

package tcp

import (
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkSocket measures a bare socket: 16 MiB written 256 KiB at a time, and read
// into place by another thread.
func BenchmarkSocket(b *testing.B) {
	const total, size = 16 << 20, 256 << 10
	fds := socketPair(b)
	src, dst := make([]byte, total), make([]byte, total)
	for i := range total {
		src[i], dst[i] = byte(i), byte(i)
	}
	var v [2]unix.Iovec
	var w [maxIovecs]unix.Iovec
	done := make(chan struct{})
	b.SetBytes(total)
	b.ResetTimer()
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for range b.N {
			for off := 0; off < total; {
				n, _ := rawRead(fds[1], &v, dst[off:min(off+size, total)], nil)
				off += n
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	one := make([][]byte, 1)
	for range b.N {
		for off := 0; off < total; {
			one[0] = src[off:min(off+size, total)]
			n, _ := rawWrite(fds[0], &w, one)
			off += n
		}
	}
	<-done
}

// socketPair are two ends of a TCP connection that do not block.
func socketPair(tb testing.TB) (fds [2]int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(tb, err)
	s, err := l.Accept()
	require.NoError(tb, err)
	for i, x := range []net.Conn{c, s} {
		f, err := x.(*net.TCPConn).File()
		require.NoError(tb, err)
		require.NoError(tb, x.Close())
		tb.Cleanup(func() { _ = f.Close() })
		fds[i] = int(f.Fd())
		require.NoError(tb, unix.SetNonblock(fds[i], true))
	}
	return fds
}
