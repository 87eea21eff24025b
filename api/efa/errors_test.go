package efa_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

// TestErrnos compares the numbers with libfabric's fi_errno.h, and what errors.Is
// finds in them.
func TestErrnos(t *testing.T) {
	for _, x := range []struct {
		err  efa.Errno
		num  int
		also []error
	}{
		{efa.ErrIO, 5, []error{syscall.EIO}},
		{efa.ErrAgain, 11, []error{syscall.EAGAIN}},
		{efa.ErrNoMemory, 12, []error{syscall.ENOMEM}},
		{efa.ErrBusy, 16, []error{syscall.EBUSY}},
		{efa.ErrInvalid, 22, []error{syscall.EINVAL}},
		{efa.ErrMsgSize, 90, []error{syscall.EMSGSIZE}},
		{efa.ErrNotSupported, 95, []error{syscall.EOPNOTSUPP}},
		{efa.ErrAddrNotAvail, 99, []error{syscall.EADDRNOTAVAIL}},
		{efa.ErrClosed, 108, []error{syscall.ESHUTDOWN, net.ErrClosed, os.ErrClosed}},
		{efa.ErrTimedOut, 110, []error{syscall.ETIMEDOUT, os.ErrDeadlineExceeded}},
		{efa.ErrHostUnreach, 113, []error{syscall.EHOSTUNREACH}},
		{efa.ErrCanceled, 125, []error{syscall.ECANCELED, context.Canceled}},
		{efa.ErrBadState, 258, nil},
		{efa.ErrDomain, 262, nil},
		{efa.ErrNoCQ, 263, nil},
		{efa.ErrTruncated, 265, nil},
		{efa.ErrNoRx, 269, nil},
	} {
		wrapped := error(&efa.OpError{Op: "send", Peer: 3, Err: x.err})
		require.EqualValues(t, x.num, x.err)
		require.ErrorIs(t, wrapped, x.err)
		for _, e := range x.also {
			require.ErrorIs(t, wrapped, e)
		}
		for _, e := range []error{context.Canceled, context.DeadlineExceeded, net.ErrClosed, os.ErrDeadlineExceeded, efa.ErrPeerFailed} {
			if !errors.Is(e, e) || slices.Contains(x.also, e) {
				continue
			}
			require.NotErrorIs(t, wrapped, e)
		}
		var n efa.Errno
		require.ErrorAs(t, wrapped, &n)
		require.Equal(t, x.err, n)
		require.NotEmpty(t, x.err.Error())
	}
	require.Equal(t, "efa: send, peer 3: message too long", (&efa.OpError{Op: "send", Peer: 3, Err: efa.ErrMsgSize}).Error())
	require.Equal(t, "efa: recv: operation canceled", (&efa.OpError{Op: "recv", Peer: efa.NoAddr, Err: efa.ErrCanceled}).Error())
}
