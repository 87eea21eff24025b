//go:build linux && !netpoll

package tcp

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTLSStreamOwes: as long as writev has not reported a byte the other side cannot have
// all, and so cannot answer it: reading sends nothing of that.
func TestTLSStreamOwes(t *testing.T) {
	a, b := tlsPair(t)
	require.NoError(t, a.sendAll([]byte{0}))
	_, err := b.readSome(make([]byte, 1))
	require.NoError(t, err)
	s := a.stream.(*tlsStream)
	for s.owed == 0 { // until the socket is full
		_, err := a.writev([][]byte{counting(0, tlsChunk)})
		require.NoError(t, err)
	}
	p := make([]byte, 1<<20)
	for range 200 {
		_, err := b.readv(p, nil)
		require.NoError(t, err)
		_, err = a.readv(p, nil)
		require.NoError(t, err)
		require.NotEmpty(t, s.sock.held)
		_, _ = unix.Poll(nil, 1)
	}
}

// TestTLSStreamLastWords: no edge follows a close notification that was read together with
// the bytes before it, so they are reported together.
func TestTLSStreamLastWords(t *testing.T) {
	a, b := tlsPair(t)
	require.NoError(t, a.sendAll([]byte{0}))
	_, err := b.readSome(make([]byte, 1))
	require.NoError(t, err)
	s := a.stream.(*tlsStream)
	require.NoError(t, a.sendAll([]byte("last")))
	before, err := unix.IoctlGetInt(b.stream.(*tlsStream).sock.fd, unix.SIOCINQ)
	require.NoError(t, err)
	require.NoError(t, s.tls.CloseWrite()) // the connection itself stays
	require.NoError(t, s.flush())
	for n := 0; n <= before || s.unacked() > 0; {
		n, err = unix.IoctlGetInt(b.stream.(*tlsStream).sock.fd, unix.SIOCINQ)
		require.NoError(t, err)
	}
	p := make([]byte, 100)
	n, err := b.readv(p, nil)
	require.Equal(t, "last", string(p[:n]))
	require.ErrorIs(t, err, io.EOF)
}
