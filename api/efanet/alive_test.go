package efanet_test

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
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
