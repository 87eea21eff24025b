package efa

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

// failing is a listener that gives errors, then a connection, then its end.
type failing struct {
	net.Listener
	errs []error
	over bool
}

func (f *failing) Accept() (net.Conn, error) {
	switch {
	case len(f.errs) > 0:
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	case f.over:
		return nil, net.ErrClosed
	}
	f.over = true
	c, _ := net.Pipe()
	return c, nil
}

// ofAccept is the error as package net gives it.
func ofAccept(e syscall.Errno) error {
	return &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", e)}
}

// TestAcceptGoesOn: errors of a connection, and of a moment without descriptors or memory, are
// waited out, with a warning each and a pause that grows; afterwards connections are accepted, and the
// pauses begin anew.
func TestAcceptGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := []syscall.Errno{
			syscall.EMFILE, syscall.ENFILE, syscall.ECONNABORTED, syscall.ENOBUFS, syscall.ENOMEM, syscall.EINTR, syscall.EPROTO,
			syscall.ENETDOWN, syscall.EHOSTUNREACH, syscall.EPERM, syscall.ECONNRESET,
		}
		l := &failing{}
		for _, e := range all {
			l.errs = append(l.errs, ofAccept(e))
		}
		var log bytes.Buffer
		a := acceptor{l: l, log: slog.New(slog.NewTextHandler(&log, nil))}
		begin := clock.System.Now()
		c, err := a.accept(t.Context())
		require.NoError(t, err)
		require.NotNil(t, c)
		var want time.Duration
		for i := range all {
			want += min(firstPause<<i, maxPause)
		}
		require.Equal(t, want, clock.System.Now().Sub(begin))
		require.Equal(t, len(all), strings.Count(log.String(), "level=WARN"))

		l.over, l.errs = false, []error{ofAccept(syscall.EMFILE)}
		begin = clock.System.Now()
		_, err = a.accept(t.Context())
		require.NoError(t, err)
		require.Equal(t, firstPause, clock.System.Now().Sub(begin))

		c, err = a.accept(t.Context())
		require.NoError(t, err)
		require.Nil(t, c, "the listener is closed")
	})
}

// TestAcceptEnds: the end of a context ends a pause; an error of the listener itself is the caller's.
func TestAcceptEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		a := acceptor{l: &failing{errs: []error{ofAccept(syscall.EMFILE), ofAccept(syscall.EMFILE)}}, log: slog.New(slog.DiscardHandler)}
		c, err := a.accept(ctx)
		require.NoError(t, err)
		require.Nil(t, c)

		for _, e := range []error{ofAccept(syscall.EINVAL), ofAccept(syscall.ENOTSOCK), errors.New("of another kind of listener")} {
			a.l = &failing{errs: []error{e}}
			_, err = a.accept(t.Context())
			require.ErrorIs(t, err, e)
		}
	})
}
