package efanet_test

import (
	"context"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efanet"
)

// TestNothingLeft: however a connection ends, no frame of it stays with an endpoint that has
// other connections.
func TestNothingLeft(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	a, b := dial(t, l)
	ends := map[string]func(t *testing.T, a, b conn){
		"at once": func(*testing.T, conn, conn) {},
		"unread": func(t *testing.T, a, b conn) {
			for _, c := range []conn{a, b} {
				_, err := c.Write(make([]byte, 10_000))
				require.NoError(t, err)
			}
		},
		"half": func(t *testing.T, a, b conn) {
			require.NoError(t, a.CloseWrite())
			_, err := io.ReadAll(b)
			require.NoError(t, err)
			_, err = b.Write(make([]byte, 10_000))
			require.NoError(t, err)
			require.NoError(t, b.CloseWrite())
			_, err = io.ReadAll(a)
			require.NoError(t, err)
		},
		"long write, not read": func(t *testing.T, a, b conn) {
			wait := longWrite(t, a)
			assert.NoError(t, b.Close())
			wait()
		},
		"long write, partly read": func(t *testing.T, a, b conn) {
			wait := longWrite(t, a)
			_, err := io.ReadFull(b, make([]byte, 100_000))
			require.NoError(t, err)
			assert.NoError(t, b.Close())
			wait()
		},
		"long write, reading ended": func(t *testing.T, a, b conn) {
			require.NoError(t, b.CloseRead())
			longWrite(t, a)()
		},
		"long write, closed by the writer": func(t *testing.T, a, b conn) {
			wait := longWrite(t, a)
			_, err := b.Read(make([]byte, 1))
			require.NoError(t, err)
			assert.NoError(t, a.Close())
			wait()
		},
		"long write, withdrawn": func(t *testing.T, a, b conn) {
			wait := longWrite(t, a)
			require.NoError(t, a.SetWriteDeadline(time.Unix(1, 0)))
			wait()
			require.NoError(t, b.SetReadDeadline(time.Unix(1, 0)))
			_, err := b.Read(make([]byte, 1))
			require.Error(t, err)
		},
	}
	for name, end := range ends {
		for range 5 {
			a, b := dial(t, l)
			end(t, a, b)
			_ = a.Close() // perhaps for the second time
			_ = b.Close()
		}
		for _, c := range []net.Conn{a, b} {
			require.Eventually(t, func() bool {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				n, err := efanet.Unread(ctx, c)
				return assert.NoError(t, err) && n == 0
			}, time.Minute, time.Millisecond, name)
		}
	}
}

// TestEndedHalf: calls of a half that has ended return at once, also while the other side has not
// heard, or not read, that.
func TestEndedHalf(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	arrived := func(c net.Conn, n int) {
		require.Eventually(t, func() bool {
			got, err := efanet.Unread(t.Context(), c)
			return assert.NoError(t, err) && got == n
		}, time.Minute, time.Millisecond)
	}
	require.NoError(t, a.CloseWrite())
	arrived(b, 1) // FIN
	_, err := a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	require.NoError(t, b.CloseRead())
	_, err = b.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)

	require.NoError(t, a.CloseRead())
	arrived(b, 1) // STOP
	_, err = a.Read(make([]byte, 1))
	require.Equal(t, io.EOF, err)
}

// longWrite begins a write that does not succeed; wait waits for its end.
func longWrite(t *testing.T, c net.Conn) (wait func()) {
	var writing sync.WaitGroup
	writing.Go(func() {
		_, err := c.Write(make([]byte, 8<<20))
		assert.Error(t, err)
	})
	return writing.Wait
}
