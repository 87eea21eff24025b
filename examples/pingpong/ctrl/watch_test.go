package ctrl

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWatchSeesThePartnerGo(t *testing.T) {
	conn, other := pair(t, true)
	w := conn.Watch(within(t))
	require.NoError(t, w.Alive.Err())
	require.NoError(t, w.Silent.Err())
	require.NoError(t, other.Close())
	<-w.Alive.Done()
	require.ErrorIs(t, context.Cause(w.Alive), ErrGone)
	require.ErrorIs(t, context.Cause(w.Silent), ErrGone)
	w.Stop()
	require.ErrorIs(t, conn.Sync(within(t)), ErrGone)
}

func TestWatchHearsThePartnerEarly(t *testing.T) {
	conn, other := pair(t, true)
	w := conn.Watch(within(t))
	answer := make(chan string, 1)
	go func() {
		_, _ = other.Write([]byte("5\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
		b := make([]byte, 64)
		n, _ := other.Read(b)
		answer <- string(b[:n])
	}()
	<-w.Silent.Done()
	require.ErrorIs(t, context.Cause(w.Silent), ErrEarly)
	require.NoError(t, w.Alive.Err(), "it is still there")
	w.Stop()
	require.Error(t, w.Alive.Err())

	n, err := conn.Count(within(t), 0) // what was heard is not lost
	require.NoError(t, err)
	require.Equal(t, 5, n)
	require.Equal(t, "cnt ok\x00", <-answer)
}

func TestWatchLeavesNothingBehind(t *testing.T) {
	s, c := conns(t)
	for i := range 100 {
		ws, wc := s.Watch(within(t)), c.Watch(within(t))
		ws.Stop()
		wc.Stop()
		done := make(chan error, 1)
		go func() { done <- s.Sync(within(t)) }()
		require.NoError(t, c.Sync(within(t)), i)
		require.NoError(t, <-done, i)
	}
}

func TestListenAndDial(t *testing.T) {
	l, err := Listen(within(t), AnyIP, "127.0.0.1", 0)
	require.NoError(t, err)
	require.NotZero(t, l.Port())
	_, err = Listen(within(t), AnyIP, "127.0.0.1", l.Port())
	require.ErrorContains(t, err, "is in use, perhaps by another server; choose another one with -B")

	done := make(chan error, 1)
	go func() {
		s, err := l.Accept(within(t))
		if err == nil {
			err = s.Sync(within(t))
			_ = s.Close()
		}
		done <- err
	}()
	c, err := Dial(within(t), AnyIP, "127.0.0.1", l.Port(), 0)
	require.NoError(t, err)
	require.False(t, c.Server())
	require.Equal(t, l.Port(), c.Partner().(*net.TCPAddr).Port)
	require.NoError(t, c.Sync(within(t)))
	require.NoError(t, <-done)
	require.ErrorIs(t, c.Sync(within(t)), ErrGone)
	require.NoError(t, c.Close())

	_, err = Dial(within(t), AnyIP, "127.0.0.1", l.Port(), 0) // takes only one
	require.ErrorContains(t, err, "start one there with -server")
}

func TestAcceptEndsWithItsContext(t *testing.T) {
	l, err := Listen(within(t), AnyIP, "127.0.0.1", 0)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(within(t))
	go cancel()
	_, err = l.Accept(ctx)
	require.ErrorIs(t, err, context.Canceled)
}
