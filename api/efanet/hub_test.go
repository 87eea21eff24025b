package efanet_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/internal/testenv"
)

// TestForgotten: who only waits for bytes learns that the other side has taken it for dead, and a
// connection that is opened later is alive.
func TestForgotten(t *testing.T) {
	t.Cleanup(efanet.AskEvery(time.Millisecond))
	l := listen(t, efanet.ListenConfig{})
	a, b := dial(t, l)
	_, err := a.Write([]byte("x"))
	require.NoError(t, err)
	_, err = b.Read(make([]byte, 8))
	require.NoError(t, err)
	efanet.TakeForDead(b)
	_, err = a.Read(make([]byte, 8))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.ECONNRESET)

	c, d := dial(t, l)
	for range 20 { // asked many times meanwhile
		_, err = c.Write([]byte("x"))
		require.NoError(t, err)
		n, err := d.Read(make([]byte, 8))
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
}

// asking is the body of a PING.
func asking(ep *efa.Endpoint, epoch uint64) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, epoch), ep.Address().String()...)
}

// TestPing: the answer to a PING is GONE unless its epoch is the receiver's.
func TestPing(t *testing.T) {
	s := newStranger(t)
	other := endpoint(t)
	for _, body := range [][]byte{nil, make([]byte, 7), asking(s.ep, 0), asking(s.ep, 1<<56), asking(other, 7), asking(s.ep, s.epoch)} {
		s.send(1, 0, kPing<<56, body) // no answer
	}
	s.send(1, 0, kPing<<56|1, asking(s.ep, 7))
	for _, epoch := range []uint64{8, s.epoch + 1} {
		s.send(1, 0, kPing<<56, asking(s.ep, epoch))
		d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(5, 0)})
		require.NoError(t, err)
		require.Equal(t, kGone<<56|epoch, d.Data)
		d.Release()
	}
}

// TestGone: GONE ends the connections of its epoch, of which the other side hears no more.
func TestGone(t *testing.T) {
	s := newStranger(t)
	s.send(5, 0, kGone<<56|strangersEpoch+1, nil) // of another epoch
	s.send(2, s.id, kData<<56, []byte("x"))
	_, err := s.conn.Read(make([]byte, 1))
	require.NoError(t, err)
	s.send(5, 0, kGone<<56|strangersEpoch, nil)
	_, err = s.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, s.conn.Close())
	s.quiet()
}

// TestNewEpoch: who opens a connection in a new epoch has forgotten those of the one before.
func TestNewEpoch(t *testing.T) {
	s := newStranger(t)
	s.send(1, 0, kOpen<<56|1, openingIn(s.ep, strangersID+1, 1<<20, strangersEpoch+1))
	_, err := s.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	c, err := s.listener.Accept()
	require.NoError(t, err)
	d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(4, strangersID+1)})
	require.NoError(t, err)
	id := d.Data & (1<<48 - 1)
	d.Release()
	s.send(2, id, kData<<56, []byte("x"))
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, s.conn.Close())
	s.quiet()
	s.send(2, id, kFin<<56|1, nil)
	s.send(4, id, kStop<<56, nil)
	require.NoError(t, c.Close())
}

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

// TestToNobody: frames to connections that there are not, or are somebody else's, and what is no frame at all, are
// thrown away as they come, and what is left of a connection when it is forgotten as well.
func TestToNobody(t *testing.T) {
	s := newStranger(t)
	heard := func() { // what was sent before has arrived
		s.send(1, 0, kPing<<56, asking(s.ep, 99))
		d, err := s.ep.NextTag(soon(t), efa.Match{Tag: tag(5, 0)})
		require.NoError(t, err)
		d.Release()
	}
	heard()
	n, err := efanet.Unread(soon(t), s.conn)
	require.NoError(t, err)
	require.Zero(t, n)
	for lane := range uint64(8) {
		s.send(lane, 1<<40, kData<<56, []byte("to nobody"))
		s.send(lane, s.id+1, kData<<56, []byte("to nobody"))
	}
	require.NoError(t, s.ep.SendTag(soon(t), s.to, s.id, []byte("no frame"), efa.Data(kData<<56)))
	require.NoError(t, s.ep.SendTag(soon(t), s.to, tag(2, s.id)+1<<60, []byte("no frame")))
	require.NoError(t, s.ep.Send(soon(t), s.to, []byte("no frame")))
	other := newBare(t, s.listener, efa.Setup{})
	require.NoError(t, other.ep.SendTag(soon(t), other.to, tag(2, s.id), []byte("not its"), efa.Data(kData<<56)))
	other.ask(kPing<<56, asking(other.ep, 99))
	other.answer(5, 0)
	heard()
	n, err = efanet.Unread(soon(t), s.conn)
	require.NoError(t, err)
	require.Zero(t, n)

	for at := range uint64(10) {
		s.send(2, s.id, kData<<56|at, []byte("x"))
	}
	heard()
	n, err = efanet.Unread(soon(t), s.conn)
	require.NoError(t, err)
	require.Equal(t, 10, n)
	s.send(5, 0, kGone<<56|strangersEpoch, nil)
	for err == nil {
		_, err = s.conn.Write([]byte("x"))
	}
	require.NoError(t, s.conn.Close())
	require.Eventually(t, func() bool {
		n, err := efanet.Unread(soon(t), s.conn)
		return err == nil && n == 0
	}, testenv.Hang, time.Millisecond)
}
