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
		{efa.ErrNoEntry, 2, []error{syscall.ENOENT}},
		{efa.ErrIO, 5, []error{syscall.EIO}},
		{efa.ErrAgain, 11, []error{syscall.EAGAIN}},
		{efa.ErrNoMemory, 12, []error{syscall.ENOMEM}},
		{efa.ErrAccess, 13, []error{syscall.EACCES}},
		{efa.ErrBusy, 16, []error{syscall.EBUSY}},
		{efa.ErrInvalid, 22, []error{syscall.EINVAL}},
		{efa.ErrNoMessage, 42, []error{syscall.ENOMSG}},
		{efa.ErrNoData, 61, []error{syscall.ENODATA}},
		{efa.ErrMsgSize, 90, []error{syscall.EMSGSIZE}},
		{efa.ErrNotSupported, 95, []error{syscall.EOPNOTSUPP}},
		{efa.ErrAddrNotAvail, 99, []error{syscall.EADDRNOTAVAIL}},
		{efa.ErrConnAborted, 103, []error{syscall.ECONNABORTED}},
		{efa.ErrNoBuffers, 105, []error{syscall.ENOBUFS}},
		{efa.ErrNotConnected, 107, []error{syscall.ENOTCONN}},
		{efa.ErrClosed, 108, []error{syscall.ESHUTDOWN, net.ErrClosed, os.ErrClosed}},
		{efa.ErrTimedOut, 110, []error{syscall.ETIMEDOUT, os.ErrDeadlineExceeded}},
		{efa.ErrHostUnreach, 113, []error{syscall.EHOSTUNREACH}},
		{efa.ErrAlready, 114, []error{syscall.EALREADY}},
		{efa.ErrRemoteIO, 121, nil},
		{efa.ErrCanceled, 125, []error{syscall.ECANCELED, context.Canceled}},
		{efa.ErrOther, 256, nil},
		{efa.ErrTooSmall, 257, nil},
		{efa.ErrBadState, 258, nil},
		{efa.ErrAvail, 259, nil},
		{efa.ErrBadFlags, 260, nil},
		{efa.ErrNoEQ, 261, nil},
		{efa.ErrDomain, 262, nil},
		{efa.ErrNoCQ, 263, nil},
		{efa.ErrCRC, 264, nil},
		{efa.ErrTruncated, 265, nil},
		{efa.ErrNoKey, 266, nil},
		{efa.ErrNoAV, 267, nil},
		{efa.ErrOverrun, 268, nil},
		{efa.ErrNoRx, 269, nil},
		{efa.ErrNoMR, 270, nil},
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
		require.Equal(t, x.err, efa.Number(wrapped))
	}
	require.Equal(t, "efa: send, peer 3: message too long", (&efa.OpError{Op: "send", Peer: 3, Err: efa.ErrMsgSize}).Error())
	require.Equal(t, "efa: recv: operation canceled", (&efa.OpError{Op: "recv", Peer: efa.NoAddr, Err: efa.ErrCanceled}).Error())
}
